"""Stops sending when the target is in trouble, and keeps it stopped for the rest of the run."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median

from conformance.errors import SendingStopped
from conformance.wire.answers import FailureKind

_TIMES = {2: "two", 3: "three", 4: "four", 5: "five"}


@dataclass
class Breaker:
    """Opens after `failures` failures in a row, or when answers have become slow.

    A failure is a 5xx, a timeout, a broken connection, or a 4xx that its sender did not expect. Slow: the median of
    the last `window` requests is over `slower` times that of the first `window` and over `slow_s` seconds.
    """

    failures: int = 3
    slower: float = 10.0
    slow_s: float = 5.0
    window: int = 5
    reason: str | None = field(default=None, init=False)
    _row: list[str] = field(default_factory=list, init=False)
    _first: list[float] = field(default_factory=list, init=False)
    _last: deque[float] = field(default_factory=deque, init=False)

    def check(self) -> None:
        """Raise `SendingStopped` once the breaker is open."""
        if self.reason is not None:
            raise SendingStopped(f"stopped sending: {self.reason}")

    def note(self, *, status: int, failure: FailureKind | None, seconds: float, retry_after: str | None = None) -> None:
        """Take one finished request into account."""
        self._note_time(seconds)
        if failure is None:
            self._row.clear()
            return
        self._row.append(str(status) if failure in ("429", "4xx", "5xx") else failure)
        if len(self._row) >= self.failures and self.reason is None:
            self.reason = self._why(retry_after)

    def _why(self, retry_after: str | None) -> str:
        times = _TIMES.get(len(self._row), str(len(self._row)))
        kinds = set(self._row)
        wait = f" (Retry-After {retry_after}{' s' if retry_after.isdigit() else ''})" if retry_after else ""
        if kinds == {"timeout"}:
            return f"the target did not answer in time {times} times in a row"
        if kinds == {"reset"}:
            return f"the target broke the connection {times} times in a row"
        if len(kinds) == 1:
            return f"the target answered {kinds.pop()} {times} times in a row{wait}"
        return f"the target failed {times} times in a row ({', '.join(self._row)}){wait}"

    def _note_time(self, seconds: float) -> None:
        if len(self._first) < self.window:
            self._first.append(seconds)
            return
        self._last.append(seconds)
        if len(self._last) > self.window:
            self._last.popleft()
        if len(self._last) == self.window and self.reason is None:
            then, late = median(self._first), median(self._last)
            if late > self.slow_s and late > self.slower * then:
                self.reason = (
                    f"answers slowed from {then:.2g} s to {late:.2g} s (medians of the first and last {self.window})"
                )
