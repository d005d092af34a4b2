"""Everything a run leaves behind, before it is turned into JSON, tables or a page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from load.limits import TIME_BOUND
from load.options import LoadOptions
from load.plan import Plan
from load.samples import Samples
from load.tiers import Tiers

TIMED: Final = ("steady", "soak")
"""Shapes that a bound on time may end: they are as long as they are let."""


@dataclass(frozen=True, slots=True)
class Point:
    """One moment: seconds since the start, what the clients had counted by then, and a scrape."""

    at: float
    phase: str
    sums: dict[str, tuple[int, int]]  # entry -> prompt tokens with a cached count, cached
    tiers: Tiers | None


@dataclass
class Record:
    """One run. `marks` are scrapes by phase, at its start and end; `cpu` is seconds by process."""

    options: LoadOptions
    plan: Plan
    samples: Samples = field(default_factory=Samples)
    series: list[Point] = field(default_factory=list)
    marks: list[tuple[str, Tiers | None, Tiers | None]] = field(default_factory=list)
    first: Tiers | None = None
    last: Tiers | None = None
    pool_tokens: int | None = None
    block_size: int | None = None
    began: float = 0.0
    seconds: float = 0.0
    stopped: str | None = None
    """Why the plan was not played to its end, None where it was."""
    target_gone: bool = False
    workers: int = 1
    cpu: dict[str, float] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    """What a shape of its own adds to the result: a replay's ceilings, a day's tables."""

    @property
    def early(self) -> bool:
        """Whether it ended before its plan did, other than by the time of a shape that is as long as it is let."""
        by_time = self.plan.shape in TIMED and (self.stopped or "").startswith(TIME_BOUND)
        return self.stopped is not None and not by_time

    @property
    def how_many(self) -> str:
        """Requests sent, of those planned."""
        sent = self.samples.total().requests
        return f"{sent:,} requests" if self.plan.open_end else f"{sent:,} of {self.plan.requests:,} requests"

    @property
    def counted(self) -> dict[str, dict[str, float | None]]:
        """What the engine counted in each phase, those of one name summed; None where a scrape does not know."""
        found: dict[str, dict[str, float | None]] = {}
        for name, before, after in self.marks:
            delta = after.since(before) if before is not None and after is not None else {}
            if name not in found:
                found[name] = delta
                continue
            known = found[name]
            sums = {key: (known[key], delta.get(key)) for key in known}
            found[name] = {key: None if a is None or b is None else a + b for key, (a, b) in sums.items()}
        return found
