"""When it began: the first request at a constant, and what its stream was like before and after."""

from __future__ import annotations

from dataclasses import dataclass

from conformance.forensics.constants import Constant, Status
from conformance.forensics.streams import Log, Stream

_ENOUGH = 12
"""Requests before or after, for a rate to be worth naming."""

_CLEARLY = 0.2
"""A hit rate that differs by this much, of 1."""


@dataclass(frozen=True)
class Onset:
    """First and last request at a constant; rates and requests of its stream before the one and after the other."""

    first: float
    last: float
    stream_first: float
    client_first: float
    """The first request of the same client on the same entry, whoever the user."""
    log_first: float
    before_requests: int
    before_rate: float
    after_requests: int
    after_rate: float
    during_rate: float

    @property
    def began(self) -> bool:
        """True when the stream was clearly warmer before: the constant began, on whatever was changed then."""
        return self.before_requests >= _ENOUGH and self.before_rate >= self.during_rate + _CLEARLY

    @property
    def ended(self) -> bool:
        """True when the stream is clearly warmer after the last request at the constant."""
        return self.after_requests >= _ENOUGH and self.after_rate >= self.during_rate + _CLEARLY

    @property
    def from_the_start(self) -> bool:
        """True when the stream has had the constant for as long as it could have."""
        return self.before_requests < _ENOUGH


@dataclass(frozen=True)
class OtherUser:
    """How another user fares with the same client on the same entry."""

    user: str
    requests: int
    rate: float
    pinned: bool


def onset(constant: Constant, log: Log) -> Onset:
    """When and on what the constant began."""
    seen, stream = constant.seen, constant.stream
    total = stream.total.triple()
    after = [whole - until for whole, until in zip(total, seen.until, strict=True)]
    during = [until - before for until, before in zip(seen.until, seen.before, strict=True)]
    same = [s for s in log.streams.values() if (s.entry, s.client) == (stream.entry, stream.client)]
    return Onset(
        seen.first,
        seen.last,
        stream.first,
        min(s.first for s in same),
        log.first,
        seen.before[0],
        _rate(seen.before[1], seen.before[2]),
        after[0],
        _rate(after[1], after[2]),
        _rate(during[1], during[2]),
    )


def other_users(constant: Constant, log: Log, constants: list[Constant]) -> list[OtherUser]:
    """Users of the same client on the same entry and model, by prompt tokens; the constant's own is left out."""
    stream = constant.stream
    pinned = {c.stream.key for c in constants if c.status in (Status.PINNED, Status.SUSPECTED)}
    same: list[Stream] = [
        s
        for s in log.streams.values()
        if s.key[:3] == stream.key[:3] and s.user != stream.user and s.total.requests >= _ENOUGH
    ]
    same.sort(key=lambda s: -s.total.prompt)
    return [OtherUser(s.user, s.total.requests, s.total.rate, s.key in pinned) for s in same[:10]]


def _rate(prompt: int, cached: int) -> float:
    return cached / prompt if prompt else 0.0
