"""The ASGI application."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .asgi import RequestGuard
from .channels import ChannelTable
from .chat import chat
from .clients import Clients
from .config import GatewayConfig
from .errors import GatewayError, error_response
from .exchange import Gateway
from .faults import mutations_of
from .messages.count_tokens import count_tokens
from .messages.endpoint import messages
from .metrics import Metrics
from .models import get_model, list_models
from .serving import entry

logger = logging.getLogger("reference_gateway")


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _metrics(request: Request) -> Response:
    gateway: Gateway = request.app.state.gateway
    return Response(gateway.metrics.render(), media_type="text/plain; version=0.0.4")


async def _gateway_error(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        error = GatewayError(error.status_code, error.detail, headers=dict(error.headers or {}))
    elif not isinstance(error, GatewayError):
        # The exception's text may quote a prompt, so only its kind is told; Starlette re-raises it for the log.
        error = GatewayError(500, f"the gateway failed on this request ({type(error).__name__})")
    return error_response(request.url.path, request.headers, error)


def create_app(config: GatewayConfig, fault: str | None = None) -> Starlette:
    """The gateway for ``config``, with the named fault if one is given.

    Raises:
        ValueError: there is no fault of that name.
    """
    mutations = mutations_of(fault).started()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        clients = Clients(config.channels)
        app.state.gateway = Gateway(config, ChannelTable(config.channels), Metrics(), mutations, clients)
        try:
            yield
        finally:
            await clients.aclose()

    return Starlette(
        lifespan=lifespan,
        routes=[
            Route("/v1/messages", entry("messages", messages), methods=["POST"]),
            Route("/v1/messages/count_tokens", entry("count_tokens", count_tokens), methods=["POST"]),
            Route("/v1/chat/completions", entry("chat", chat), methods=["POST"]),
            Route("/v1/models", list_models),
            Route("/v1/models/{model:path}", get_model),
            Route("/health", _health),
            Route("/metrics", _metrics),
        ],
        middleware=[
            Middleware(
                RequestGuard,
                max_body_bytes=config.max_body_bytes,
                serves_the_departed=mutations.serves_the_departed,
            )
        ],
        exception_handlers={GatewayError: _gateway_error, HTTPException: _gateway_error, Exception: _gateway_error},
    )
