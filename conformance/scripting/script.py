"""One scripted answer: status, headers, body in steps, and how it ends. Plain data, no sockets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Wait:
    """A pause of so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hold:
    """A pause until the suite releases the request (`ScriptTable.release`), or the gateway leaves."""


Step = bytes | Wait | Hold


class End(Enum):
    """How an answer ends: as HTTP ends it, or with the connection cut."""

    CLEAN = "clean"
    ABORT = "abort"


@dataclass(frozen=True)
class Script:
    """One HTTP answer. `before` comes before its head; `steps` are body bytes and pauses, in order."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    steps: tuple[Step, ...] = ()
    before: tuple[Wait | Hold, ...] = ()
    end: End = End.CLEAN

    @property
    def body(self) -> bytes:
        """All body bytes, pauses left out."""
        return b"".join(step for step in self.steps if isinstance(step, bytes))

    def cut(self, at: int) -> Script:
        """The same answer, its connection cut after `at` body bytes. Raises ValueError outside the body."""
        if not 0 <= at <= len(self.body):
            raise ValueError(f"cannot cut {len(self.body)} bytes at byte {at}")
        return replace(self, steps=tuple(_first_bytes(self.steps, at)), end=End.ABORT)

    def trickled(self, size: int, seconds: float) -> Script:
        """The same answer in pieces of `size` bytes, each after a pause."""
        body = self.body
        pieces = (body[i : i + size] for i in range(0, len(body), size))
        return replace(self, steps=tuple(step for piece in pieces for step in (Wait(seconds), piece)))


def _first_bytes(steps: tuple[Step, ...], count: int) -> Iterator[Step]:
    left = count
    for step in steps:
        if not isinstance(step, bytes):
            yield step
            continue
        if left <= 0:
            return
        yield step[:left]
        left -= len(step)


class Forms(NamedTuple):
    """The answers to the same request asked plain and streamed."""

    plain: Script
    stream: Script


@dataclass(frozen=True)
class ScriptedReply:
    """What a request is answered, by the dialect and form the gateway asks in."""

    name: str
    chat: Forms
    messages: Forms

    def to(self, path: str, *, streamed: bool) -> Script | None:
        """The answer to a request on `path`; None for a path that no model answers on."""
        trimmed = path.rstrip("/")
        if trimmed.endswith("/chat/completions"):
            forms = self.chat
        elif trimmed.endswith("/messages"):
            forms = self.messages
        else:
            return None
        return forms.stream if streamed else forms.plain
