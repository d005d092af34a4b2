"""What can go wrong while a request is served, and how each dialect says it.

    GatewayError            an answer with an error status
    +-- BadRequest          400, the client's body; the message names the place
    +-- UpstreamBroken      502, the upstream's answer cannot be used (also mid-stream)
        +-- Unfinished      its stream ended before the answer was finished

The Anthropic shape is ``{"type": "error", "error": {"type", "message"}}``, the OpenAI shape
``{"error": {"message", "type", "param", "code"}}``. Messages never quote prompts or keys.
"""

from typing import Any

from starlette.responses import Response

from .jsontext import dumps


class GatewayError(Exception):
    """An HTTP error to give to the client.

    ``status`` is the HTTP status, ``headers`` what goes with it (Retry-After), ``code`` OpenAI's machine-readable
    code; ``upstream`` is the error object the upstream gave, whose type, param and code a chat client gets to see.
    ``dialect`` overrides the shape its body takes ("openai" or "anthropic"); None is the client's own.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        headers: dict[str, str] | None = None,
        code: str | None = None,
        upstream: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or {}
        self.code = code
        self.upstream = upstream or {}
        self.dialect: str | None = None


class BadRequest(GatewayError):
    """The client's body cannot be served; ``place`` is a path such as ``messages.3.content.0``."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(400, f"{place}: {problem}")


class UpstreamBroken(GatewayError):
    """The upstream answered with something that is not an answer."""

    def __init__(self, message: str) -> None:
        super().__init__(502, message)


class Unfinished(UpstreamBroken):
    """The upstream's stream ended as HTTP ends it, without a word that the answer is finished."""

    def __init__(self) -> None:
        super().__init__("the upstream's stream ended before the answer was finished")


_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_OPENAI_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


def anthropic_error(error: GatewayError) -> dict[str, Any]:
    """The error as an Anthropic body; as data of an ``error`` event it is the same."""
    fallback = "api_error" if error.status >= 500 else "invalid_request_error"
    kind = _ANTHROPIC_TYPES.get(error.status, fallback)
    return {"type": "error", "error": {"type": kind, "message": error.message}}


def openai_error(error: GatewayError) -> dict[str, Any]:
    """The error as an OpenAI body; in a stream it is one ``data`` event."""
    fallback = "server_error" if error.status >= 500 else "invalid_request_error"
    own = {"type": _OPENAI_TYPES.get(error.status, fallback), "param": None, "code": error.code}
    told = {name: error.upstream[name] for name in own if error.upstream.get(name) is not None}
    return {"error": {"message": error.message, **own, **told}}


def speaks_anthropic(path: str, headers: Any) -> bool:
    """Which dialect a client of this path reads."""
    return path.startswith("/v1/messages") or (path.startswith("/v1/models") and "anthropic-version" in headers)


def error_response(path: str, request_headers: Any, error: GatewayError) -> Response:
    """The error as a response in the dialect of the client that asked ``path``."""
    anthropic = speaks_anthropic(path, request_headers) if error.dialect is None else error.dialect == "anthropic"
    body = dumps(anthropic_error(error) if anthropic else openai_error(error))
    return Response(body, error.status, headers=error.headers, media_type="application/json")
