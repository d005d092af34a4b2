"""Scripted answers in OpenAI's chat dialect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

from conformance.scripting.content import MISSING, MODEL, Content, event_stream, json_answer
from conformance.scripting.script import Script
from conformance.wire.jsontext import dumps

Json = dict[str, Any]


class At(StrEnum):
    """Where a stream carries its usage objects, in the order they are given."""

    EXTRA = "on an extra chunk without choices"  # OpenAI with include_usage, vLLM
    EXTRA_EACH = "each on an extra chunk"
    FINISH = "on the chunk with the finish_reason"  # DeepSeek
    FINISH_EXTRA = "on the finish chunk, then on an extra one"
    CONTENT = "on a content chunk"
    CONTENT_FINISH = "on a content chunk, then on the finish chunk"
    EVERY = "on every chunk"  # vLLM's continuous_usage_stats
    EXTRA_THEN_NULL = "on an extra chunk, then null on another"
    NO_CHOICES = "on an extra chunk that has no choices member"
    BEFORE_FINISH = "on an extra chunk before the finish chunk"
    NULLS = "null on every chunk"
    NEVER = "on no chunk"


def completion(content: Content, usage: Any = MISSING) -> Script:
    """A plain answer with `usage` as it is; MISSING leaves the member out."""
    message: Json = {"role": "assistant", "content": content.text}
    if content.reasoning:
        message["reasoning_content"] = content.reasoning
    if content.calls:
        message["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            for c in content.calls
        ]
    answer = _head("chat.completion") | {
        "choices": [{"index": 0, "message": message, "finish_reason": content.finish}],
    }
    return json_answer(answer if usage is MISSING else answer | {"usage": usage})


def chunks(content: Content, usages: Sequence[Any] = (), at: At = At.EXTRA) -> list[Json]:
    """The chunks of a stream, without `[DONE]`. Parallel calls come one after the other, told apart by their index."""
    body = [_chunk({"role": "assistant", "content": ""})]
    body += [_chunk({"reasoning_content": piece}) for piece in _halves(content.reasoning)]
    body += [_chunk({"content": piece}) for piece in _halves(content.text)]
    body += _call_chunks(content)
    end = [_chunk({}, content.finish)] if content.finish is not None else []
    return _placed(body, end, list(usages), at)


def stream(content: Content, usages: Sequence[Any] = (), at: At = At.EXTRA, *, done: bool = True) -> Script:
    """A streamed answer."""
    return event_stream(sse(chunks(content, usages, at), done=done))


def sse(events: Iterable[Json], *, done: bool = True) -> bytes:
    """Chunks as they go over the wire."""
    body = b"".join(b"data: " + dumps(event) + b"\n\n" for event in events)
    return body + b"data: [DONE]\n\n" if done else body


def error(status: int, message: str, kind: str, headers: Iterable[tuple[str, str]] = ()) -> Script:
    """An error answer in OpenAI's shape."""
    return json_answer(error_body(message, kind, status), status, headers)


def error_body(message: str, kind: str, code: int | None = None) -> Json:
    """OpenAI's error object."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _head(kind: str) -> Json:
    return {"id": "chatcmpl-scripted", "object": kind, "created": 1_700_000_000, "model": MODEL}


def _chunk(delta: Json, finish: str | None = None) -> Json:
    return _head("chat.completion.chunk") | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _extra(usage: Any) -> Json:
    return _head("chat.completion.chunk") | {"choices": [], "usage": usage}


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]


def _call_chunks(content: Content) -> list[Json]:
    found = []
    for index, call in enumerate(content.calls):
        first, *rest = _halves(call.arguments) or [""]
        head = {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": first}}
        found.append(_chunk({"tool_calls": [head]}))
        found += [_chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}) for piece in rest]
    return found


def _placed(body: list[Json], end: list[Json], usages: list[Any], at: At) -> list[Json]:
    match at:
        case At.NEVER:
            return body + end
        case At.NULLS:
            return [chunk | {"usage": None} for chunk in body + end]
        case At.EXTRA | At.EXTRA_EACH:
            return body + end + [_extra(usage) for usage in usages]
        case At.EXTRA_THEN_NULL:
            return body + end + [_extra(usages[0]), _extra(None)]
        case At.NO_CHOICES:
            return body + end + [{k: v for k, v in _extra(usages[0]).items() if k != "choices"}]
        case At.BEFORE_FINISH:
            return [*body, _extra(usages[0]), *end]
        case At.FINISH:
            return body + [chunk | {"usage": usages[0]} for chunk in end]
        case At.FINISH_EXTRA:
            return body + [chunk | {"usage": usages[0]} for chunk in end] + [_extra(usages[1])]
        case At.CONTENT:
            return [*body[:-1], body[-1] | {"usage": usages[0]}, *end]
        case At.CONTENT_FINISH:
            return [*body[:-1], body[-1] | {"usage": usages[0]}, *(chunk | {"usage": usages[1]} for chunk in end)]
        case At.EVERY:
            whole = body + end
            last = len(whole) - 1
            return [
                chunk | {"usage": usages[min(i * len(usages) // last, len(usages) - 1)]}
                for i, chunk in enumerate(whole)
            ]
