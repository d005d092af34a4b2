"""HTTP duties every entry shares: bodies are bounded and whole, clients that leave are noticed, streams are closed."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import GatewayError, error_response

_DRAINED = 64 * 1024 * 1024
"""A body over the limit is read and thrown away up to this size, so that the client gets to read its 413."""


class ClientGone(Exception):
    """The client closed its connection before it had sent its body."""


class RequestGuard:
    """Reads the whole body within a limit, then runs the app until it ends or the client leaves.

    A client that leaves cancels the app's task, and with it the upstream call, whatever it is waiting for.
    """

    def __init__(self, app: ASGIApp, max_body_bytes: int, *, serves_the_departed: bool = False) -> None:
        self._app = app
        self._serves_the_departed = serves_the_departed
        self._limit = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            body = await self._read(Headers(scope=scope), receive)
        except ClientGone:
            return
        except GatewayError as error:
            await error_response(scope["path"], Headers(scope=scope), error)(scope, receive, send)
            return
        await self._run(scope, body, receive, send)

    async def _read(self, headers: Headers, receive: Receive) -> bytes:
        declared = headers.get("content-length", "")
        too_large = GatewayError(413, f"the body is over the limit of {self._limit} bytes; send less, or raise it")
        if declared.isdigit() and int(declared) > self._limit + _DRAINED:
            too_large.headers["connection"] = "close"
            raise too_large
        chunks: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            chunk = message.get("body", b"")
            size += len(chunk)
            if size <= self._limit:
                chunks.append(chunk)
            elif size > self._limit + _DRAINED:
                too_large.headers["connection"] = "close"
                raise too_large
            else:
                chunks.clear()
            more = message.get("more_body", False)
        if size > self._limit:
            raise too_large
        return b"".join(chunks)

    async def _run(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        gone = asyncio.Event()
        delivered = answered = False

        async def replay() -> Message:
            nonlocal delivered
            if not delivered:
                delivered = True
                return {"type": "http.request", "body": body, "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def note(message: Message) -> None:
            nonlocal answered
            answered = answered or (message["type"] == "http.response.body" and not message.get("more_body", False))
            await send(message)

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            gone.set()

        serving = asyncio.ensure_future(self._app(scope, replay, note))
        watching = asyncio.ensure_future(watch())
        try:
            await asyncio.wait({serving, watching}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done() or answered or self._serves_the_departed:
                # A server reports the end of an answered request as a disconnect too; closing goes on undisturbed.
                await serving
        finally:
            serving.cancel()
            watching.cancel()
            await asyncio.gather(serving, watching, return_exceptions=True)


class EventStream(Response):
    """A response that sends events as they are made and runs ``close`` on every way out."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes], close: Callable[[], Awaitable[None]]) -> None:
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._events = events
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's own
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async with aclosing(self._events) as events:
                async for event in events:
                    await send({"type": "http.response.body", "body": event, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await self._close()
