"""Scripted answers in Anthropic's Messages dialect, for gateways whose upstream speaks it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from conformance.scripting.content import MODEL, Content, event_stream, json_answer
from conformance.scripting.script import Script
from conformance.wire.jsontext import dumps, loads_or_none

Json = dict[str, Any]

_STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


def message(content: Content, usage: Any) -> Script:
    """A plain answer with `usage` as it is."""
    return json_answer(_message(_blocks(content), _STOPS.get(content.finish or ""), usage))


def events(content: Content, usage: Json) -> list[Json]:
    """The events of a stream: the prompt's counts in message_start, all of them again in message_delta."""
    start = {**usage, "output_tokens": min(usage.get("output_tokens") or 0, 1)}
    found: list[Json] = [{"type": "message_start", "message": _message([], None, start)}]
    for index, block in enumerate(_blocks(content)):
        empty, delta = _opened(block)
        found += [
            {"type": "content_block_start", "index": index, "content_block": empty},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    if content.finish is not None:
        stop = {"stop_reason": _STOPS.get(content.finish), "stop_sequence": None}
        found += [{"type": "message_delta", "delta": stop, "usage": usage}, {"type": "message_stop"}]
    return found


def stream(content: Content, usage: Json) -> Script:
    """A streamed answer."""
    return event_stream(sse(events(content, usage)))


def sse(found: Iterable[Json]) -> bytes:
    """Events as they go over the wire."""
    return b"".join(b"event: " + str(e["type"]).encode() + b"\ndata: " + dumps(e) + b"\n\n" for e in found)


def error(status: int, message_text: str, kind: str, headers: Iterable[tuple[str, str]] = ()) -> Script:
    """An error answer in Anthropic's shape."""
    return json_answer(error_body(message_text, kind), status, headers)


def error_body(message_text: str, kind: str) -> Json:
    """Anthropic's error object."""
    return {"type": "error", "error": {"type": kind, "message": message_text}}


def _message(blocks: list[Json], stop: str | None, usage: Any) -> Json:
    return {
        "id": "msg_scripted",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": blocks,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }


def _blocks(content: Content) -> list[Json]:
    blocks: list[Json] = []
    if content.reasoning:
        blocks.append({"type": "thinking", "thinking": content.reasoning, "signature": ""})
    if content.text:
        blocks.append({"type": "text", "text": content.text})
    return blocks + [
        {"type": "tool_use", "id": c.id, "name": c.name, "input": loads_or_none(c.arguments)} for c in content.calls
    ]


def _opened(block: Json) -> tuple[Json, Json]:
    """A block as it starts, and the delta that fills it."""
    if block["type"] == "text":
        return {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
    if block["type"] == "thinking":
        return {**block, "thinking": ""}, {"type": "thinking_delta", "thinking": block["thinking"]}
    arguments = dumps(block["input"]).decode()
    return {**block, "input": {}}, {"type": "input_json_delta", "partial_json": arguments}
