"""Thin rewriting layers: proxies that change requests, answers or usage on their way."""

from __future__ import annotations

import asyncio
import io
import itertools
import random
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson

from conformance.verdicts import Entry

Json = dict[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

DROPPED = frozenset(
    ("host", "content-length", "transfer-encoding", "connection", "accept-encoding", "content-encoding")
)


@dataclass
class Asked:
    """One request to a layer: its number from 0, path, body (changed in place) and headers by lower-case name."""

    number: int
    path: str
    body: Json
    headers: dict[str, str]

    @property
    def entry(self) -> Entry:
        return Entry.MESSAGES if self.path.endswith("/messages") else Entry.CHAT

    @property
    def streamed(self) -> bool:
        return self.body.get("stream") is True


@dataclass
class Reply:
    """One answer of a layer; `chunks` overrides how the body is cut on the wire."""

    status: int
    headers: dict[str, str]
    body: bytes
    chunks: list[bytes] | None = None
    broken: bool = False  # the connection breaks instead of ending

    @property
    def is_stream(self) -> bool:
        return "event-stream" in self.headers.get("content-type", "")

    @property
    def events(self) -> list[tuple[str, Any]]:
        """(event name, data: parsed, or text where it is no JSON) of a stream."""
        found: list[tuple[str, Any]] = []
        for block in self.body.decode().split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
            if "data" in lines:
                data = lines["data"]
                found.append((lines.get("event", ""), orjson.loads(data) if data.startswith("{") else data))
        return found

    @events.setter
    def events(self, events: Sequence[tuple[str, Any]]) -> None:
        self.body = b"".join(map(event_bytes, events))


def event_bytes(event: tuple[str, Any]) -> bytes:
    name, data = event
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + (data.encode() if isinstance(data, str) else orjson.dumps(data)) + b"\n\n"


def json_reply(value: Any, status: int = 200, **headers: str) -> Reply:
    return Reply(status, {"content-type": "application/json", **headers}, orjson.dumps(value))


Change = Callable[[Asked], Reply | None]
Answer = Callable[[Asked, Reply], None]
UsageChange = Callable[[Asked, Json], Json | None]


@dataclass
class Layer:
    """A rewriting proxy. `request` changes a POST's body in place, or answers it; `answer` changes the answer;
    `usage` replaces every usage object in it (message_start's included); `retries` repeats an upstream 5xx."""

    request: Change | None = None
    answer: Answer | None = None
    usage: UsageChange | None = None
    retries: int = 0
    delay_s: float = 0.0
    beside: Callable[[Asked], Json] | None = None  # an unrelated body sent upstream at the same time
    before: Callable[[Asked], Sequence[Json]] | None = None  # other bodies sent upstream first
    after: Callable[[Asked], Sequence[Json]] | None = None  # other bodies sent upstream when the answer is there
    tokenized: Callable[[Asked, list[int], Json], Json] | None = None  # a usage change that knows the prompt's tokens
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    route: Callable[[Asked], int] | None = None  # which of the upstreams a request goes to; None draws one


class Proxy:
    """A layer as an ASGI app; one of `upstreams` is drawn for each request, unless the layer routes it."""

    def __init__(self, layer: Layer, upstreams: Sequence[str]) -> None:
        self.layer = layer
        self.upstreams = upstreams
        self.numbers = itertools.count()
        self.session: aiohttp.ClientSession | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(30), auto_decompress=False) as self.session:
                await send({"type": "lifespan.startup.complete"})
                await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        content = b""
        while True:
            message = await receive()
            content += message.get("body", b"")
            if not message.get("more_body"):
                break
        reply = await self._unless_left(self._reply(scope, content), receive)
        if reply is None:
            return
        headers = [(k.encode(), v.encode()) for k, v in reply.headers.items()]
        if reply.broken:
            headers.append((b"content-length", str(len(reply.body) + 10).encode()))
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        for chunk in reply.chunks if reply.chunks is not None else [reply.body]:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    @staticmethod
    async def _unless_left(work: Coroutine[Any, Any, Reply], receive: Receive) -> Reply | None:
        """The answer, or None where the client leaves before there is one: its upstream call then ends too."""
        replying, leaving = asyncio.ensure_future(work), asyncio.ensure_future(receive())
        try:
            await asyncio.wait({replying, leaving}, return_when=asyncio.FIRST_COMPLETED)
            return replying.result() if replying.done() else None
        finally:
            replying.cancel()
            leaving.cancel()

    async def _reply(self, scope: Scope, content: bytes) -> Reply:
        layer, path = self.layer, scope["path"]
        headers = {k.decode().lower(): v.decode() for k, v in scope["headers"]}
        body = orjson.loads(content) if content else {}
        asked = Asked(next(self.numbers) if scope["method"] == "POST" else -1, path, body, headers)
        await asyncio.sleep(layer.delay_s)
        if scope["method"] == "POST" and layer.request is not None:
            before = orjson.dumps(body)
            at_once = layer.request(asked)
            if at_once is not None:
                return at_once
            if orjson.dumps(asked.body) != before:
                content = orjson.dumps(asked.body)
        routed = layer.route is not None and scope["method"] == "POST"
        upstream = self.upstreams[layer.route(asked)] if routed and layer.route else layer.rng.choice(self.upstreams)
        if scope["method"] == "POST" and layer.before is not None:
            for other in layer.before(asked):
                await self._send("POST", upstream + path, orjson.dumps(other), {})
        work = [self._send(scope["method"], upstream + path, content, headers)]
        if scope["method"] == "POST" and layer.beside is not None:
            work.append(self._send("POST", upstream + path, orjson.dumps(layer.beside(asked)), {}))
        reply = (await asyncio.gather(*work))[0]
        if scope["method"] == "POST" and layer.after is not None:
            for other in layer.after(asked):
                await self._send("POST", upstream + path, orjson.dumps(other), {})
        for _ in range(layer.retries):
            if reply.status >= 500:
                reply = await self._send(scope["method"], upstream + path, content, headers)
        if scope["method"] != "POST" or not path.endswith(("/messages", "/chat/completions")):
            return reply
        if layer.tokenized is not None and reply.status == 200:
            asking = {k: asked.body[k] for k in ("model", "messages", "tools") if k in asked.body}
            told = orjson.loads((await self._send("POST", f"{upstream}/tokenize", orjson.dumps(asking), {})).body)
            tokens, change = told["tokens"], layer.tokenized
            done: list[Json] = []

            def once(asked: Asked, usage: Json) -> Json:
                if not done:
                    done.append(change(asked, tokens, usage))
                return done[0]

            rewrite_usage(asked, reply, once)
        if layer.usage is not None and reply.status == 200:
            rewrite_usage(asked, reply, layer.usage)
        if layer.answer is not None:
            layer.answer(asked, reply)
        return reply

    async def _send(self, method: str, url: str, content: bytes, headers: Mapping[str, str]) -> Reply:
        kept = {k: v for k, v in headers.items() if k not in DROPPED} or {"content-type": "application/json"}
        assert self.session is not None
        data = io.BytesIO(content) if content else None
        kept["accept-encoding"] = "identity"
        async with self.session.request(method, url, data=data, headers=kept) as response:
            told = {k.lower(): v for k, v in response.headers.items() if k.lower() not in DROPPED}
            return Reply(response.status, told, await response.read())


