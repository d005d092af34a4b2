"""What a seed varies in the suite's sessions: how many tools, which turns, how long, how fast they grow.

Seed 0 is plain. No verdict may depend on any of it: the matrix runs over many seeds to show that.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from conformance.sessions import StepKind

Kinds = tuple[StepKind, ...]

PLAIN_TOOLS = 4


@dataclass(frozen=True, slots=True)
class Variety:
    """The form of a run's sessions. `size` and `growth` are factors, never below 1: thresholds hold for plain ones."""

    tools: int = PLAIN_TOOLS
    kinds: Kinds = ("tool", "text")
    size: float = 1.0
    growth: float = 1.0


# Every session has calls and text: without text turns a mistaken role would have nothing to show itself on.
_KINDS: tuple[Kinds, ...] = (
    ("tool", "text"),
    ("text", "tool"),
    ("tool", "tool", "text"),
    ("parallel", "text"),
    ("tool", "parallel", "text"),
    ("text", "text", "tool"),
)


def variety_of(seed: int) -> Variety:
    """The form of a seed's sessions, the same for the same seed."""
    if seed == 0:
        return Variety()
    rng = random.Random(f"variety/{seed}")
    return Variety(
        tools=rng.randint(3, 9),
        kinds=rng.choice(_KINDS),
        size=rng.choice((1.0, 1.15, 1.3, 1.5)),
        growth=rng.choice((1.0, 1.1, 1.2)),
    )
