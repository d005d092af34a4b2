"""What repeats of the same request say of routing: on one replica they hit, spread over several they hit by chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from load.clocks import Pair, clock_period
from load.samples import Sample


@dataclass(frozen=True, slots=True)
class Affinity:
    """Repeats of a `repeats` run. A drop is a repeat that missed right after the same request had hit.

    `by_send` is the share of sessions that hit at their 2nd, 3rd, ... send; `slowest` the longest time in seconds from
    a hit to the drop that followed it. `by_clock` is the period of a clock that explains the drops as well, in seconds.
    """

    sessions: int
    repeats: int
    hits: int
    chances: int
    drops: int
    by_send: tuple[float, ...]
    slowest: float
    by_clock: float | None = None

    @property
    def hit_rate(self) -> float:
        """Share of repeats that hit."""
        return self.hits / self.repeats if self.repeats else 0.0

    @property
    def drop_rate(self) -> float:
        """Share of repeats after a hit that missed."""
        return self.drops / self.chances if self.chances else 0.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        own = {name: getattr(self, name) for name in self.__slots__}
        return own | {"hit_rate": self.hit_rate, "drop_rate": self.drop_rate}


def affinity(samples: Sequence[Sample]) -> Affinity | None:
    """None where nothing was repeated, or no counts were reported."""
    by_session: dict[int, list[Sample]] = {}
    for sample in samples:
        if sample.error is None and sample.prompt and sample.cached is not None:
            by_session.setdefault(sample.session, []).append(sample)
    runs = [sent for sent in by_session.values() if len(sent) >= 3 and all(s.kind == "again" for s in sent[1:])]
    if not runs:
        return None
    hits = chances = drops = 0
    slowest = 0.0
    places: list[list[bool]] = []
    pairs: list[Pair] = []
    for sent in runs:
        flags = [(s.cached or 0) >= 0.5 * (s.prompt or 1) for s in sent[1:]]
        hits += sum(flags)
        for place, flag in enumerate(flags):
            if len(places) <= place:
                places.append([])
            places[place].append(flag)
            after_hit = place > 0 and flags[place - 1]
            if flag or after_hit:
                pairs.append(Pair(sent[place].at, sent[place + 1].at, flag))
            if after_hit:
                chances += 1
                if not flag:
                    drops += 1
                    slowest = max(slowest, sent[place + 1].at - sent[place].at)
    repeats = sum(len(sent) - 1 for sent in runs)
    by_send = tuple(sum(flags) / len(flags) for flags in places)
    return Affinity(len(runs), repeats, hits, chances, drops, by_send, slowest, clock_period(pairs))
