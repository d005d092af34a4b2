"""Forwarding to an upstream that speaks Messages itself: the model's name is replaced, every other byte stays.

System blocks, their boundaries, cache_control marks and the attribution block arrive as the client sent them, and
usage comes back as the upstream sent it: neither switch has a meaning here.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.responses import Response

from ..channels import Route
from ..errors import UpstreamBroken
from ..exchange import Exchange
from ..jsontext import JSONTextError, dumps, quick_loads
from ..serving import event_stream
from ..upstream import UpstreamStream
from .checks import Json
from .errors import error_event
from .request import wants_stream


async def forward(exchange: Exchange, route: Route, path: str) -> Response:
    """Forward the request along its route."""
    body = exchange.received
    if exchange.query:
        path = f"{path}?{exchange.query}"
    if exchange.model != route.model:
        body = exchange.document.with_members({"model": route.model})
    mutated = exchange.mutations.native_body(exchange.document.value)
    if mutated is not exchange.document.value:
        body = dumps({**mutated, "model": route.model})
    exchange.streamed = wants_stream(exchange.document.value)
    if exchange.streamed:
        stream = await exchange.upstream().stream(path, body)
        return event_stream(exchange, stream, _relay(exchange, stream), error_event)
    received = await exchange.upstream().post(path, body)
    try:
        answer = quick_loads(received)
        exchange.usage = answer.get("usage") if isinstance(answer, dict) else None
    except JSONTextError as error:
        raise UpstreamBroken("the upstream's answer is not JSON") from error
    if embedded := exchange.upstream().embedded_error(answer):
        raise embedded
    return Response(received, media_type="application/json")


async def _relay(exchange: Exchange, stream: UpstreamStream) -> AsyncGenerator[bytes]:
    usage: Json = {}
    ended = False
    async with aclosing(stream.pieces()) as pieces:
        async for raw, events in pieces:
            for data in events:
                kind, reported = _usage_in(data)
                usage |= reported
                ended = ended or kind in ("message_stop", "error")
            exchange.usage = usage or None
            yield raw
    if not ended:
        raise UpstreamBroken("the upstream's stream ended before the answer was finished")


def _usage_in(data: str) -> tuple[str, Json]:
    try:
        event = quick_loads(data)
    except JSONTextError:
        return "", {}
    if not isinstance(event, dict):
        return "", {}
    holder = event.get("message") if event.get("type") == "message_start" else event
    usage = holder.get("usage") if isinstance(holder, dict) else None
    reported = {name: value for name, value in usage.items() if value is not None} if isinstance(usage, dict) else {}
    return str(event.get("type")), reported
