"""The day as a list of acts in the order of time. The same inputs give the same list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from load.day.inputs import Inputs
from load.distributions import LogNormal, Uniform, draw, share, whole

Who = Literal["claude", "reasonix", "opencode", "neighbour"]
What = Literal["turn", "title", "compact", "begin"]

BEGINS: Final = 9 * 3600.0
"""The user's first request, in seconds of the day."""


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that happens at `at` (seconds of the day).

    `turn` grows the conversation by `bytes` and sends it; `begin` starts conversation `number` and sends it; `compact`
    asks for a summary, then goes on with it; `title` is a side request. Of a neighbour, `number` is the tenant.
    """

    at: float
    who: Who
    what: What
    bytes: int = 0
    number: int = 0

    @property
    def requests(self) -> int:
        """How many requests this is."""
        return 2 if self.what == "compact" else 1


@dataclass
class _User:
    """One client's conversation, as far as sizes tell when it ends."""

    size: int = 0
    number: int = -1
    left: int = 0
    acts: list[Act] = field(default_factory=list)


def day(inputs: Inputs) -> list[Act]:
    """The user's acts and the neighbours'."""
    own = list(_user(inputs))
    last = own[-1].at if own else BEGINS
    # The neighbours were there before the user came: long enough to fill the pool once.
    start = BEGINS - inputs.neighbour_every * (
        1 + 8 * inputs.pool_tokens // (inputs.neighbour_low + inputs.neighbour_high)
    )
    count = int((last - start) / inputs.neighbour_every)
    neighbours = [
        Act(start + i * inputs.neighbour_every, "neighbour", "turn", number=i % inputs.neighbours) for i in range(count)
    ]
    return sorted(own + neighbours, key=lambda act: act.at)


def _user(p: Inputs) -> Iterator[Act]:
    claude, reasonix = _User(left=p.messages), _User(left=p.chat)
    opencode = _alias_places(p)
    at, stint = BEGINS, 0
    while claude.left > 0 or reasonix.left > 0:
        user, who = (claude, "claude") if stint % 2 == 0 else (reasonix, "reasonix")
        turns = 1 + int(draw(LogNormal(p.stint_turns - 1, 0.8, 0, 60), p.seed, "stint", stint))
        for turn in range(turns):
            if user.left <= 0:
                break
            for act in _claude(p, user) if who == "claude" else _reasonix(p, user):
                yield replace(act, at=at)
                user.left -= act.requests
            at += draw(LogNormal(p.gap, 0.8, 2, 600), p.seed, "gap", stint, turn)
        for place in range(opencode.get(stint, 0)):
            yield Act(at, "opencode", "turn" if (stint, place) != min((s, 0) for s in opencode) else "begin", 9_000)
            at += p.gap
        long = share(p.seed, "long", stint) < p.long_share
        at += draw(LogNormal(p.long_pause if long else p.pause, p.pause_sigma), p.seed, "pause", stint)
        stint += 1


def _alias_places(p: Inputs) -> dict[int, int]:
    """After which stints the few requests of the third row come: one each, and two after the first."""
    places = {8 + 19 * i: 1 for i in range(p.alias - 1)}
    if places:
        places[min(places)] = 2
    return places


def _claude(p: Inputs, user: _User) -> Iterator[Act]:
    if user.number < 0:
        user.number, user.size = 0, p.first_bytes
        yield Act(0, "claude", "title", number=0)
        yield Act(0, "claude", "begin", number=0)
        return
    sent = p.messages - user.left
    due = sum(act.what == "title" for act in user.acts) + 1
    if due < p.claude_titles and sent >= due * p.messages // p.claude_titles:
        act = Act(0, "claude", "title", number=due)
        user.acts.append(act)
        yield act
        if user.left <= 1:
            return
    if user.size >= p.compact_bytes and user.left >= 2:
        user.number += 1
        user.size = p.tools_bytes + p.system_bytes + p.summary_bytes
        yield Act(0, "claude", "compact", p.summary_bytes, user.number)
        return
    grown = whole(_growth(p, p.claude_growth), p.seed, "claude", sent)
    user.size += grown
    yield Act(0, "claude", "turn", grown, user.number)


def _reasonix(p: Inputs, user: _User) -> Iterator[Act]:
    if user.number < 0 or user.size >= p.reasonix_most:
        user.number += 1
        user.size = p.reasonix_first
        yield Act(0, "reasonix", "begin", number=user.number)
        return
    grown = whole(_growth(p, p.reasonix_growth), p.seed, "reasonix", p.chat - user.left)
    user.size += grown
    yield Act(0, "reasonix", "turn", grown, user.number)


def _growth(p: Inputs, mean: float) -> LogNormal:
    """A log-normal of that mean."""
    import math

    return LogNormal(mean / math.exp(p.growth_sigma**2 / 2), p.growth_sigma, 400, 80_000)


def neighbour_bytes(p: Inputs, number: int) -> int:
    """The size of one tenant's context."""
    return whole(Uniform(p.neighbour_low, p.neighbour_high), p.seed, "neighbour", number)
