"""What a scripted model says, before a dialect writes it down."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from conformance.scripting.script import Script
from conformance.wire.jsontext import dumps

MODEL = "scripted"


class _Missing:
    """A member that is left out, where None stands for JSON's null."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()


@dataclass(frozen=True)
class ToolCall:
    """One call; `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Content:
    """One answer. `finish` is OpenAI's finish_reason; None means that the model never finishes."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: str | None = "stop"


def json_answer(value: Any, status: int = 200, headers: Iterable[tuple[str, str]] = ()) -> Script:
    """A plain JSON answer, its length declared."""
    body = dumps(value)
    own = (("content-type", "application/json"), ("content-length", str(len(body))))
    return Script(status=status, headers=(*own, *headers), steps=(body,))


def event_stream(body: bytes) -> Script:
    """A stream whose events arrive together."""
    return Script(headers=(("content-type", "text/event-stream"), ("cache-control", "no-cache")), steps=(body,))
