"""Pinned counts: one constant above the template floor while the prompt grows and exact repeats grow with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from conformance.evidence.conversation import Sent
from conformance.evidence.thresholds import PinnedThresholds


@dataclass(frozen=True)
class Pinned:
    """A run of `turns` consecutive new turns that all reported `count` cached tokens."""

    count: int
    turns: int
    first_prompt: int
    last_prompt: int


def long_enough(prompts: Sequence[int], granule: int, thresholds: PinnedThresholds) -> bool:
    """True when enough consecutive turns grew by enough for a constant to mean something."""
    grown = [b - a >= thresholds.growth_granules * granule for a, b in pairwise(prompts)]
    return _longest_true(grown) >= thresholds.turns


def find_pinned(
    new_turns: Sequence[Sent], repeats: Sequence[Sent], floor: float, granule: int, thresholds: PinnedThresholds
) -> Pinned | None:
    """The longest constant among new turns (in order, each after the first of the session), or None.

    None too when the constant is not above the floor, or when exact repeats do not grow past it: then nothing says
    that the engine could have served more.
    """
    turns = [(s.prompt, s.cached or 0) for s in new_turns if s.valid and s.prompt is not None]
    best: Pinned | None = None
    start = 0
    for i in range(1, len(turns) + 1):
        unbroken = (
            i < len(turns)
            and turns[i][1] == turns[start][1]
            and turns[i][0] - turns[i - 1][0] >= thresholds.growth_granules * granule
        )
        if unbroken:
            continue
        length = i - start
        if length >= thresholds.turns and (best is None or length > best.turns):
            best = Pinned(turns[start][1], length, turns[start][0], turns[i - 1][0])
        start = i
    if best is None or best.count <= floor + thresholds.above_floor_granules * granule:
        return None
    warm = [s.cached or 0 for s in repeats if s.valid]
    if len(warm) < 2 or max(warm) - min(warm) < thresholds.growth_granules * granule or max(warm) <= best.count:
        return None
    return best


def one_constant(repeats: Sequence[Sent], preamble_bound: float) -> int | None:
    """The one count, above what any two prompts share, that every warm repeat much longer than it reports; or None.

    It may still be the length of a shared section, or one coarse granule: `Observed.challenge` tells.
    """
    warm = [(s.prompt or 0, s.cached) for s in repeats if s.valid and s.cached]
    constant = max((cached for _, cached in warm), default=0)
    # Shorter prompts may be capped at their own length by whoever made the constant up.
    longer = [cached for prompt, cached in warm if prompt > 1.25 * constant]
    if constant <= preamble_bound or len(longer) < 2 or set(longer) != {constant}:
        return None
    return constant


def _longest_true(flags: Sequence[bool]) -> int:
    best = run = 0
    for flag in flags:
        run = run + 1 if flag else 0
        best = max(best, run)
    return best
