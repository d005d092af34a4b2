"""Calls to a channel's upstream. No retries: a retry is the client's to decide, and it may have cost money."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, MutableMapping
from contextlib import aclosing
from typing import Any

import aiohttp

from .clients import CALL_FAILURES, Clients, body_of
from .config import Channel
from .errors import GatewayError, UpstreamBroken
from .jsontext import JSONTextError, quick_loads
from .seams import Mutations
from .sse import SSEReader

CHAT_PATH = "/v1/chat/completions"

SESSION_HEADERS = ("x-claude-code-session-id", "x-session-id", "x-session-affinity")
"""Forwarded as they came, so that a router behind the gateway can keep a session on one replica."""

_ANTHROPIC_HEADERS = ("anthropic-version", "anthropic-beta")
_LINGER_S = 0.5
"""How long the end of a stream may come after its ``[DONE]`` for the connection to be used again."""


def request_headers(channel: Channel, received: Mapping[str, str]) -> dict[str, str]:
    """Headers for the upstream: the channel's key and, of the client's own, only those the upstream needs."""
    headers = {"content-type": "application/json", "accept-encoding": "identity"}
    headers |= {name: received[name] for name in SESSION_HEADERS if name in received}
    secret = channel.secret
    if channel.dialect == "anthropic":
        headers |= {name: received[name] for name in _ANTHROPIC_HEADERS if name in received}
        headers.setdefault("anthropic-version", "2023-06-01")
        if secret is not None:
            headers["x-api-key"] = secret
    elif secret is not None:
        headers["authorization"] = f"Bearer {secret}"
    return headers


class Upstream:
    """One channel, for one request. ``shared`` is what all requests of the app share."""

    def __init__(
        self,
        clients: Clients,
        channel: Channel,
        received: Mapping[str, str],
        mutations: Mutations,
        shared: MutableMapping[str, Any],
    ) -> None:
        self._session = clients.session
        self._proxy = clients.proxy_of(channel)
        self._channel = channel
        self._mutations = mutations
        self._shared = shared
        self._headers = request_headers(channel, received)

    async def post(self, path: str, body: bytes) -> bytes:
        """The body of a whole answer of status 2xx.

        Raises:
            GatewayError: 502 unreachable or broken off, 504 timed out, else the upstream's own error status.
        """
        response = await self._send(path, body)
        try:
            answer = await response.read()
        except CALL_FAILURES as error:
            raise self.transport_error(error) from error
        finally:
            response.close()
        self._check(response, answer)
        return answer

    async def stream(self, path: str, body: bytes) -> "UpstreamStream":
        """An event stream, positioned at its first event.

        Raises:
            GatewayError: as ``post``; also if the answer is no event stream or opens with an error, so that no
                error hides behind a status of 200.
        """
        response = await self._send(path, body)
        opened = False
        try:
            if not 200 <= response.status < 300:
                self._check(response, await response.read())
            if "text/event-stream" not in response.headers.get("content-type", ""):
                answer = await response.read()
                raise self._error_in(answer) or UpstreamBroken("the upstream did not stream its answer")
            stream = UpstreamStream(response, self)
            await stream.open()
            opened = True
            return stream
        except CALL_FAILURES as error:
            raise self.transport_error(error) from error
        finally:
            if not opened:
                response.close()

    async def _send(self, path: str, body: bytes) -> aiohttp.ClientResponse:
        async with self._mutations.calling(self._shared):
            try:
                response = await self._request(path, body)
                for _ in range(self._mutations.tries() - 1):
                    if response.status != 429 and response.status < 500:
                        break
                    response.close()
                    response = await self._request(path, body)
                return response
            except CALL_FAILURES as error:
                raise self.transport_error(error) from error

    async def _request(self, path: str, body: bytes) -> aiohttp.ClientResponse:
        channel = self._channel
        waits = aiohttp.ClientTimeout(sock_connect=channel.connect_timeout_s, sock_read=channel.read_timeout_s)
        return await self._session.post(
            channel.root + path,
            data=body_of(body),
            headers=self._headers,
            timeout=waits,
            proxy=self._proxy,
            allow_redirects=False,
        )

    def transport_error(self, error: Exception) -> GatewayError:
        """What a failed call means to the client."""
        channel = self._channel.name
        if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
            return GatewayError(502, f"the upstream of channel {channel!r} cannot be reached; is it running?")
        if isinstance(error, TimeoutError):
            seconds = f"{self._channel.read_timeout_s:g} s"
            return GatewayError(504, f"the upstream of channel {channel!r} was silent for {seconds}")
        return UpstreamBroken(f"the upstream of channel {channel!r} broke off the connection")

    def _check(self, response: aiohttp.ClientResponse, body: bytes) -> None:
        status = response.status
        if 200 <= status < 300:
            return
        if status < 400:
            message = f"the upstream of channel {self._channel.name!r} answered {status}; check the channel's url"
            raise UpstreamBroken(message)
        headers = {"retry-after": response.headers["retry-after"]} if "retry-after" in response.headers else {}
        if status in (401, 403):
            # The upstream judged the channel's key, which the client has never seen and must not see quoted.
            message = f"the upstream of channel {self._channel.name!r} refused the channel's key; check its key setting"
            raise GatewayError(status, message, headers=headers)
        try:
            answer = quick_loads(body)
        except JSONTextError:
            answer = None
        said = error_message(answer) or f"the upstream of channel {self._channel.name!r} answered {status}"
        raise GatewayError(status, self.redact(said), headers=headers, upstream=_error_object(answer))

    def redact(self, text: str) -> str:
        """``text`` without the channel's key."""
        secret = self._channel.secret
        return text.replace(secret, "***") if secret else text

    def _error_in(self, body: bytes) -> GatewayError | None:
        try:
            return self.embedded_error(quick_loads(body))
        except JSONTextError:
            return None

    def embedded_error(self, answer: Any) -> GatewayError | None:
        """The error that an answer of status 200 carries, with its own status if it names one."""
        if not isinstance(answer, dict) or not (answer.get("error") or answer.get("object") == "error"):
            return None
        code = (_error_object(answer) or answer).get("code")
        status = code if isinstance(code, int) and 400 <= code <= 599 else 502
        said = error_message(answer) or "the upstream reported an error"
        return GatewayError(status, self.redact(said), upstream=_error_object(answer))


