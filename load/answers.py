"""An answer's events as they arrive: when content came, what usage said, whether the stream ended as it should."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import orjson

from conformance.wire.exchange import Usage
from conformance.wire.usage import chat_usage, last_values, messages_usage

LONGEST_LINE = 4 * 1024 * 1024
"""Bytes; a stream whose line is longer is no event stream."""


@dataclass
class StreamReading:
    """Fed with whole lines and the time they arrived; bad data is an error with a reason, never an exception."""

    entry: str
    times: list[float] = field(default_factory=list)
    error: str | None = None
    ended: bool = False
    start_usage: Any = None
    _deltas: list[Any] = field(default_factory=list)
    _texts: list[str] = field(default_factory=list)
    _first: float | None = None
    _gaps: int = 0
    _gap_sum: float = 0.0
    _gap_max: float = 0.0
    _last: float = 0.0

    def lines(self, text: bytes, now: float) -> None:
        """Lines of the body that arrived at once."""
        for raw in text.split(b"\n"):
            if raw[:5] == b"data:":
                self._data(raw[5:], now)

    def _data(self, data: bytes, now: float) -> None:
        try:
            event = orjson.loads(data)
        except orjson.JSONDecodeError:
            if data.strip() == b"[DONE]":
                self.ended = True
            else:
                self._fail("an event's data is not JSON")
            return
        if not isinstance(event, dict):
            self._fail("an event's data is no JSON object")
        elif self.entry == "messages":
            self._message_event(event, now)
        else:
            self._chunk(event, now)

    def close(self) -> None:
        """The body is over."""
        if not self.ended and self.error is None:
            self._fail("the stream ended before its end was announced")

    @property
    def first(self) -> float | None:
        """When the first content came."""
        return self._first

    @property
    def gap_mean(self) -> float | None:
        """Mean time between content events, None for fewer than two."""
        return self._gap_sum / self._gaps if self._gaps else None

    @property
    def gap_max(self) -> float | None:
        """Longest time between content events."""
        return self._gap_max if self._gaps else None

    @property
    def text(self) -> str:
        """The answer's text."""
        return "".join(self._texts)

    @property
    def usage(self) -> Usage:
        """The counts at the stream's end."""
        if self.entry == "messages":
            return messages_usage(last_values(self.start_usage, self._deltas))
        return chat_usage(self._deltas[-1] if self._deltas else None)

    def _fail(self, why: str) -> None:
        self.error = self.error or why

    def _content(self, text: Any, now: float) -> None:
        if isinstance(text, str):
            self._texts.append(text)
        if self._first is None:
            self._first = now
        else:
            gap = now - self._last
            self._gaps += 1
            self._gap_sum += gap
            if gap > self._gap_max:
                self._gap_max = gap
        self._last = now

    def _message_event(self, event: dict[str, Any], now: float) -> None:
        kind = event.get("type")
        if kind == "content_block_delta":
            delta = event.get("delta")
            self._content(delta.get("text") if isinstance(delta, dict) else None, now)
        elif kind == "message_start":
            message = event.get("message")
            self.start_usage = message.get("usage") if isinstance(message, dict) else None
        elif kind == "message_delta":
            self._deltas.append(event.get("usage"))
        elif kind == "message_stop":
            self.ended = True
        elif kind == "error":
            self._fail(f"error event: {error_kind(event)}")

    def _chunk(self, event: dict[str, Any], now: float) -> None:
        if "error" in event:
            self._fail(f"error event: {error_kind(event)}")
            return
        usage = event.get("usage")
        if isinstance(usage, dict):
            self._deltas.append(usage)
        choices = event.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            delta = choices[0].get("delta")
            if isinstance(delta, dict) and (delta.get("content") or delta.get("tool_calls") or delta.get("reasoning")):
                self._content(delta.get("content"), now)


@dataclass(frozen=True, slots=True)
class PlainReading:
    """A whole answer that was not streamed."""

    usage: Usage
    text: str
    error: str | None


def read_plain(entry: str, body: bytes) -> PlainReading:
    """Usage and text of a plain 200 answer."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return PlainReading(Usage(), "", "the answer is not JSON")
    if not isinstance(answer, dict):
        return PlainReading(Usage(), "", "the answer is no JSON object")
    if answer.get("error"):
        return PlainReading(Usage(), "", f"an error inside a 200 answer: {error_kind(answer)}")
    usage = messages_usage(answer.get("usage")) if entry == "messages" else chat_usage(answer.get("usage"))
    return PlainReading(usage, "", None)


def error_kind(answer: Any) -> str:
    """The type of an error object, without its message: a message may quote a prompt."""
    error = answer.get("error") if isinstance(answer, dict) else None
    kind = error.get("type") or error.get("code") if isinstance(error, dict) else None
    return str(kind)[:60] if kind is not None else "of unknown type"


def text_hash(text: str) -> str:
    """Eight hex digits by which two answers are compared."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()
