"""How an entry's handler is run: keys checked, the exchange opened and finished, errors counted."""

import asyncio
import hmac
from collections.abc import AsyncGenerator, Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from .asgi import EventStream
from .errors import GatewayError
from .exchange import Exchange, Gateway
from .jsontext import JSONTextError
from .upstream import UpstreamStream

Handler = Callable[[Exchange], Awaitable[Response]]

CLIENT_GONE = 499
"""The status logged, never sent, for a client that left; nginx's number for it."""


def check_key(request: Request, accepted: tuple[str, ...]) -> None:
    """Let in clients with one of the keys; with no keys configured, everyone.

    Raises:
        GatewayError: 401.
    """
    if not accepted:
        return
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    offered = request.headers.get("x-api-key") or (bearer.strip() if scheme.lower() == "bearer" else "")
    matches = [hmac.compare_digest(offered.encode(), key.encode()) for key in accepted]
    if not any(matches):
        raise GatewayError(
            401,
            "the API key is missing or unknown here; send one of the gateway's client keys",
            code="invalid_api_key",
        )


def entry(name: str, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that serves ``handler`` under the entry's ``name``."""

    async def endpoint(request: Request) -> Response:
        gateway: Gateway = request.app.state.gateway
        check_key(request, gateway.config.accepted_keys)
        exchange = Exchange(gateway, name, await request.body(), request.headers, request.url.query)
        try:
            response = await handler(exchange)
        except GatewayError as error:
            told = exchange.mutations.upstream_error(error, gateway.shared) if exchange.route else error
            exchange.finish("error", told.status)
            raise told from error
        except asyncio.CancelledError:
            exchange.finish("client gone", CLIENT_GONE)
            raise
        except JSONTextError as error:
            exchange.finish("error", 400)
            raise GatewayError(400, f"the body cannot be passed on: {error}") from error
        except Exception:
            exchange.finish("error", 500)
            raise
        if not isinstance(response, EventStream):
            exchange.finish("ok", response.status_code)
        return response

    return endpoint


def event_stream(
    exchange: Exchange,
    upstream: UpstreamStream,
    events: AsyncGenerator[bytes],
    on_error: Callable[[GatewayError], bytes],
) -> EventStream:
    """Send ``events``; a GatewayError among them becomes the dialect's error event and the stream's end."""
    outcome, status = "client gone", CLIENT_GONE

    async def guarded() -> AsyncGenerator[bytes]:
        nonlocal outcome, status
        try:
            async for event in events:
                yield event
            outcome, status = "ok", 200
        except GatewayError as error:
            outcome, status = "broken", 200
            yield on_error(error)

    async def close() -> None:
        try:
            await events.aclose()
            await upstream.aclose()
        finally:
            exchange.finish(outcome, status)

    return EventStream(guarded(), close)