def first_choice(answer: Any) -> dict[str, Any] | None:
    """The first choice of a chat completion or chunk, if it has one."""
    choices = answer.get("choices") if isinstance(answer, dict) else None
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return choices[0]
    return None


def _error_object(answer: Any) -> dict[str, Any] | None:
    error = answer.get("error") if isinstance(answer, dict) else None
    return error if isinstance(error, dict) else None


def error_message(answer: Any) -> str | None:
    """The text of an error in any of the shapes engines use."""
    if not isinstance(answer, dict):
        return None
    error = answer.get("error")
    for found in (
        error.get("message") if isinstance(error, dict) else error,
        answer.get("message"),
        answer.get("detail"),
    ):
        if isinstance(found, str) and found:
            return found
    return None


class UpstreamStream:
    """An open event stream. Close it on every path; closing tells the upstream to stop generating."""

    def __init__(self, response: aiohttp.ClientResponse, upstream: Upstream) -> None:
        self.response = response
        self._upstream = upstream
        self._raw = response.content.iter_any()
        self._reader = SSEReader()
        self._first: tuple[bytes, list[str]] | None = None
        self._done = False

    async def open(self) -> None:
        """Read up to the first complete event.

        Raises:
            GatewayError: the stream opens with an error, or ends without an event.
        """
        raw, events = b"", list[str]()
        async for chunk in self._raw:
            raw += chunk
            events = self._reader.feed(chunk)
            if events:
                break
        if not events:
            raise UpstreamBroken("the upstream's stream ended before it began")
        if events[0] != "[DONE]" and (error := self._error_event(events[0])):
            raise error
        self._first = raw, events

    def _error_event(self, data: str) -> GatewayError | None:
        try:
            return self._upstream.embedded_error(quick_loads(data))
        except JSONTextError:
            return None

    async def pieces(self) -> AsyncGenerator[tuple[bytes, list[str]]]:
        """Raw bytes as they arrive, each with the data of the events it completes.

        Raises:
            GatewayError: the connection broke (502) or fell silent (504).
        """
        if self._first is not None:
            yield self._first
            self._first = None
        try:
            async for chunk in self._raw:
                yield chunk, self._reader.feed(chunk)
        except CALL_FAILURES as error:
            raise self._upstream.transport_error(error) from error

    async def chunks(self) -> AsyncGenerator[list[tuple[str, dict[str, Any]]]]:
        """Chat chunks as (text, parsed), those that arrived together in one list, until ``[DONE]`` or the end.

        Raises:
            GatewayError: as ``pieces``; also if an event is no JSON or carries an error, after all before it.
        """
        async with aclosing(self.pieces()) as pieces:
            async for _, events in pieces:
                batch: list[tuple[str, dict[str, Any]]] = []
                failure: GatewayError | None = None
                for data in events:
                    if data == "[DONE]":
                        self._done = True
                        break
                    try:
                        batch.append((data, self._parsed(data)))
                    except GatewayError as error:
                        failure = error
                        break
                if batch:
                    yield batch
                if failure is not None:
                    raise failure
                if self._done:
                    return

    def _parsed(self, data: str) -> dict[str, Any]:
        try:
            chunk = quick_loads(data)
        except JSONTextError:
            raise UpstreamBroken("the upstream's stream holds an event that is not JSON") from None
        if not isinstance(chunk, dict):
            raise UpstreamBroken("the upstream's stream holds something that is not a chat chunk")
        if error := self._upstream.embedded_error(chunk):
            raise error
        return chunk

    async def aclose(self) -> None:
        """Give the connection back if the upstream is done with it, else close it."""
        try:
            if self._done:
                async with asyncio.timeout(_LINGER_S):
                    async for _ in self._raw:
                        pass
        except CALL_FAILURES:
            # The answer was complete; only the connection is not worth keeping.
            pass
        finally:
            self.response.close()
