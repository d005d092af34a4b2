"""Runs one app on one socket until it is told to stop."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn
from starlette.applications import Starlette

_KEEP_ALIVE_S = 75
"""How long an idle connection is kept, as proxies do: with uvicorn's 5 s a client that pauses often finds it closed."""


class PortError(OSError):
    """The address cannot be listened on; the message says why."""


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 lets the system choose. Raises `PortError`."""
    if not 0 <= port <= 65_535:
        raise PortError(f"port {port} does not exist: give one between 1 and 65535, or 0 for a free one")
    try:
        return socket.create_server((host, port), family=_family(host), backlog=2048)
    except OSError as error:
        # An address that does not resolve has a number of its own kind, and only the text says why.
        reason = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        raise PortError(
            f"cannot listen on {host}:{port}: {reason}. Choose another --port, or 0 for a free one"
        ) from error


def url_of(listener: socket.socket) -> str:
    """The address a client uses."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(
    app: Starlette, listener: socket.socket, *, on_ready: Callable[[], None], on_stop: Callable[[], None]
) -> None:
    """Serve until SIGINT or SIGTERM. Closes the socket.

    `on_ready` is called once requests are answered, `on_stop` when a signal asks to end.
    """
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_graceful_shutdown=3, timeout_keep_alive=_KEEP_ALIVE_S,
        lifespan="on",
    )  # fmt: skip
    with listener, asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(_Server(config, on_ready, on_stop).serve(sockets=[listener]))


class _Server(uvicorn.Server):
    """Says when it is ready, and returns after a signal instead of dying of it."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None], on_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._on_stop = on_stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True
        self._on_stop()


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
