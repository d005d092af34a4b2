"""Waiting as a target asks it to: `Retry-After` on 429 and 503 is honoured, within bounds, and one retry follows it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_S = 30.0
"""The longest single wait: whoever asks for more is not waited for, and the request stays failed."""

TOTAL_S = 120.0
"""All waits of one run together."""

ASKING = (429, 503)
"""Statuses whose `Retry-After` says when to come back (RFC 9110, 10.2.3; RFC 6585, 4)."""


@dataclass
class Patience:
    """Decides whether a failed request is sent once more, and waits before it is. Times in seconds."""

    longest_s: float = LONGEST_S
    total_s: float = TOTAL_S
    sleep: Callable[[float], None] = time.sleep
    waits: int = field(default=0, init=False)
    waited_s: float = field(default=0.0, init=False)
    declined: list[float] = field(default_factory=list, init=False)

    def waited(self, status: int, retry_after: str | None) -> bool:
        """True after the wait that the answer asked for; False when it asked for none, or for too long a one."""
        asked = seconds_of(retry_after) if status in ASKING and retry_after else None
        if asked is None:
            return False
        if asked > self.longest_s or self.waited_s + asked > self.total_s:
            self.declined.append(asked)
            return False
        self.waits += 1
        self.waited_s += asked
        self.sleep(asked)
        return True

    @property
    def line(self) -> str | None:
        """What was waited for, in a sentence; None when no answer asked for it."""
        told = []
        if self.waits:
            times = "once" if self.waits == 1 else f"{self.waits} times"
            told.append(f"waited {times}, {self.waited_s:g} s in all, before a retry, as Retry-After asked")
        if self.declined:
            told.append(
                f"{len(self.declined)} of its requests to wait were not met: up to {max(self.declined):g} s, where a "
                f"run waits {self.longest_s:g} s at once and {self.total_s:g} s in all"
            )
        return "; ".join(told) or None


def seconds_of(retry_after: str) -> float | None:
    """Seconds from now that a `Retry-After` names, as a number or a date; None when it is neither."""
    text = retry_after.strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            when = parsedate_to_datetime(text)
        except ValueError:
            return None
        seconds = ((when if when.tzinfo else when.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None
