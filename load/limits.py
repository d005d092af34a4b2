"""Bounds of a run, and where load may go without being asked for by name."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from conformance.wire.endpoint import is_loopback
from load.errors import LoadProblem

TIME_BOUND: Final = "the time bound"


@dataclass
class Limits:
    """Ends sending when time, requests or prompt tokens are used up, or when the target is gone or of no use.

    `seconds` is None for as long as the plan takes. Tokens count as reported, and as a quarter of the bytes where
    nothing is reported. So many `failures` in a row without an answer (connections refused or broken, none in time,
    5xx) mean that the target is gone, and so many of any kind but refusals (4xx) that its answers are of no use.
    """

    seconds: float
    requests: int
    tokens: int
    failures: int = 25
    began: float = field(default_factory=time.monotonic)
    sent: int = 0
    sent_tokens: int = 0
    silent_in_a_row: int = 0
    failed_in_a_row: int = 0

    def note(self, *, prompt: int | None, sent_bytes: int, status: int = 200, failed: bool = False) -> None:
        """Count one finished request. `status` is 0 where none came."""
        self.sent += 1
        # A target that miscounts must not end the run by its own numbers.
        self.sent_tokens += sent_bytes // 4 if prompt is None else min(max(prompt, 0), sent_bytes // 2)
        self.silent_in_a_row = self.silent_in_a_row + 1 if failed and (status == 0 or status >= 500) else 0
        self.failed_in_a_row = self.failed_in_a_row + 1 if failed and not 400 <= status < 500 else 0

    @property
    def reached(self) -> str | None:
        """Why no further request may be sent, or None."""
        if time.monotonic() - self.began >= self.seconds:
            return f"{TIME_BOUND} of {self.seconds:g} s"
        if self.sent >= self.requests:
            return f"the bound of {self.requests:,} requests"
        if self.sent_tokens >= self.tokens:
            return f"the bound of {self.tokens:,} prompt tokens"
        if self.failed_in_a_row >= self.failures:
            return f"{self.failures} requests in a row failed"
        return None

    @property
    def gone(self) -> bool:
        """Whether the target stopped answering."""
        return self.silent_in_a_row >= self.failures


def check_host(host: str, allowed: str | None) -> None:
    """Load beyond this machine needs the host's name said twice. Raises `LoadProblem`."""
    if is_loopback(host):
        return
    name = urlsplit(host).hostname or ""
    if allowed is None:
        raise LoadProblem(f"{name} is not this machine: if you may put load on it, say so with --yes-load {name}")
    if allowed.lower() != name.lower():
        raise LoadProblem(f"--yes-load {allowed} is not the host of --host ({name})")
