"""Misses that a clock in the prompt explains: a text that changes each second lets repeats hit until it is over.

What tells it from routing is when the misses come. With a clock there is one moment of each period that lies before
every miss and between no two sends that hit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

PERIODS: Final = (1.0, 5.0, 10.0, 30.0, 60.0)
"""Seconds after which such a text may change. A finer one leaves no hits to lose where requests take longer than it."""

DROPS_EXPLAINED, HITS_AGAINST = 0.8, 0.1
"""Share of the misses that one moment must explain, and of the hits that may speak against it."""

_JITTER_S: Final = 0.05
_JITTER_SHARE: Final = 4
"""A gateway reads its clock this much sooner or later after a send, or a quarter of the usual time between two."""


_LOOKED_AT: Final = 5


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sends of the same request, one after the other, and whether the second one hit."""

    before: float
    at: float
    hit: bool


def clock_period(pairs: Sequence[Pair]) -> float | None:
    """The period of a clock that explains which pairs hit, None where none does or nothing missed."""
    drops = [pair for pair in pairs if not pair.hit]
    if not drops:
        return None
    hits = [pair for pair in pairs if pair.hit]
    slack = max(_JITTER_S, median(pair.at - pair.before for pair in pairs) / _JITTER_SHARE)
    # The moment lies before every miss, so the closest pairs of sends are where to look for it.
    closest = sorted(drops, key=lambda pair: pair.at - pair.before)[:_LOOKED_AT]
    moments = [moment for pair in closest for moment in _steps(pair.before - slack, pair.at + slack, slack / 2)]
    for period in PERIODS:
        if any(_explains(moment, period, drops, hits, slack) for moment in moments):
            return period
    return None


def _steps(start: float, end: float, step: float) -> list[float]:
    return [start + i * step for i in range(int((end - start) / step) + 1)]


def _explains(moment: float, period: float, drops: Sequence[Pair], hits: Sequence[Pair], slack: float) -> bool:
    explained = sum(_within(moment, period, pair.before - slack, pair.at + slack) for pair in drops)
    against = sum(_within(moment, period, pair.before + slack, pair.at - slack) for pair in hits)
    return explained >= DROPS_EXPLAINED * len(drops) and against <= HITS_AGAINST * len(hits)


def _within(moment: float, period: float, start: float, end: float) -> bool:
    """Whether a period begins, `moment` into it, from `start` to `end`."""
    return end >= start and (moment - start) % period <= end - start
