"""The one way the suite sends a request to a target, and what it remembers of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from conformance.errors import TargetProblem
from conformance.keys import hider
from conformance.verdicts import Entry
from conformance.wire.answers import Answer, Reply, object_of
from conformance.wire.breaker import Breaker
from conformance.wire.chat import ChatSdk
from conformance.wire.endpoint import RUN_HEADER, USER_AGENT, Endpoint, base_url
from conformance.wire.exchange import Exchange
from conformance.wire.jsontext import dumps, loads_or_none
from conformance.wire.limits import TokenLimit
from conformance.wire.messages import MessagesSdk
from conformance.wire.patience import Patience
from conformance.wire.problems import broken, unreachable
from conformance.wire.raw import RawClient

if TYPE_CHECKING:
    from conformance.recorder import Recorder

Via = Literal["sdk", "raw"]

BYTES_PER_TOKEN = 4
"""Rough size of a token, to count what was sent where the target does not report it."""

LEAST_BYTES_PER_TOKEN = 2
"""No body of the suite's plain text has more tokens than this allows, templates' own text included."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One sending of a request: its reply, the recorder's mark before it, when it began and what it took."""

    reply: Reply
    mark: int
    sent_at: float
    seconds: float


class Wire:
    """Sends requests to one target, one at a time, through the official SDKs or as raw bytes.

    `model` replaces the model of every body that is given as an object; `limits` says how an entry takes its limit on
    the answer, where that is not the usual way. With `patience`, a 429 or 503 that says when to come back is waited for
    and sent once more; the exchange is then the second one. `on_exchange` is called with each finished exchange. Use it
    as a context manager, or call `close`.
    """

    def __init__(
        self,
        target_url: str,
        *,
        api_key: str | None,
        model: str,
        timeout_s: float,
        recorder: Recorder | None,
        run_id: str,
        breaker: Breaker | None = None,
        patience: Patience | None = None,
        on_exchange: Callable[[Exchange], None] | None = None,
        limits: Mapping[Entry, TokenLimit] | None = None,
    ) -> None:
        self.endpoint = Endpoint(url=base_url(target_url)[0], api_key=api_key, timeout_s=timeout_s, run_id=run_id)
        self.model = model
        self.breaker = breaker or Breaker()
        self.patience = patience
        self.on_exchange = on_exchange
        self._limits = dict(limits or {})
        self._accepted: set[Entry] = set()
        self.sent_requests = 0
        self.prompt_tokens_sent = 0
        self._answered = 0
        self._recorder = recorder
        self._sdks: dict[Entry, MessagesSdk | ChatSdk] = {}
        self._raw: RawClient | None = None

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for sdk in self._sdks.values():
            sdk.close()
        self._sdks.clear()
        if self._raw is not None:
            self._raw.close()
            self._raw = None

    def send(
        self,
        entry: Entry,
        body: Mapping[str, Any] | bytes,
        *,
        stream: bool = False,
        via: Via = "sdk",
        headers: Mapping[str, str] | None = None,
        odd: bool = False,
    ) -> Exchange:
        """Send one request and wait for its whole answer. `odd`: a gateway may refuse it, which says nothing of others.

        Bytes go out exactly as given and need `via="raw"`. An HTTP error, a broken answer or an SDK that fails at
        the answer (its `error` begins with "sdk: ") is an exchange like any other. Raises `TargetProblem` when the
        target cannot be reached (after its first answer, timeouts and broken connections are exchanges of status
        0), and `SendingStopped` once the breaker is open.
        """
        if isinstance(body, bytes) and via != "raw":
            raise ValueError('bytes can only be sent with via="raw"')
        self.breaker.check()
        request: Mapping[str, Any]
        content: bytes | None
        if isinstance(body, bytes):
            request, content = object_of(loads_or_none(body)), body
        else:
            limited = self._limits.get(entry, TokenLimit()).applied(body)
            request = {**limited, "model": self.model} | ({"stream": True} if stream else {})
            content = dumps(request) if via == "raw" else None
        marked = self._marked(headers or {})
        sending = self._attempt(entry, request, content, stream, marked)
        if self.patience is not None and self.patience.waited(
            sending.reply.status, sending.reply.headers.get("retry-after")
        ):
            sending = self._attempt(entry, request, content, stream, marked)
        reply, answer = sending.reply, sending.reply.answer
        exchange = Exchange(
            entry=entry,
            request=request,
            streamed=stream,
            status=reply.status,
            response_id=answer.response_id,
            text=answer.text,
            tool_calls=answer.tool_calls,
            stop_reason=answer.stop_reason,
            usage=answer.usage,
            start_usage=answer.start_usage,
            events=reply.events,
            headers=dict(reply.headers),
            response_body=reply.body,
            error=self._without_key(reply.error or answer.error),
            seconds=sending.seconds,
            upstream=self._recorder.since(sending.mark) if self._recorder else (),
            body=content,
            odd=odd,
            sent_headers=dict(headers or {}),
            sent_at=sending.sent_at,
        )
        self._account(exchange, reply)
        return exchange

    def _attempt(
        self,
        entry: Entry,
        request: Mapping[str, Any],
        content: bytes | None,
        stream: bool,
        headers: Mapping[str, str],
    ) -> _Attempt:
        """One request on the wire."""
        mark = self._recorder.mark() if self._recorder else 0
        self.sent_requests += 1
        sent_at, began = time.time(), time.perf_counter()
        try:
            reply = self._reply(entry, request, content, stream, headers)
        except Exception as exc:
            reply = self._no_answer(exc, request, content)
        return _Attempt(reply, mark, sent_at, time.perf_counter() - began)

    def ask(self, path: str, body: Mapping[str, Any]) -> Reply:
        """POST `body` to a path that is no entry, e.g. count_tokens; the answer's body comes as it is.

        Trouble on the wire gives a reply of status 0 or is raised, as `send` does it. The breaker hears of silence
        only: a 429 or 5xx may be this path's way to say that it is not there.
        """
        self.breaker.check()
        content = dumps({**body, "model": self.model})
        self.sent_requests += 1
        self._raw = self._raw or RawClient(self.endpoint)
        began = time.perf_counter()
        try:
            reply = self._raw.ask(path, content)
        except Exception as exc:
            reply = self._no_answer(exc, body, content)
        self._answered += reply.status > 0
        silent = reply.failure if reply.failure in ("timeout", "reset") else reply.answer.failure
        self.breaker.note(status=reply.status, failure=silent, seconds=time.perf_counter() - began)
        return reply

    def load_sdks(self, entries: Iterable[Entry]) -> None:
        """Import the SDKs of these entries and make their clients, so that no request waits for it."""
        for entry in entries:
            self._sdk(entry)

    def replay(self, stream: bytes) -> Answer:
        """What the official `anthropic` SDK accumulates from a stream's bytes; nothing is sent."""
        sdk = self._sdk(Entry.MESSAGES)
        assert isinstance(sdk, MessagesSdk)
        return sdk.replay(stream)

    def _marked(self, headers: Mapping[str, str]) -> dict[str, str]:
        """The caller's headers by lower-case name; none of them hides that the traffic is synthetic."""
        own = {name.lower(): value for name, value in headers.items()}
        own.pop(RUN_HEADER, None)
        if "user-agent" in own:
            own["user-agent"] = f"{own['user-agent']} {USER_AGENT}"
        return own

    def _reply(
        self,
        entry: Entry,
        request: Mapping[str, Any],
        content: bytes | None,
        stream: bool,
        headers: Mapping[str, str],
    ) -> Reply:
        if content is not None:
            self._raw = self._raw or RawClient(self.endpoint)
            return self._raw.post(entry, content, stream=stream, headers=headers)
        sdk = self._sdk(entry)
        return sdk.stream(request, headers) if stream else sdk.plain(request, headers)

    def _sdk(self, entry: Entry) -> MessagesSdk | ChatSdk:
        if entry not in self._sdks:
            self._sdks[entry] = MessagesSdk(self.endpoint) if entry is Entry.MESSAGES else ChatSdk(self.endpoint)
        return self._sdks[entry]

    def _no_answer(self, exc: Exception, request: Mapping[str, Any], content: bytes | None) -> Reply:
        """The reply of status 0 for a request that got no answer; raises where that says all about the target."""
        why = broken(exc)
        if why is None:
            raise exc
        if not self._answered or why.kind in ("refused", "dns", "tls"):
            problem = unreachable(self.endpoint.url, why, self.endpoint.timeout_s, self._answered)
            raise TargetProblem(problem) from None
        sent = len(dumps(request) if content is None else content)
        if why.kind in ("reset", "not http"):
            return Reply(
                status=0, error=f"the connection broke before an answer: {why.detail}", failure="reset", sent=sent
            )
        waited = self.endpoint.connect_timeout_s if why.kind == "connect timeout" else self.endpoint.timeout_s
        return Reply(status=0, error=f"no answer within {waited:g} s", failure="timeout", sent=sent)

    def _without_key(self, error: str | None) -> str | None:
        """A target may echo the key in any answer; no report may carry it."""
        return hider(self.endpoint.api_key).hide(error) if error else error

    def _account(self, exchange: Exchange, reply: Reply) -> None:
        self._answered += exchange.status > 0
        reported = exchange.usage.prompt
        # A target that miscounts must not use up the budget with its own numbers.
        most = reply.sent // LEAST_BYTES_PER_TOKEN
        self.prompt_tokens_sent += reply.sent // BYTES_PER_TOKEN if reported is None else min(max(reported, 0), most)
        failure = reply.failure or reply.answer.failure
        if failure is None:
            self._accepted.add(exchange.entry)
        # Refused from the first request on is a verdict's matter; refused after others were taken is trouble.
        if failure != "4xx" or (exchange.entry in self._accepted and not exchange.odd):
            self.breaker.note(
                status=exchange.status,
                failure=failure,
                seconds=exchange.seconds,
                retry_after=exchange.headers.get("retry-after"),
            )
        if self.on_exchange is not None:
            self.on_exchange(exchange)
