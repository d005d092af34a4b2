"""One arm of the day, as it was measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from load.day.inputs import Inputs
from load.day.talks import CLAUDE, NEIGHBOUR, OPENCODE, REASONIX
from load.samples import Sample
from load.tiers import Tiers

ROWS: Final = {CLAUDE: "claude", REASONIX: "reasonix", OPENCODE: "opencode", NEIGHBOUR: "neighbour"}


@dataclass
class Arm:
    """One arm of the day: its switches, every request with the time of day it stands for, and what it took."""

    name: str
    strip: bool
    exclude: bool
    inputs: Inputs
    moments: list[float] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    truth: list[tuple[int, int]] = field(default_factory=list)
    """(prompt, cached) as the gateway logged them from upstream: what clients are told depends on its switches."""
    compactions: int = 0
    seconds: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict)
    before: Tiers | None = None
    after: Tiers | None = None

    def rows(self, who: str) -> list[Sample]:
        """The requests of one row: claude, reasonix, opencode or neighbour."""
        return [s for s in self.samples if ROWS[s.client] == who]

    def counts(self, who: str) -> list[tuple[int, int]]:
        """(prompt, cached) of one row."""
        return [t for s, t in zip(self.samples, self.truth, strict=True) if ROWS[s.client] == who]