class Vllm(Proxy):
    """An engine that says which vLLM it is and treats the attribution line as that release does."""

    owner = "vllm"
    """Who made it, by its model list."""

    def __init__(self, version: str, engine: str) -> None:
        release = tuple(int(n) for n in version.split(".")[:2])
        super().__init__(Layer(request=_without_attribution if release >= (0, 32) else None), [engine])
        self.version = version

    async def _reply(self, scope: Scope, content: bytes) -> Reply:
        if scope["path"] == "/version":
            return json_reply({"version": self.version})
        reply = await super()._reply(scope, content)
        if scope["path"] == "/v1/models":
            value = orjson.loads(reply.body)
            reply.body = orjson.dumps({**value, "data": [{**m, "owned_by": self.owner} for m in value["data"]]})
        return reply


class Other(Vllm):
    """An engine of another make."""

    owner = "someone"


def _without_attribution(asked: Asked) -> None:
    for message in asked.body.get("messages", ()):
        if message["role"] == "system" and isinstance(message["content"], str):
            message["content"] = re.sub(r"x-anthropic-billing-header:[^\n]*?cch=\w+;", "", message["content"])


def rewrite_usage(asked: Asked, reply: Reply, change: UsageChange) -> None:
    """Replace every usage object of an answer; None takes it out of a stream and leaves null in a plain answer."""

    def changed(holder: Json) -> None:
        if isinstance(holder.get("usage"), dict):
            holder["usage"] = change(asked, holder["usage"])

    if not reply.is_stream:
        value = orjson.loads(reply.body)
        changed(value)
        reply.body = orjson.dumps(value)
        return
    events = reply.events
    for _, data in events:
        if isinstance(data, dict):
            changed(data.get("message") if data.get("type") == "message_start" else data)  # type: ignore[arg-type]
    reply.events = events


def set_cached(asked: Asked, usage: Json, cached: Any) -> Json:
    """`usage` with another cached count, its total kept where that is possible."""
    if asked.entry is Entry.CHAT:
        return {**usage, "prompt_tokens_details": {"cached_tokens": cached}}
    if "input_tokens" not in usage:
        return {**usage, "cache_read_input_tokens": cached}
    total = usage["input_tokens"] + (usage.get("cache_read_input_tokens") or 0)
    rest = total - cached if isinstance(cached, int) and 0 <= cached <= total else usage["input_tokens"]
    return {**usage, "input_tokens": rest, "cache_read_input_tokens": cached}


def total_of(asked: Asked, usage: Json) -> int:
    if asked.entry is Entry.CHAT:
        return int(usage.get("prompt_tokens") or 0)
    return int(usage.get("input_tokens") or 0) + int(usage.get("cache_read_input_tokens") or 0)


def system_texts(body: Json) -> list[Json]:
    return [m for m in body["messages"] if m["role"] == "system"]
