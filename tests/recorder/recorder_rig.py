"""An engine that answers what a test scripts, for recorders to stand in front of."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from conformance.recorder import Recorder, relay
from conformance.servers import serve

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Handler = Callable[["Asked", Receive, Send], Awaitable[None]]

MARKER = b"prefixproof-run-7"


@dataclass
class Asked:
    method: str
    target: bytes  # the path and query as they came
    headers: list[tuple[bytes, bytes]]
    body: bytes


@dataclass
class StubEngine:
    """Keeps what it is asked and leaves the answer to `handler`."""

    handler: Handler
    asked: list[Asked] = field(default_factory=list)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        query = scope["query_string"]
        target = scope["raw_path"] + (b"?" + query if query else b"")
        asked = Asked(scope["method"], target, list(scope["headers"]), body)
        self.asked.append(asked)
        await self.handler(asked, receive, send)


def pieces(
    *bodies: bytes,
    status: int = 200,
    headers: dict[str, str] | None = None,
    gate: threading.Event | None = None,
    abort: bool = False,
) -> Handler:
    """Answer with `bodies` one after the other, each but the first waiting for `gate`; `abort` cuts the end off."""

    async def handler(asked: Asked, receive: Receive, send: Send) -> None:  # noqa: ARG001
        given = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        await send({"type": "http.response.start", "status": status, "headers": given})
        for number, body in enumerate(bodies):
            if number and gate is not None:
                await asyncio.to_thread(gate.wait, 30)
                gate.clear()
            await send({"type": "http.response.body", "body": body, "more_body": True})
        if abort:
            raise RuntimeError("cut here")
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return handler


@dataclass
class Rig:
    recorder: Recorder
    engine: StubEngine
    client: httpx.Client

    @property
    def url(self) -> str:
        assert self.recorder.url is not None
        return self.recorder.url

    def post(self, body: bytes, path: str = "/v1/chat/completions", **options: Any) -> httpx.Response:
        return self.client.post(self.url + path, content=body, **options)


@contextlib.contextmanager
def rig(handler: Handler, marker: bytes | None = MARKER, **options: Any) -> Iterator[Rig]:
    engine = StubEngine(handler)
    with (
        serve(engine, grace_s=0.05) as server,
        relay(server.url, marker=marker, **options) as recorder,
        httpx.Client(trust_env=False, timeout=30) as client,
    ):
        yield Rig(recorder, engine, client)
