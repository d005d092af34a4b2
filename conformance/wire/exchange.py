"""One request and its answer, as seen from the client and, where a recorder stands behind, from upstream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import orjson

from conformance.verdicts import Entry


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one answer, read by the rules of its own dialect; None = the field was absent or null.

    `prompt` is the whole prompt: for Messages input + cache_read + cache_creation (absent parts count 0), for
    Chat `prompt_tokens`. `cached` is what was read from a cache, `created` what was written to one.
    `raw` keeps the usage object as it came, for rules that judge types and presence.
    """

    prompt: int | None = None
    cached: int | None = None
    created: int | None = None
    output: int | None = None
    raw: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One server-sent event: its `event:` name ("" when unnamed) and its data, parsed when it is JSON."""

    name: str
    data: Any


@dataclass(frozen=True)
class UpstreamRecord:
    """What the recorder saw of one request to the engine: exact bytes both ways."""

    method: str
    path: str
    headers: Mapping[str, str]  # lower-case names; authorization and api keys replaced by "[redacted]"
    body: bytes
    status: int | None  # None: the engine never answered
    response_body: bytes
    complete: bool  # False: the answer broke off, or the gateway went away
    script: str | None = None  # the script that answered in the engine's place

    @cached_property
    def json(self) -> Any:
        """The request body parsed, or None when it is no JSON."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return None


@dataclass(frozen=True)
class Exchange:
    """One request the suite sent and everything known of its answer.

    `request` is the JSON body as the client built it; `body` the bytes sent where the suite itself put them on the
    wire (raw requests), else None. `events` are only there for streams read raw. `error` is one line when the
    target answered with an error or broke off; `status` 0 means no HTTP answer came.
    """

    entry: Entry
    request: Mapping[str, Any]
    streamed: bool
    status: int
    response_id: str | None = None
    text: str = ""
    tool_calls: tuple[tuple[str, str], ...] = ()  # (name, arguments as JSON text)
    stop_reason: str | None = None
    usage: Usage = Usage()
    start_usage: Usage | None = None  # message_start's usage (Messages streams read raw)
    events: tuple[StreamEvent, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)  # of the answer, lower-case names
    response_body: bytes = b""  # raw requests only
    error: str | None = None
    seconds: float = 0.0
    upstream: tuple[UpstreamRecord, ...] = ()
    body: bytes | None = None
    odd: bool = False  # a gateway may refuse such a request: that is no failure of its traffic
    sent_headers: Mapping[str, str] = field(default_factory=dict)  # the caller's own
    sent_at: float = 0.0  # seconds since the epoch, by this machine's clock

    @property
    def ok(self) -> bool:
        return self.error is None and 200 <= self.status < 300
