"""Everything that is kept of a log: totals by dimension, and a summary of each stream."""

from __future__ import annotations

from math import gcd

from conformance.forensics.climbs import Climbs
from conformance.forensics.parts import PartTable
from conformance.forensics.request import DIMENSIONS, Request
from conformance.forensics.sketches import Frequent, Quantiles

MOST_STREAMS = 1_000
MOST_VALUES = 5_000
MOST_DAYS = 1_500
OTHERS = "(others)"

BANDS = (65_536, 131_072)
"""Cached counts are told apart below, between and from these on."""


class Tally:
    """Requests and tokens of some part of a log."""

    __slots__ = ("cached", "prompt", "requests")

    def __init__(self) -> None:
        self.requests = self.prompt = self.cached = 0

    def add(self, prompt: int, cached: int) -> None:
        self.requests += 1
        self.prompt += prompt
        self.cached += cached

    @property
    def rate(self) -> float:
        """Hit rate: cached tokens over prompt tokens, so that a long prompt weighs what it costs."""
        return self.cached / self.prompt if self.prompt else 0.0

    def triple(self) -> tuple[int, int, int]:
        return self.requests, self.prompt, self.cached


class Stream:
    """The requests that agree in every dimension, in the order of time."""

    def __init__(self, key: tuple[str, str, str, str], time: float) -> None:
        self.key = key
        self.entry, self.model, self.client, self.user = key
        self.total = Tally()
        self.first = self.last = time
        self.zeros = 0
        self.counts = Frequent()
        self.bands = [0] * (len(BANDS) + 1)
        self.prompts = Quantiles()
        self.gcd = 0
        self.rising = Climbs()
        self.falling = Climbs(falling=True)
        self.cold_starts = 0
        """Requests without any hit that continued no conversation, or came after a pause of ten minutes."""
        self.parts: PartTable | None = None
        self.days: dict[int, Tally] = {}

    def add(self, request: Request, day: int) -> None:
        time, prompt, cached = request.time, request.prompt, request.cached
        pause = time - self.last
        self.last = time
        self.total.add(prompt, cached)
        self.prompts.add(prompt)
        session = request.session
        if request.parts:
            if self.parts is None:
                self.parts = PartTable()
            session = self.parts.add(request)
        proven = bool(request.parts)
        continued = self.rising.add(prompt, cached, time, session, day, proven, request.answer)
        self.falling.add(prompt, cached, time, session, day, proven)
        if cached:
            self.gcd = gcd(self.gcd, cached)
            self.counts.add(cached, time, prompt, self.total.triple())
        else:
            self.zeros += 1
            self.cold_starts += not continued or pause > 600
        self.bands[(cached >= BANDS[0]) + (cached >= BANDS[1])] += 1
        tally = self.days.get(day)
        if tally is None and len(self.days) < MOST_DAYS:
            tally = self.days[day] = Tally()
        if tally is not None:
            tally.add(prompt, cached)

    def name(self) -> str:
        """`/v1/messages, llm-prime, claude-cli/2.1.116, user-a`."""
        return ", ".join(self.key)


class Log:
    """One period: all its requests, summed up. Memory is bounded by the number of streams, not of requests."""

    def __init__(self, offset_s: int = 0) -> None:
        self._offset = offset_s
        self.total = Tally()
        self.first = self.last = 0.0
        self.dimensions: dict[str, dict[str, Tally]] = {name: {} for name in DIMENSIONS}
        self.streams: dict[tuple[str, str, str, str], Stream] = {}
        self.unfollowed = 0
        """Requests of streams beyond the first `MOST_STREAMS`: in the totals, not examined one by one."""

    def add(self, request: Request) -> None:
        """One more request, in the order of time."""
        time, prompt, cached = request.time, request.prompt, request.cached
        if not self.total.requests:
            self.first = time
        self.last = time
        self.total.add(prompt, cached)
        key = request.key
        for name, value in zip(DIMENSIONS, key, strict=True):
            values = self.dimensions[name]
            tally = values.get(value)
            if tally is None:
                if len(values) >= MOST_VALUES:
                    value = OTHERS
                tally = values.setdefault(value, Tally())
            tally.add(prompt, cached)
        stream = self.streams.get(key)
        if stream is None:
            if len(self.streams) >= MOST_STREAMS:
                self.unfollowed += 1
                return
            stream = self.streams[key] = Stream(key, time)
        stream.add(request, int((time + self._offset) // 86_400))
