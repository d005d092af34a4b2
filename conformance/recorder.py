"""The recorder: stands where a gateway's engine should be and keeps what the suite's own requests became.

It relays every request byte for byte, both ways, and remembers only those whose body carries the run's marker:
other users' prompts pass through a shared gateway without being looked at further or kept. A request whose token has
a script in `scripts` is answered by that script instead; without an engine there are scripted answers only.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
import string
import threading
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import aiohttp
from yarl import URL

from conformance.errors import TargetProblem, UsageProblem
from conformance.recorded import Slot
from conformance.scripting import Script, ScriptTable
from conformance.scripting.chat import error
from conformance.scripting.stand_in import scripted_answer, stand_in
from conformance.scripting.table import ScriptAborted, play
from conformance.servers import serve
from conformance.wire.endpoint import KEPT_ALIVE_S, base_url, environment_proxy
from conformance.wire.exchange import UpstreamRecord
from conformance.wire.headers import HOP_BY_HOP, NOT_FORWARDED, RawHeaders, forwarded, shown

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MAX_BYTES = 256 * 1024 * 1024
"""Bodies kept in one run, both ways together."""

SETTLE_S = 5.0
"""How long `since` waits for an answer the gateway has already used but the engine has not quite ended."""

LINGER_S = 0.25
"""How long the engine may go on after the gateway left: a client that stops reading at `[DONE]` hangs up just before
the engine's answer has ended, and that answer is whole."""

CONNECT_TIMEOUT_S = 10.0

ENGINE_FAILURES = (aiohttp.ClientError, TimeoutError)

LONGEST_HEADER = 64 * 1024
"""Bytes of one line of an engine's response head."""


