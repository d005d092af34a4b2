"""What an upstream answered and what usage it reported, out of the recorder's bytes: plain and streamed."""

from __future__ import annotations

from typing import Any

from conformance.wire.answers import Answer
from conformance.wire.chat import read_completion, read_completion_events
from conformance.wire.exchange import StreamEvent, UpstreamRecord, Usage
from conformance.wire.jsontext import loads_or_none
from conformance.wire.messages import read_message, read_message_events
from conformance.wire.sse import SSEParser, stream_event
from conformance.wire.usage import chat_usage, last_values, messages_usage


def upstream_usage(record: UpstreamRecord) -> Usage:
    """What the engine reported for this request; empty where it reported nothing."""
    is_messages = _is_messages(record)
    body = loads_or_none(record.response_body)
    if isinstance(body, dict):
        return messages_usage(body.get("usage")) if is_messages else chat_usage(body.get("usage"))
    data: list[Any] = [event.data for event in _events(record) if isinstance(event.data, dict)]
    if is_messages:
        start = next((d["message"].get("usage") for d in data if isinstance(d.get("message"), dict)), None)
        return messages_usage(last_values(start, [d.get("usage") for d in data]))
    return chat_usage(next((d["usage"] for d in reversed(data) if isinstance(d.get("usage"), dict)), None))


def upstream_answer(record: UpstreamRecord) -> Answer:
    """The answer the engine gave to this request, as a client of its dialect reads it."""
    body = loads_or_none(record.response_body)
    if isinstance(body, dict):
        return read_message(body) if _is_messages(record) else read_completion(body)
    events = _events(record)
    return read_message_events(events) if _is_messages(record) else read_completion_events(events)


def _is_messages(record: UpstreamRecord) -> bool:
    return record.path.rstrip("/").endswith("/messages")


def _events(record: UpstreamRecord) -> list[StreamEvent]:
    return [stream_event(name, text) for name, text in SSEParser().feed(record.response_body)]
