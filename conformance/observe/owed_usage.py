"""Whether an upstream owes the usage that an answer lacks: what it never reported no gateway can pass on."""

from __future__ import annotations

from conformance.observe.records import own_record
from conformance.wire.exchange import Exchange, UpstreamRecord
from conformance.wire.upstream_usage import upstream_usage

OWED = "the upstream reports no prompt tokens for what it was asked to count"
"""Zeros are then all that a gateway can say: STR-06 asks for them."""


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