class Recorder:
    """An ASGI app that relays to `engine_url`, and the records it made. `mark` and `since` are for other threads.

    `engine_url` None: nothing is relayed; what has no script gets a 503, and probes of `GET /health` and
    `GET /v1/models` are answered as an engine would. `marker` is ASCII, so that it reads the same in any JSON escaping;
    None keeps nothing. Raises `UsageProblem` for an engine URL or a marker that cannot be used.
    """

    def __init__(
        self,
        engine_url: str | None,
        *,
        marker: bytes | None = None,
        max_bytes: int = MAX_BYTES,
        linger_s: float = LINGER_S,
    ) -> None:
        try:
            self.engine_url = base_url(engine_url)[0] if engine_url is not None else None
        except TargetProblem as exc:
            raise UsageProblem(str(exc).replace("the target", "the engine")) from None
        self.scripts = ScriptTable()
        self.url: str | None = None  # where a gateway reaches the recorder, once it is served
        self.seen = 0  # all requests
        self.unrecorded = 0  # relayed without being kept: no marker in the body
        self.dropped = 0  # marked, but over the memory cap
        self._max_bytes = max_bytes
        self._linger_s = linger_s
        self._kept_bytes = 0
        self._slots: list[Slot] = []
        self._changed = threading.Condition()
        self._session: aiohttp.ClientSession | None = None
        self._proxy = environment_proxy(self.engine_url) if self.engine_url else None
        self._target = lru_cache(maxsize=256)(self._target_url)
        self.marker = marker

    @property
    def marker(self) -> bytes | None:
        """The bytes that a request must contain to be kept."""
        return self._marker

    @marker.setter
    def marker(self, value: bytes | None) -> None:
        if value is not None and (not value or not re.fullmatch(rb"[A-Za-z0-9_.:-]+", value)):
            raise UsageProblem("the recorder's marker must be ASCII letters, digits, '_', '.', ':' and '-'")
        self._marker = value

    @property
    def notice(self) -> str | None:
        """One line when the memory cap was reached, else None."""
        if not self.dropped:
            return None
        cap = self._max_bytes // (1024 * 1024)
        return f"the recorder's cap of {cap} MiB was reached: {self.dropped} marked requests were relayed but not kept"

    def mark(self) -> int:
        """A point in the order of records, for `since`."""
        with self._changed:
            return len(self._slots)

    def since(self, mark: int, settle_s: float = SETTLE_S) -> tuple[UpstreamRecord, ...]:
        """The records of requests that arrived after `mark`, in order of arrival.

        A client may hold the whole answer before the engine has ended its own: waits up to `settle_s` for such
        requests, then gives them as they stand (`complete` False). Must not be called on the servers' loop.
        """
        with self._changed:
            self._changed.wait_for(lambda: all(slot.ended for slot in self._slots[mark:]), settle_s)
            return tuple(slot.record() for slot in self._slots[mark:] if not slot.dropped)

    def arrived(self, token: str, mark: int, timeout_s: float) -> bool:
        """Wait until a request with `token` has arrived after `mark`, at most `timeout_s`; whether one has."""
        wanted = token.encode()
        with self._changed:
            return self._changed.wait_for(lambda: any(wanted in s.body for s in self._slots[mark:]), timeout_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        body = await _read_body(receive)
        if body is None:
            return
        slot = self._admit(scope, body)
        sending = _Sending(send)
        found = self.scripts.find(body, self._marker)
        if found is not None:
            token, reply = found
            if slot is not None:
                slot.script = reply.name
            serving = self._play(scripted_answer(reply, scope["path"], body), token, slot, sending)
        elif self.engine_url is None:
            serving = self._play(stand_in(scope["method"], scope["path"]), "", slot, sending)
        else:
            serving = self._relay(scope, body, slot, sending)
        linger_s = self._linger_s if found is None else 0.0
        work = asyncio.create_task(serving)
        gone = asyncio.create_task(_disconnected(receive))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            # uvicorn reports a finished response as a disconnect too: that one must not cancel the tidying up.
            if not work.done() and not sending.finished:
                await asyncio.wait({work}, timeout=linger_s)
                work.cancel()
            await work
        except asyncio.CancelledError:
            # The gateway went away, which ends the upstream request and needs no answer; a server that is shutting
            # down cancels this task itself and gets its cancellation back.
            if not work.cancelled():
                raise
        finally:
            work.cancel()
            gone.cancel()
            self._end(slot)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        # aiohttp, not httpx: the recorder is in every request's way, and a relay through httpx costs thrice as much.
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEPT_ALIVE_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("accept", "content-type", "user-agent"),
            # No read timeout: how long an engine may take is the gateway's business, which goes away if it tires.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            max_line_size=LONGEST_HEADER,
            max_field_size=LONGEST_HEADER,
        ) as session:
            self._session = session
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
        self._session = None
        await send({"type": "lifespan.shutdown.complete"})

    def _admit(self, scope: Scope, body: bytes) -> Slot | None:
        """Count a request, and open a record for it when it carries the marker and there is room."""
        with self._changed:
            self.seen += 1
            if self._marker is None or self._marker not in body:
                self.unrecorded += 1
                return None
            if self._kept_bytes + len(body) > self._max_bytes:
                self.dropped += 1
                return None
            self._kept_bytes += len(body)
            slot = Slot(scope["method"], scope["path"], shown(scope["headers"]), body)
            self._slots.append(slot)
            self._changed.notify_all()
            return slot

    def _keep(self, slot: Slot | None, chunk: bytes) -> None:
        if slot is None or slot.dropped:
            return
        if self._kept_bytes + len(chunk) > self._max_bytes:
            with self._changed:
                self.dropped += 1
                self._kept_bytes -= slot.drop()
            return
        self._kept_bytes += len(chunk)
        slot.answer.append(chunk)

    def _end(self, slot: Slot | None) -> None:
        if slot is not None and not slot.ended:
            with self._changed:
                slot.ended = True
                self._changed.notify_all()

    def _target_url(self, raw_path: bytes, query: bytes) -> URL:
        path = raw_path + b"?" + query if query else raw_path
        return URL((self.engine_url or "") + quote(path, safe=string.printable), encoded=True)

    async def _relay(self, scope: Scope, body: bytes, slot: Slot | None, sending: _Sending) -> None:
        assert self._session is not None, "the recorder is not being served"
        headers = [(_text(name), _text(value)) for name, value in forwarded(scope["headers"], NOT_FORWARDED)]
        try:
            response = await self._session.request(
                scope["method"],
                self._target(scope["raw_path"], scope["query_string"]),
                headers=[*headers, ("accept-encoding", "identity")],
                data=io.BytesIO(body) if body else None,  # for bytes it warns of long ones
                proxy=self._proxy,
                allow_redirects=False,
            )
        except ENGINE_FAILURES as exc:
            self._end(slot)
            await sending.bad_gateway(self.engine_url or "", exc)
            return
        try:
            if slot is not None:
                slot.status = response.status
            await sending.start(response.status, forwarded(response.raw_headers, HOP_BY_HOP))
            async for chunk in response.content.iter_any():
                self._keep(slot, chunk)
                await sending.chunk(chunk)
            if slot is not None:
                slot.complete = True
            self._end(slot)
            await sending.end()
        except ENGINE_FAILURES as exc:
            # Raising after the head has gone out makes the server cut the connection: the gateway sees an abort.
            raise BrokenUpstreamError(str(exc)) from None
        finally:
            response.close()

    async def _play(self, script: Script, token: str, slot: Slot | None, sending: _Sending) -> None:
        async def start(status: int, headers: RawHeaders) -> None:
            if slot is not None:
                slot.status = status
            await sending.start(status, headers)

        async def chunk(body: bytes) -> None:
            self._keep(slot, body)
            await sending.chunk(body)

        try:
            await play(script, start=start, chunk=chunk, hold=lambda: self.scripts.held(token))
        except ScriptAborted:
            raise BrokenUpstreamError("cut by its script") from None
        if slot is not None:
            slot.complete = True
        self._end(slot)
        await sending.end()


