"""ASGI apps on real loopback sockets, all on one background thread and event loop.

The suite serves its engine, gateway and recorder beside the test that talks to them. One loop for all of them
keeps the thread count, and with it the cost of handing the interpreter over, as low as it can be.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator, MutableMapping
from concurrent.futures import Future
from typing import Any, Self, TypeVar

import uvicorn

T = TypeVar("T")
Message = MutableMapping[str, Any]
App = Callable[..., Coroutine[Any, Any, None]]

KEEP_ALIVE_S = 600
"""Longer than any client's idle pool, so that a server never closes a connection a client is about to reuse."""

GRACE_S = 1.0
"""How long a closing server waits for requests in flight before it cancels them."""


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # no uvloop on Windows
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class _LoopThread:
    """The shared event loop: started with its first user, stopped and closed with its last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    def acquire(self) -> None:
        with self._lock:
            if self._users == 0:
                self._start()
            self._users += 1

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._end()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result, or raise what it raised."""
        assert self._loop is not None, "acquire() first"
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _start(self) -> None:
        started: Future[None] = Future()

        async def stay() -> None:
            self._loop = asyncio.get_running_loop()
            self._stop = asyncio.Event()
            started.set_result(None)
            await self._stop.wait()

        def main() -> None:
            with asyncio.Runner(loop_factory=_new_loop) as runner:
                runner.run(stay())

        self._thread = threading.Thread(target=main, name="prefixproof-servers", daemon=True)
        self._thread.start()
        started.result()

    def _end(self) -> None:
        assert self._loop is not None
        assert self._stop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop = self._stop = self._thread = None


_shared = _LoopThread()


class _Lifespan:
    """Runs an app's lifespan and raises what the app raised, which uvicorn's own would only log."""

    should_exit = False  # read by uvicorn: a start-up that failed never gets that far

    def __init__(self, app: App) -> None:
        self._app = app
        self._inbox: asyncio.Queue[Message] = asyncio.Queue()
        self._outbox: asyncio.Queue[Message] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._supported = False
        self.state: dict[str, Any] = {}

    async def startup(self) -> None:
        """Does nothing: uvicorn calls it again after `open`."""

    async def open(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        self._task = asyncio.create_task(self._app(scope, self._inbox.get, self._outbox.put))
        answer = await self._ask("startup")
        self._supported = answer is not None

    async def close(self) -> None:
        if self._supported:
            await self._ask("shutdown")
        if self._task is not None:
            await self._task

    async def _ask(self, phase: str) -> Message | None:
        """The app's answer, or None where it returned without one or has no lifespan at all."""
        assert self._task is not None
        await self._inbox.put({"type": f"lifespan.{phase}"})
        answer = asyncio.create_task(self._outbox.get())
        await asyncio.wait({self._task, answer}, return_when=asyncio.FIRST_COMPLETED)
        if answer.done() or not self._outbox.empty():
            message = await answer
            if message["type"] == f"lifespan.{phase}.failed":
                await self._task  # Starlette reports the failure and then raises its cause
                raise RuntimeError(message.get("message") or f"the app's {phase} failed")
            return message
        answer.cancel()
        await self._task
        return None


class LoopbackServer:
    """One ASGI app being served; made by `serve`."""

    def __init__(self, app: App, sock: socket.socket, grace_s: float = GRACE_S) -> None:
        self.host, self.port = sock.getsockname()[:2]
        self._sock = sock
        self._grace_s = grace_s
        self._lifespan = _Lifespan(app)
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                loop="none",
                http="httptools",
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                log_level=logging.CRITICAL,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
                timeout_keep_alive=KEEP_ALIVE_S,
            )
        )

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    async def start(self) -> None:
        """Run the app's start-up, then accept connections. Raises what the start-up raised."""
        await self._lifespan.open()
        self._server.config.load()
        self._server.lifespan = self._lifespan
        await self._server.startup(sockets=[self._sock])

    async def stop(self) -> None:
        """Stop accepting, let requests in flight end or cancel them, then run the app's shutdown."""
        state = self._server.server_state
        for listener in self._server.servers:
            listener.close()
        for connection in list(state.connections):
            connection.shutdown()
        await self._quiet(self._grace_s)
        for task in list(state.tasks):
            task.cancel()
        if state.tasks:
            await asyncio.wait(set(state.tasks))
        for connection in list(state.connections):
            connection.transport.abort()
        await self._quiet(GRACE_S)
        for listener in self._server.servers:
            await listener.wait_closed()
        await self._lifespan.close()

    async def _quiet(self, seconds: float) -> None:
        """Wait until nothing is in flight, at most `seconds`. uvicorn keeps plain sets, so there is no event."""
        state = self._server.server_state
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        while (state.tasks or state.connections) and clock() < until:  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.001)


def _bind(host: str, port: int) -> socket.socket:
    family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    sock = socket.socket(family, kind, proto)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


@contextlib.contextmanager
def serve(app: App, host: str = "127.0.0.1", port: int = 0, *, grace_s: float = GRACE_S) -> Iterator[LoopbackServer]:
    """Serve `app` while the context lasts; port 0 lets the system choose one.

    Raises `OSError` when the address cannot be bound, and whatever the app's start-up or shutdown raises.
    Must not be entered from the servers' own loop.
    """
    with contextlib.ExitStack() as stack:
        sock = stack.enter_context(contextlib.closing(_bind(host, port)))
        _shared.acquire()
        stack.callback(_shared.release)
        server = LoopbackServer(app, sock, grace_s)
        _shared.run(server.start())
        try:
            yield server
        finally:
            _shared.run(server.stop())


class Restartable:
    """An app behind one address that can be stopped and made anew there, as a process is that is restarted."""

    def __init__(self, make: Callable[[], App]) -> None:
        self._make = make
        self._stack = contextlib.ExitStack()
        self._server: LoopbackServer | None = None

    def __enter__(self) -> Self:
        self._server = self._stack.enter_context(serve(self._make()))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def url(self) -> str:
        return self._running.url

    def restart(self) -> None:
        """Stop the app, requests in flight included, and serve a new one. Raises as `serve` does."""
        port = self._running.port
        self._stack.close()
        self._server = self._stack.enter_context(serve(self._make(), port=port))

    @property
    def _running(self) -> LoopbackServer:
        assert self._server is not None, "enter it first"
        return self._server
