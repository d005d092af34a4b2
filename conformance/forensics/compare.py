"""Before and after: did the hit rate change because something was mended, or because usage changed?"""

from __future__ import annotations

from dataclasses import dataclass

from conformance.forensics.constants import Constant, Status
from conformance.forensics.sketches import Quantiles
from conformance.forensics.streams import Log, Tally

ALIKE = 1.5
"""Prompts count as alike when their medians and 90 % points differ by no more than this factor."""

COLD_POINTS = 0.10
"""Cold starts count as alike when their shares of requests differ by no more than this, of 1."""


@dataclass(frozen=True)
class Side:
    """One group of requests in one period. Prompts in tokens; `cold` is the share of requests below the constant that
    was found before, or without any hit where none was."""

    requests: int
    share: float
    prompt: int
    rate: float
    low: int
    median: int
    high: int
    cold: float


@dataclass(frozen=True)
class Group:
    """One client on one entry, before and after."""

    entry: str
    client: str
    before: Side | None
    after: Side | None

    @property
    def alike(self) -> bool | None:
        """Whether usage stayed: prompt sizes and cold starts. None when there is only one side."""
        if self.before is None or self.after is None:
            return None
        a, b = self.before, self.after
        return _within(a.median, b.median) and _within(a.high, b.high) and abs(a.cold - b.cold) <= COLD_POINTS


@dataclass(frozen=True)
class Gone:
    """A constant of the period before: how many requests have it after, at most, and what it would have cost there."""

    value: int
    entry: str
    client: str
    before: int
    after: int
    rate_after: float
    rate_if_pinned: float
    """The rate that the prompts of after would have with as many cold starts and the constant for all others."""
    alike: bool | None


@dataclass(frozen=True)
class Comparison:
    """All groups by prompt tokens, the distance between the two mixes (0 alike to 1 disjoint), and the constants."""

    groups: list[Group]
    distance: float
    gone: list[Gone]


def compare(before: Log, after: Log, faults: list[Constant]) -> Comparison:
    """`faults`: the constants found in `before`."""
    values = {(f.stream.entry, f.stream.client): f.value for f in reversed(faults) if f.status is Status.PINNED}
    a, b = _groups(before), _groups(after)
    keys = sorted(a.keys() | b.keys(), key=lambda k: -sum(g[k].tally.prompt for g in (a, b) if k in g))
    groups = [
        Group(
            *key,
            a[key].side(before.total, values.get(key, 1)) if key in a else None,
            b[key].side(after.total, values.get(key, 1)) if key in b else None,
        )
        for key in keys
    ]
    distance = sum(abs((g.before.share if g.before else 0) - (g.after.share if g.after else 0)) for g in groups) / 2
    gone = [
        _gone((f.stream.entry, f.stream.client), f.value, a, b, groups) for f in faults if f.status is Status.PINNED
    ]
    return Comparison(groups[:12], distance, gone)


class _Group:
    def __init__(self) -> None:
        self.tally = Tally()
        self.prompts = Quantiles()
        self.counts: dict[int, int] = {}
        self.zeros = 0
        self.lost = 0

    def side(self, total: Tally, value: int) -> Side:
        return Side(
            self.tally.requests,
            self.tally.prompt / total.prompt,
            self.tally.prompt,
            self.tally.rate,
            self.prompts.at(0.1),
            self.prompts.at(0.5),
            self.prompts.at(0.9),
            self.cold(value) / self.tally.requests,
        )

    def cold(self, value: int) -> int:
        return self.zeros + sum(n for count, n in self.counts.items() if count < value)


def _groups(log: Log) -> dict[tuple[str, str], _Group]:
    groups: dict[tuple[str, str], _Group] = {}
    for stream in log.streams.values():
        group = groups.setdefault((stream.entry, stream.client), _Group())
        group.tally.requests += stream.total.requests
        group.tally.prompt += stream.total.prompt
        group.tally.cached += stream.total.cached
        group.prompts.merge(stream.prompts)
        group.zeros += stream.zeros
        group.lost += stream.counts.lost
        for value, seen in stream.counts.items():
            group.counts[value] = group.counts.get(value, 0) + seen.count
    return groups


def _gone(
    key: tuple[str, str],
    value: int,
    before: dict[tuple[str, str], _Group],
    after: dict[tuple[str, str], _Group],
    groups: list[Group],
) -> Gone:
    then, now = before[key], after.get(key)
    alike = next((g.alike for g in groups if (g.entry, g.client) == key), None)
    if now is None:
        return Gone(value, *key, then.counts.get(value, 0), 0, 0.0, 0.0, None)
    warm = now.tally.requests - now.cold(value)
    return Gone(
        value,
        *key,
        then.counts.get(value, 0),
        now.counts.get(value, 0) + (now.lost if value not in now.counts else 0),
        now.tally.rate,
        warm * value / now.tally.prompt,
        alike,
    )


def _within(a: int, b: int) -> bool:
    return max(a, b) <= ALIKE * max(1, min(a, b))
