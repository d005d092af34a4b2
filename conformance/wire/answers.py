"""What a client reads out of one answer, and out of one HTTP reply; the dialects fill these in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from conformance.wire.exchange import StreamEvent, Usage

FailureKind = Literal["429", "4xx", "5xx", "timeout", "reset"]
"""How a request can fail; a 4xx is the refusal of a request that nothing seems wrong with."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The content of a model's answer; the fields are those of `Exchange`."""

    response_id: str | None = None
    text: str = ""
    tool_calls: tuple[tuple[str, str], ...] = ()
    stop_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    start_usage: Usage | None = None
    error: str | None = None  # an error inside the answer, or the piece that is missing from it
    failure: FailureKind | None = None  # the target went silent in the middle of the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One HTTP reply as a client (an SDK or the raw one) saw it. `status` 0: there was none.

    `sent` is the size of the request body in bytes. `failure` is set where the target is in trouble.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    answer: Answer = Answer()
    events: tuple[StreamEvent, ...] = ()
    body: bytes = b""
    error: str | None = None
    failure: FailureKind | None = None
    sent: int = 0


def failure_of(status: int) -> FailureKind | None:
    """The trouble an HTTP status tells of."""
    if status == 429:
        return "429"
    if status >= 500:
        return "5xx"
    return "4xx" if status >= 400 else None


def text_of(value: Any) -> str:
    """`value` if it is text, else ""."""
    return value if isinstance(value, str) else ""


def text_or_none(value: Any) -> str | None:
    """`value` if it is text, else None."""
    return value if isinstance(value, str) else None


def members(value: Any) -> list[Mapping[str, Any]]:
    """The objects in a JSON list; empty for anything that is no list."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def object_of(value: Any) -> Mapping[str, Any]:
    """`value` if it is a JSON object, else an empty one."""
    return value if isinstance(value, Mapping) else {}
