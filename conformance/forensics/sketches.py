"""Summaries of a long stream of numbers in bounded memory: frequent values, and quantiles."""

from __future__ import annotations

import math
from collections.abc import Iterator


class Seen:
    """One frequent value: how often it came, from when to when, at which prompts.

    `before` and `until` are the stream's (requests, prompt tokens, cached tokens) just before its first occurrence and
    at its last: what the stream was like without it.
    """

    __slots__ = ("before", "count", "first", "largest", "last", "smallest", "until")

    def __init__(self, time: float, prompt: int, before: tuple[int, int, int]) -> None:
        self.count = 0
        self.first = self.last = time
        self.smallest = self.largest = prompt
        self.before = self.until = before

    def add(self, time: float, prompt: int, until: tuple[int, int, int]) -> None:
        self.count += 1
        self.last = time
        if prompt < self.smallest:
            self.smallest = prompt
        elif prompt > self.largest:
            self.largest = prompt
        self.until = until


class Frequent:
    """The frequent values among many, by Misra and Gries: counts are never too high, and too low by at most a
    `capacity + 1`-th of all. Exact as long as no more than `capacity` different values come."""

    def __init__(self, capacity: int = 128) -> None:
        self._capacity = capacity
        self._seen: dict[int, Seen] = {}
        self.lost = 0
        """By how much any count may be too low."""

    def add(self, value: int, time: float, prompt: int, totals: tuple[int, int, int]) -> None:
        """`totals`: the stream's (requests, prompt tokens, cached tokens), this one included."""
        seen = self._seen.get(value)
        if seen is None:
            if len(self._seen) >= self._capacity:
                self._make_room()
                return
            before = (totals[0] - 1, totals[1] - prompt, totals[2] - value)
            seen = self._seen[value] = Seen(time, prompt, before)
        seen.add(time, prompt, totals)

    def items(self) -> list[tuple[int, Seen]]:
        """(value, what was seen of it), most frequent first."""
        return sorted(self._seen.items(), key=lambda item: (-item[1].count, item[0]))

    def get(self, value: int) -> Seen | None:
        return self._seen.get(value)

    def __iter__(self) -> Iterator[int]:
        return iter(self._seen)

    def __len__(self) -> int:
        return len(self._seen)

    def _make_room(self) -> None:
        self.lost += 1
        for value in [v for v, seen in self._seen.items() if seen.count == 1]:
            del self._seen[value]
        for seen in self._seen.values():
            seen.count -= 1


class Quantiles:
    """Quantiles of positive numbers to 1 %, in logarithmic buckets: a few hundred, whatever comes."""

    _GROWTH = 1.02
    _PER_LOG = 1 / math.log(_GROWTH)

    def __init__(self) -> None:
        self._buckets: dict[int, int] = {}
        self.count = 0
        self.smallest = 0
        self.largest = 0

    def add(self, value: int) -> None:
        """`value` is at least 1."""
        bucket = int(math.log(value) * self._PER_LOG)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        if value > self.largest:
            self.largest = value
        if not self.count or value < self.smallest:
            self.smallest = value
        self.count += 1

    def merge(self, other: Quantiles) -> None:
        """Take another summary in."""
        if not other.count:
            return
        for bucket, n in other._buckets.items():
            self._buckets[bucket] = self._buckets.get(bucket, 0) + n
        self.smallest = min(self.smallest, other.smallest) if self.count else other.smallest
        self.largest = max(self.largest, other.largest)
        self.count += other.count

    def at(self, share: float) -> int:
        """The value below which about `share` of all lie; 0 of none."""
        if not self.count:
            return 0
        rank, passed = share * (self.count - 1), 0
        for bucket in sorted(self._buckets):
            passed += self._buckets[bucket]
            if passed > rank:
                middle = round(math.exp((bucket + 0.5) / self._PER_LOG))
                return min(max(middle, self.smallest), self.largest)
        return self.largest
