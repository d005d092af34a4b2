"""The usage an upstream reported, out of the recorder's bytes: plain answers and streams, both dialects."""

from __future__ import annotations

from typing import Any

from conformance.wire.exchange import UpstreamRecord, Usage
from conformance.wire.jsontext import loads_or_none
from conformance.wire.sse import SSEParser, stream_event
from conformance.wire.usage import chat_usage, last_values, messages_usage


def upstream_usage(record: UpstreamRecord) -> Usage:
    """What the engine reported for this request; empty where it reported nothing."""
    is_messages = record.path.rstrip("/").endswith("/messages")
    body = loads_or_none(record.response_body)
    if isinstance(body, dict):
        return messages_usage(body.get("usage")) if is_messages else chat_usage(body.get("usage"))
    data: list[Any] = [
        event.data
        for event in (stream_event(name, text) for name, text in SSEParser().feed(record.response_body))
        if isinstance(event.data, dict)
    ]
    if is_messages:
        start = next((d["message"].get("usage") for d in data if isinstance(d.get("message"), dict)), None)
        return messages_usage(last_values(start, [d.get("usage") for d in data]))
    return chat_usage(next((d["usage"] for d in reversed(data) if isinstance(d.get("usage"), dict)), None))