class BrokenUpstreamError(Exception):
    """The engine broke off in the middle of an answer, or a script says so."""


class _Sending:
    """The answer to the gateway, and whether it was given in full."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.finished = False

    async def start(self, status: int, headers: RawHeaders) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def chunk(self, body: bytes) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def end(self, body: bytes = b"") -> None:
        self.finished = True
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def bad_gateway(self, engine_url: str, exc: Exception) -> None:
        refused = isinstance(exc, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
        what = "does not accept connections" if refused else "closed the connection without an answer"
        message = f"prefixproof recorder: the engine at {engine_url} {what}"
        answer = error(502, message, "upstream_unreachable")
        await self.start(502, [(name.encode(), value.encode()) for name, value in answer.headers])
        await self.end(answer.body)


def _text(header: bytes) -> str:
    """A header as the client takes it: it writes UTF-8, which keeps the bytes of all that is UTF-8."""
    try:
        return header.decode()
    except UnicodeDecodeError:
        return header.decode("latin-1")


async def _read_body(receive: Receive) -> bytes | None:
    """The whole request body, or None when the client left before it was sent."""
    pieces = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(pieces)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def parse_listen(listen: str) -> tuple[str, int]:
    """(host, port) of `HOST:PORT` or `[IPV6]:PORT`. Raises `UsageProblem`."""
    host, colon, port = listen.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageProblem(f"{listen!r} is no address to listen on: write HOST:PORT, like 127.0.0.1:9100")
    return host, int(port)


@contextlib.contextmanager
def relay(
    engine_url: str | None,
    *,
    marker: bytes | None = None,
    listen: str = "127.0.0.1:0",
    max_bytes: int = MAX_BYTES,
    linger_s: float = LINGER_S,
) -> Iterator[Recorder]:
    """Serve a recorder in front of `engine_url` (None: scripted answers only) while the context lasts.

    Its `url` is where it listens.

    Raises `UsageProblem` when it cannot listen there.
    """
    recorder = Recorder(engine_url, marker=marker, max_bytes=max_bytes, linger_s=linger_s)
    host, port = parse_listen(listen)
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(serve(recorder, host, port))
        except OSError as exc:
            raise UsageProblem(f"the recorder cannot listen on {listen}: {exc.strerror or exc}") from None
        recorder.url = server.url
        yield recorder
