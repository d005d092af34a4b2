"""``/v1/models`` in the shape the client's dialect has for it."""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse

from .errors import GatewayError, speaks_anthropic
from .exchange import Gateway
from .serving import check_key

_SINCE = "1970-01-01T00:00:00Z"
"""Both dialects require a date of creation; a gateway does not know one."""


def _openai(name: str, channel: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": channel}


def _anthropic(name: str) -> dict[str, Any]:
    return {"type": "model", "id": name, "display_name": name, "created_at": _SINCE}


async def list_models(request: Request) -> JSONResponse:
    """All names a client may ask for, real ones and aliases."""
    gateway: Gateway = request.app.state.gateway
    check_key(request, gateway.config.accepted_keys)
    names = gateway.channels.names()
    if speaks_anthropic(request.url.path, request.headers):
        data = [_anthropic(name) for name in names]
        first, last = data[0]["id"], data[-1]["id"]
        return JSONResponse({"data": data, "has_more": False, "first_id": first, "last_id": last})
    return JSONResponse({"object": "list", "data": [_openai(name, channel) for name, channel in names.items()]})


async def get_model(request: Request) -> JSONResponse:
    """One name; 404 if no channel offers it."""
    gateway: Gateway = request.app.state.gateway
    check_key(request, gateway.config.accepted_keys)
    name = request.path_params["model"]
    channel = gateway.channels.names().get(name)
    if channel is None:
        raise GatewayError(404, "model: no channel offers this name", code="model_not_found")
    anthropic = speaks_anthropic(request.url.path, request.headers)
    return JSONResponse(_anthropic(name) if anthropic else _openai(name, channel))
