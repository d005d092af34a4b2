"""The step of cached counts: measured as a greatest common divisor, and what a single constant says about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import gcd

from conformance.forensics.streams import Log, Stream

FEWEST_COUNTS = 5
"""Fewer different counts may share a divisor by chance."""

COARSEST = 4_096
"""No engine is known to count in coarser steps: what looks so is a count that never moved."""

_ODD = 0.02


@dataclass(frozen=True)
class Granularity:
    """`step` divides all counts but `odd` of them; it is the engine's own only when `measured`."""

    step: int
    measured: bool
    distinct: int
    odd: int = 0

    @property
    def safe(self) -> int:
        """A step to reckon with: never finer than the engine's, and within reason."""
        return min(max(self.step, 1), COARSEST)


def of_stream(stream: Stream) -> Granularity:
    """The granularity that one stream's counts show."""
    return _of([(value, seen.count) for value, seen in stream.counts.items()], stream.gcd)


def of_log(log: Log) -> Granularity:
    """The granularity of all counts together; engines behind one gateway may differ, then `of_stream` says more."""
    whole = 0
    counts: dict[int, int] = {}
    for stream in log.streams.values():
        whole = gcd(whole, stream.gcd)
        for value, seen in stream.counts.items():
            counts[value] = counts.get(value, 0) + seen.count
    return _of(sorted(counts.items()), whole)


def factorisations(count: int) -> str:
    """`280 x 64 = 140 x 128 = 70 x 256`: ways to write a count as a multiple of a usual block; none is evidence."""
    blocks = [block for block in (64, 128, 256, 512, 1024) if count % block == 0]
    return " = ".join(f"{count // block} x {block}" for block in blocks) or str(count)


def _of(counts: list[tuple[int, int]], whole: int) -> Granularity:
    distinct = len(counts)
    if whole >= 16 or distinct < FEWEST_COUNTS:
        return Granularity(whole, distinct >= FEWEST_COUNTS and whole <= COARSEST, distinct)
    # A few counts of another origin spoil a common divisor: the largest one that fits nearly all counts instead.
    total = sum(n for _, n in counts)
    for step in sorted(_divisors([value for value, _ in counts]), reverse=True):
        odd = sum(n for value, n in counts if value % step)
        if odd <= _ODD * total:
            return Granularity(step, step <= COARSEST, distinct, odd)
    return Granularity(whole, True, distinct)


def _divisors(values: list[int]) -> Iterable[int]:
    heads = values[:128]
    return {gcd(a, b) for i, a in enumerate(heads) for b in heads[:i]} | {1}
