"""Kept connections: how long each has rested when it is used again, and what to do where the server has closed it.

A server may close a connection that rests at any moment, also while the next request is on its way there. Then nothing
was answered, and nothing is wrong: every client sends such a request once more. What tells this from a target that
drops requests is the rest. It is measured at the moment of sending, by connection: a check made earlier, or one made of
another connection of the same user, knows nothing of a pause that fell in between, such as a busy process's.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

from gevent.local import local
from geventhttpclient.response import HTTPConnectionClosed
from geventhttpclient.url import URL

from conformance.wire.endpoint import KEPT_ALIVE_S

RESTED_S: Final = 0.5
"""A connection that rested for less was hardly closed for resting."""


class Connections:
    """One user's connections to one host, on the clients of Locust's own session."""

    def __init__(self, clients: Any, base: URL) -> None:
        self._clients = clients
        self._base = base
        self._watched: Any = None
        self._since: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
        self._now = local()

    def post(self, path: str, body: bytes, headers: dict[str, str], doubtful: Callable[[], None]) -> Any:
        """Send a request; the answer's head.

        Where a kept connection ends without a byte of an answer the request goes out once more, on a new one. Load has
        no effect that a second sending could double but its own count, so that is safe even where the first was read.
        `doubtful` is called where the connection had not rested: a server that keeps connections for a moment only
        looks the same as one that drops requests. What a new connection does not answer is raised.
        """
        try:
            return self._client().request("POST", path, body, headers)
        except (HTTPConnectionClosed, ssl.SSLEOFError):
            rested = self._now.rested
            if rested is None:
                raise
            if rested < RESTED_S:
                doubtful()
            self._clients.close()
            return self._client().request("POST", path, body, headers)

    def _client(self) -> Any:
        client = self._clients.get_client(self._base)
        if client is not self._watched:
            self._watched = client
            self._watch(client._connection_pool)
        return client

    def _watch(self, pool: Any) -> None:
        take, give_back = pool.get_socket, pool.return_socket

        def rested() -> Any:
            """A connection that has not rested for too long, found after every wait that taking one may be."""
            while True:
                connection = take()
                since = self._since.pop(connection, None)
                self._now.rested = None if since is None else time.monotonic() - since
                if since is None or self._now.rested <= KEPT_ALIVE_S:
                    return connection
                pool.release_socket(connection)

        def resting(connection: Any) -> None:
            self._since[connection] = time.monotonic()
            give_back(connection)

        pool.get_socket, pool.return_socket = rested, resting
