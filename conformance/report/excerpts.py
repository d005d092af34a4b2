"""One exchange as a report may show it: keys removed, long text cut, text the suite did not send masked."""

from __future__ import annotations

import json
from collections.abc import Callable

from conformance.redact import hide_secrets, redact_body
from conformance.verdicts import Excerpt
from conformance.vocabulary import spoken
from conformance.wire.exchange import Exchange, UpstreamRecord


def excerpt(title: str, exchange: Exchange, upstream: UpstreamRecord | None, *, own: Callable[[str], bool]) -> Excerpt:
    """The request and answer of `exchange`, and what a recorder saw of it upstream, if one did."""
    return Excerpt(
        title=title,
        request=redact_body(dict(exchange.request), own),
        response=_response(exchange, own),
        upstream_request=redact_body(upstream.body, own) if upstream else None,
        upstream_response=redact_body(upstream.response_body, own) if upstream else None,
    )


def _response(exchange: Exchange, own: Callable[[str], bool]) -> str:
    head = f"HTTP {exchange.status}" if exchange.status else "no answer"
    if exchange.error:
        return f"{head}\n{spoken(hide_secrets(exchange.error), json.dumps(exchange.request, default=str))}"
    if exchange.response_body:
        return f"{head}\n{redact_body(exchange.response_body, own)}"
    answer = {"id": exchange.response_id, "stop_reason": exchange.stop_reason, "usage": dict(exchange.usage.raw)}
    return f"{head}\n{redact_body(answer, own)}"
