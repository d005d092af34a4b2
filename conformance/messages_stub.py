"""A stand-in for an upstream that speaks Anthropic Messages: one fixed answer, beside the embedded engine.

Rules about such upstreams judge what arrives there, not what is answered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any

from conformance.wire.jsontext import dumps, loads_or_none

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[..., Coroutine[Any, Any, None]]


def beside(engine: App) -> App:
    """An app that answers `/v1/messages` itself and leaves everything else to `engine`."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/v1/messages":
            await _answer(receive, send)
        else:
            await engine(scope, receive, send)

    return app


async def _answer(receive: Receive, send: Send) -> None:
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = bool(message.get("more_body"))
    asked = loads_or_none(body)
    answer = {
        "id": "msg_stub",
        "type": "message",
        "role": "assistant",
        "model": asked.get("model") if isinstance(asked, dict) else None,
        "content": [{"type": "text", "text": "Received."}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": max(1, len(body) // 4), "output_tokens": 1},
    }
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": dumps(answer)})
