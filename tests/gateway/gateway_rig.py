"""Servers for the gateway's tests: a scripted upstream, and a gateway in front of it, both on 127.0.0.1."""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from reference_gateway import Channel, GatewayConfig, create_app

JSONObject = dict[str, Any]

DEAD_URL = "http://127.0.0.1:9/v1"
"""The discard port: nothing listens there."""


class _Server(uvicorn.Server):
    def __init__(self, app: ASGIApp) -> None:
        super().__init__(uvicorn.Config(app, log_level="critical", lifespan="on", timeout_graceful_shutdown=2))
        self.ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


@contextmanager
def running(app: ASGIApp) -> Iterator[str]:
    """Serve an app from a thread; gives its URL."""
    server = _Server(app)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            assert server.ready.wait(20), "the server did not start"
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@dataclass
class Reply:
    """A plain answer."""

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None


@dataclass
class Stream:
    """A streamed answer: chunks (objects, or text sent as it is), then how it ends.

    ``end`` is ``done`` ([DONE]), ``clean`` (the HTTP stream ends), ``abort`` (the connection breaks) or ``hang``.
    """

    chunks: list[Any]
    end: str = "done"


@dataclass
class Hang:
    """No answer at all until the client leaves."""


@dataclass
class Cut:
    """A plain answer whose connection breaks in the middle."""


@dataclass
class Received:
    """A request as it reached the upstream."""

    path: str
    query: str
    port: int
    """The sender's: the same for requests on one connection."""
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> JSONObject:
        value = json.loads(self.raw)
        assert isinstance(value, dict)
        return value


Script = Callable[[Received], Reply | Stream | Hang | Cut]


class ScriptedUpstream:
    """Answers what it is told to and keeps what it was sent."""

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self.script: Script = lambda _: completion("hello")
        self.arrived = threading.Event()
        self.left = threading.Event()
        names = ("/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens", "/tokenize")
        self.app = Starlette(routes=[Route(name, self._serve, methods=["POST"]) for name in names])

    def answer(self, reply: Reply | Stream | Hang | Cut) -> None:
        """Give this answer to every request from here on, and forget earlier requests."""
        self.script = lambda _: reply
        self.requests.clear()
        self.arrived.clear()
        self.left.clear()

    @property
    def last(self) -> Received:
        return self.requests[-1]

    async def _serve(self, request: Request) -> Response:
        port = request.client.port if request.client else 0
        received = Received(request.url.path, request.url.query, port, dict(request.headers), await request.body())
        self.requests.append(received)
        reply = self.script(received)
        self.arrived.set()
        if isinstance(reply, Reply):
            content = json.dumps(reply.body).encode() if reply.raw is None else reply.raw
            return Response(content, reply.status, headers=reply.headers, media_type="application/json")
        if isinstance(reply, Hang):
            await self._wait_for_leave(request)
            return Response(status_code=204)
        if isinstance(reply, Cut):
            return StreamingResponse(self._cut(), media_type="application/json")
        return StreamingResponse(self._events(reply), media_type="text/event-stream")

    async def _cut(self) -> AsyncIterator[bytes]:
        yield b'{"choices":'
        raise ConnectionError("the script breaks this answer")

    async def _wait_for_leave(self, request: Request) -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        self.left.set()

    async def _events(self, stream: Stream) -> AsyncIterator[bytes]:
        for chunk in stream.chunks:
            yield f"data: {chunk if isinstance(chunk, str) else json.dumps(chunk)}\n\n".encode()
        if stream.end == "done":
            yield b"data: [DONE]\n\n"
        elif stream.end == "abort":
            raise ConnectionError("the script breaks this stream")
        elif stream.end == "hang":
            try:
                await asyncio.sleep(60)
            finally:
                self.left.set()


@contextmanager
def scripted_upstream() -> Iterator[tuple[ScriptedUpstream, str]]:
    """A running scripted upstream and its URL."""
    upstream = ScriptedUpstream()
    with running(upstream.app) as url:
        yield upstream, url


def config_for(url: str, **settings: Any) -> GatewayConfig:
    """A gateway's configuration with a channel for every situation.

    ``real`` (alias ``alias``) has both switches on, ``bare`` has both off, ``claude`` speaks Messages and has both
    on, ``dead`` cannot be reached, ``slow`` gives up after a fraction of a second.
    """
    on: dict[str, Any] = {"strip_anthropic_billing_header": True, "anthropic_messages_exclude_cache": True}
    channels = (
        Channel(
            name="vllm", url=f"{url}/v1", models=("real",), aliases={"alias": "real"}, key=SecretStr("up-secret"), **on
        ),
        Channel(name="bare", url=url, models=("bare",)),
        Channel(
            name="claude",
            url=url,
            dialect="anthropic",
            models=("claude",),
            aliases={"opus": "claude"},
            key=SecretStr("sk-claude"),
            **on,
        ),
        Channel(name="dead", url=DEAD_URL, models=("dead",)),
        Channel(name="slow", url=url, models=("slow",), read_timeout_s=0.2),
    )
    return GatewayConfig(channels=channels, **settings)


@contextmanager
def gateway(url: str, fault: str | None = None, **settings: Any) -> Iterator[str]:
    """A running gateway in front of ``url``."""
    with running(create_app(config_for(url, **settings), fault=fault)) as gateway_url:
        yield gateway_url


USAGE: JSONObject = {
    "prompt_tokens": 1000,
    "completion_tokens": 50,
    "total_tokens": 1050,
    "prompt_tokens_details": {"cached_tokens": 900},
}


def completion(
    text: str | None = "hello",
    *,
    usage: Any = USAGE,
    finish: str | None = "stop",
    calls: list[JSONObject] | None = None,
    **choice: Any,
) -> Reply:
    """A chat completion."""
    message: JSONObject = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = calls
    body: JSONObject = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "real",
        "choices": [{"index": 0, "message": message, "finish_reason": finish, **choice}],
    }
    if usage is not None:
        body["usage"] = usage
    return Reply(body)


def call(identifier: str, name: str, arguments: str) -> JSONObject:
    """A finished tool call."""
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


def chunk(delta: JSONObject | None = None, finish: str | None = None, **members: Any) -> JSONObject:
    """A chat chunk with one choice."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "real",
        "choices": [choice],
    } | members


def usage_chunk(usage: Any = USAGE) -> JSONObject:
    """The extra chunk that carries usage."""
    return chunk() | {"choices": [], "usage": usage}


def text_stream(*texts: str, usage: Any = USAGE, finish: str | None = "stop", end: str = "done") -> Stream:
    """A stream of texts, as vLLM sends it with ``include_usage``."""
    chunks = [chunk({"role": "assistant", "content": ""}, usage=None)]
    chunks += [chunk({"content": text}, usage=None) for text in texts]
    if finish:
        chunks.append(chunk({}, finish, usage=None))
    if usage is not None:
        chunks.append(usage_chunk(usage))
    return Stream(chunks, end)


def events_of(text: str) -> list[JSONObject]:
    """The events of a Messages stream; each name must repeat its payload's type."""
    events = []
    for block in text.strip("\n").split("\n\n"):
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    return events


def data_of(text: str) -> list[str]:
    """The data of a chat stream."""
    return [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]
