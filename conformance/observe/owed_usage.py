"""Whether an upstream owes the usage that an answer lacks: what it never reported no gateway can pass on."""

from __future__ import annotations

from collections.abc import Callable

from conformance.errors import SendingStopped
from conformance.observe.lab import WireLab
from conformance.observe.observations import Streams
from conformance.observe.records import own_record
from conformance.wire.exchange import Exchange, UpstreamRecord
from conformance.wire.upstream_usage import upstream_usage

OWED = "the upstream reports no prompt tokens for what it was asked to count"
"""Zeros are then all that a gateway can say: STR-06 asks for them."""

_PROMPT_FIELDS = ("prompt_tokens", "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")

ENGINE_SENDS_NONE = "asked directly, the engine sends no usage in streams"
NOT_RULED_OUT = (
    "an engine that sends no usage in streams leaves a gateway nothing to pass on, and nothing here rules that out; a "
    "recorder (--upstream-listen) would, or --engine to ask the engine directly"
)


def excuse(exchange: Exchange, engine_counts: Callable[[], bool | None]) -> str:
    """Why an answer without prompt tokens may be the engine's, in words; "" where it is the target's own.

    `engine_counts` says whether the engine is known to count its streams; it is asked where no recorder saw it.
    """
    if own_record(exchange) is not None:
        return OWED if owes_usage(exchange) else ""
    if any(exchange.usage.raw.get(name) for name in _PROMPT_FIELDS):
        return ""  # a count of a wrong type is one
    counts = engine_counts()
    if counts:
        return ""
    return NOT_RULED_OUT if counts is None else ENGINE_SENDS_NONE


def counts_streams(other: Callable[[], Streams | None], lab: WireLab | None) -> bool | None:
    """Whether the engine counts its streams: asked straight, or by the other entry's streams; None: nothing tells."""
    if lab is not None:
        body = {**lab.session().body(), "stream_options": {"include_usage": True}}
        direct = lab.send_body(body, stream=True)
        if direct.ok:
            return bool(direct.usage.prompt)
    try:
        streams = other()
    except SendingStopped:
        return None
    if streams is None or not streams.plain.ok:
        return None
    told = [e.usage.prompt for e in (streams.raw, streams.sdk) if e.ok and e.usage.prompt]
    return True if told and set(told) == {streams.plain.usage.prompt} else None


def owes_usage(exchange: Exchange) -> bool:
    """True where a recorder saw the upstream count no prompt, though it had to; False where none looked."""
    record = own_record(exchange)
    if record is None or not _asked(record):
        return False
    return not upstream_usage(record).prompt


def _asked(record: UpstreamRecord) -> bool:
    """A Messages upstream and a plain answer always carry usage; a chat stream does where it is asked for (STR-04)."""
    body = record.json if isinstance(record.json, dict) else {}
    if body.get("stream") is not True or record.path.rstrip("/").endswith("/messages"):
        return True
    options = body.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True
