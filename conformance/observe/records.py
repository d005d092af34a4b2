"""Which of the recorder's records is the client's own request: by what it holds, not by when it came.

Gateways send more than the request itself: guardrails and moderation before and after it, mirrors and hedges beside it,
a second try behind it. All of them carry the suite's marker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conformance.diagnosis.prompt import UpstreamPrompt, parse_prompt
from conformance.wire.exchange import Exchange, UpstreamRecord
from conformance.wire.upstream_usage import upstream_answer, upstream_usage

_NOT_COMPARED = ("tool call", "image")
"""Kinds of parts whose spelling dialects change."""


def own_record(exchange: Exchange) -> UpstreamRecord | None:
    """The upstream request that is the client's own; None where none is, or where it cannot be told.

    Of several that hold all of it, the one whose answer the client got; of tries of one request, the last.
    """
    found = matching_records(exchange)
    return found[-1] if found else None


def matching_records(exchange: Exchange) -> tuple[UpstreamRecord, ...]:
    """All records that hold as much of the client's texts and tools as the fullest one, the likeliest last.

    Empty where the fullest one is not the client's request: its answer is another's, and less than half of the request
    is in it (a guardrail beside a response cache), or another record, holding less, gave the client its answer.
    """
    chats = [r for r in exchange.upstream if r.path.rstrip("/").endswith(("/chat/completions", "/messages"))]
    if not chats or (len(chats) == 1 and not _is_small(exchange, chats[0])):
        return tuple(chats)
    client = parse_prompt(exchange.entry.path, exchange.request, join=False)
    if client is None:
        return tuple(chats)
    held = [_held(client, record) for record in chats]
    most = max(held)
    fullest = [record for record, n in zip(chats, held, strict=True) if n == most]
    if exchange.text.strip() and not any(_answered(exchange, record) for record in fullest):
        elsewhere = any(_answered(exchange, record) for record in chats)
        if elsewhere or 2 * most < len(_texts(client)) + len(client.tools):
            return ()
    return tuple(sorted(fullest, key=lambda record: _likelihood(exchange, record)))


def _is_small(exchange: Exchange, record: UpstreamRecord) -> bool:
    """True when a request has less than half of the client's messages or tools: it may be about them, not they."""
    body = record.json if isinstance(record.json, dict) else {}
    return any(2 * _length(body.get(name)) < _length(exchange.request.get(name)) for name in ("messages", "tools"))


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list) else 0


def _texts(client: UpstreamPrompt) -> Sequence[str]:
    return ["".join(part.text.split()) for part in client.parts if part.kind not in _NOT_COMPARED]


def _held(client: UpstreamPrompt, record: UpstreamRecord) -> int:
    """How many of the client's texts and tools stand in a request, whatever their white space."""
    prompt = parse_prompt(record.path, record.json)
    if prompt is None:
        return 0
    whole = "\x00".join("".join(part.text.split()) for part in prompt.parts)
    names = {tool.name for tool in prompt.tools}
    return sum(text in whole for text in _texts(client)) + sum(tool.name in names for tool in client.tools)


def _answered(exchange: Exchange, record: UpstreamRecord) -> bool:
    """True when the client's answer has this record's text."""
    said = upstream_answer(record).text.strip()
    return said != "" and said == exchange.text.strip()


def _likelihood(exchange: Exchange, record: UpstreamRecord) -> tuple[bool, bool, bool, bool, str]:
    """Larger for the record that the client's answer came from. Tries of one request are alike: their order stays."""
    answer, usage = upstream_answer(record), upstream_usage(record)
    body = record.json if isinstance(record.json, dict) else {}
    return (
        record.status == 200 and record.complete and answer.error is None,
        _answered(exchange, record),
        answer.response_id is not None and answer.response_id == exchange.response_id,
        (usage.prompt, usage.output) == (exchange.usage.prompt, exchange.usage.output),
        str(body.get("model")),
    )
