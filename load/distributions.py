"""Sizes and pauses as distributions, drawn by name: the same key gives the same value in every process."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol

_NORMAL = NormalDist()


class Distribution(Protocol):
    """Something to draw from."""

    def at(self, share: float) -> float:
        """The value below which `share` (0..1, exclusive) of all draws lie."""


def draw(distribution: Distribution, *key: object) -> float:
    """One draw; `key` decides it and nothing else does. No generator is shared, so order plays no part."""
    return distribution.at(share(*key))


def whole(distribution: Distribution, *key: object) -> int:
    """One draw, rounded."""
    return round(draw(distribution, *key))


def share(*key: object) -> float:
    """A number between 0 and 1, both exclusive, that follows from `key`."""
    digest = hashlib.blake2b("/".join(map(str, key)).encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") + 0.5) / 2**64


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always `value`."""

    value: float

    def at(self, share: float) -> float:  # noqa: ARG002 - part of the interface
        return self.value


@dataclass(frozen=True, slots=True)
class Uniform:
    """Evenly between `low` and `high`."""

    low: float
    high: float

    def at(self, share: float) -> float:
        return self.low + (self.high - self.low) * share


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Long-tailed, as people's pauses and tools' outputs are: half of all draws lie below `median`.

    `sigma` is the standard deviation of the logarithm; draws are cut at `low` and `high`.
    """

    median: float
    sigma: float
    low: float = 0.0
    high: float = math.inf

    def at(self, share: float) -> float:
        value = self.median * math.exp(self.sigma * _NORMAL.inv_cdf(share))
        return min(max(value, self.low), self.high)
