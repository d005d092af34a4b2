"""One client's trouble beside another's request: a call that hangs, one that fails, and a client that leaves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median

import httpx

from conformance.observe.error_scripts import ErrorCase
from conformance.observe.scripted import Played, ScriptedUpstream
from conformance.observe.usage_values import native, openai
from conformance.scripting import Forms, Hold, Script, ScriptedReply, Wait, chat, messages
from conformance.scripting.content import Content, event_stream
from conformance.wire.answers import Reply
from conformance.wire.exchange import Exchange
from conformance.wire.jsontext import dumps
from conformance.wire.problems import broken
from conformance.wire.raw import RawClient

LATE_CHUNKS = 40
LATE_CHUNK_S = 0.05
"""What an upstream still sends after the client has left: 40 chunks are as many chances to notice it."""

_BUSY = ErrorCase("failed-with-429", 429, frozenset((429,)))
_DOWN = ErrorCase("failed-with-500", 500, frozenset((500,)))


@dataclass(frozen=True)
class Beside:
    """A request sent while another hung. Statuses are HTTP statuses, 0 for a connection that broke."""

    hung_arrived: bool  # the hanging call reached the upstream: without that, nothing was tried
    status: int | None  # of the other request's answer while the first still hung; None: none came
    arrived: bool  # the other request reached the upstream while the first still hung
    status_after: int | None  # of the other request's answer once the first was let go
    exchange: Exchange | None = None  # the other request and its answer, whenever it came

    @property
    def blocked(self) -> bool:
        """True when the other request was answered as soon as the hanging one was let go, and not before."""
        return self.hung_arrived and self.status is None and self.status_after == 200

    @property
    def refused(self) -> bool:
        """True when the gateway turned the other request away itself."""
        return self.hung_arrived and self.status not in (None, 200) and not self.arrived

    @property
    def free(self) -> bool:
        return self.hung_arrived and self.status == 200


@dataclass(frozen=True)
class Left:
    """A client that left in the middle of a stream. `heard_out`: the gateway took all that came after, to the end."""

    arrived: bool
    heard_out: bool
    exchange: Exchange | None = None


class Trouble:
    """What was tried at one entry, each once: sent when first asked for."""

    def __init__(self, scripted: ScriptedUpstream, patience_s: float) -> None:
        self._scripted = scripted
        self._patience_s = patience_s

    def beside_hung(self, *, factor: float = 1.0) -> Beside:
        """Send a request beside one whose upstream call hangs; waits for it `factor` times as long as usual."""
        scripted, recorder = self._scripted, self._scripted.recorder
        patience = factor * self._patience
        hung, _ = scripted.prepare(lambda word: _plain_reply("hung", word, before=(Hold(),)))
        other, _ = scripted.prepare(lambda word: _plain_reply("beside-hung", word))
        mark = recorder.mark()
        calls = [self._call(hung)]
        status: int | None = None
        arrived = False
        try:
            there = recorder.arrived(hung, mark, patience)
            if there:
                calls.append(self._call(other))
                status = calls[1].status(patience)
                arrived = recorder.arrived(other, mark, 0)
        finally:
            recorder.scripts.drop(hung)
            ends = [call.status(self._scripted.wire.endpoint.timeout_s) for call in calls]
            recorder.scripts.drop(other)
        if len(calls) == 1:
            return Beside(there, status, arrived, None)
        reply = calls[1].reply
        body = scripted.body(other, stream=False)
        exchange = Exchange(
            scripted.entry, body, False, reply.status, response_body=reply.body, error=reply.error
        )  # fmt: skip
        return Beside(there, status, arrived, ends[1], exchange)

    def after_failures(self) -> tuple[Played, ...]:
        """A plain request after an upstream 429, and one after an upstream 500."""
        found = []
        for case in (_BUSY, _DOWN):
            self._scripted.play(case.name, case.reply, stream=False)
            name = f"after-{case.status}"
            found.append(self._scripted.play(name, _named(name), stream=False))
        return tuple(found)

    def left(self) -> Left:
        """Leave a stream after its first bytes; the upstream goes on for a while and then ends."""
        scripted, recorder = self._scripted, self._scripted.recorder
        token, _ = scripted.prepare(_endless)
        mark = recorder.mark()
        client = RawClient(scripted.wire.endpoint)
        body = scripted.body(token, stream=True) | {"stream": True}
        try:
            client.leave(scripted.entry, dumps(body), self._patience)
            arrived = recorder.arrived(token, mark, 0)
            recorder.scripts.release(token)
            records = recorder.since(mark, settle_s=2 * LATE_CHUNKS * LATE_CHUNK_S + self._patience)
        finally:
            recorder.scripts.drop(token)
            client.close()
        own = [r for r in records if r.script == "client-leaves"]
        exchange = Exchange(scripted.entry, body, True, 0, error="the client left", upstream=tuple(own))
        return Left(arrived and bool(own), any(r.complete for r in own), exchange)

    @property
    def _patience(self) -> float:
        """Seconds to wait for what should come at once: many times what answers took so far."""
        taken = self._scripted.seconds
        return max(self._patience_s, 40 * median(taken)) if taken else self._patience_s

    def _call(self, token: str) -> _Call:
        scripted = self._scripted
        client = RawClient(scripted.wire.endpoint)
        body = dumps(scripted.body(token, stream=False))
        return _Call(client, lambda: client.post(scripted.entry, body, stream=False))


class _Call:
    """One request on a thread of its own."""

    def __init__(self, client: RawClient, send: Callable[[], Reply]) -> None:
        self._client = client
        self._send = send
        self.reply = Reply(status=0)
        self._thread = threading.Thread(target=self._run, name="prefixproof-call", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.reply = self._send()
        except httpx.HTTPError as error:
            if broken(error) is None:
                raise
        finally:
            self._client.close()

    def status(self, timeout_s: float) -> int | None:
        """The answer's HTTP status, 0 when the connection broke, None when there is none within `timeout_s`."""
        self._thread.join(timeout_s)
        return None if self._thread.is_alive() else self.reply.status


def _plain_reply(name: str, word: str, before: tuple[Hold, ...] = ()) -> ScriptedReply:
    content = Content(text=f"The word is {word}.")
    told = dict(native())

    def held(script: Script) -> Script:
        return replace(script, before=before)

    return ScriptedReply(
        name,
        Forms(held(chat.completion(content, openai())), held(chat.stream(content, (openai(),)))),
        Forms(held(messages.message(content, told)), held(messages.stream(content, told))),
    )


def _named(name: str) -> Callable[[str], ScriptedReply]:
    return lambda word: _plain_reply(name, word)


def _endless(word: str) -> ScriptedReply:
    """A stream that holds after its first chunks, then sends one more now and again, then ends."""
    content = Content(text=f"The word is {word}, at length.")
    parts = [chat.sse([chunk], done=False) for chunk in chat.chunks(content, (openai(),))]
    head, more, tail = b"".join(parts[:2]), parts[1], b"".join(parts[2:]) + b"data: [DONE]\n\n"
    events = [messages.sse([event]) for event in messages.events(content, dict(native()))]
    native_head, native_more, native_tail = b"".join(events[:3]), events[2], b"".join(events[3:])
    plain = _plain_reply("client-leaves", word)
    return ScriptedReply(
        "client-leaves",
        Forms(plain.chat.plain, _late(head, more, tail)),
        Forms(plain.messages.plain, _late(native_head, native_more, native_tail)),
    )


def _late(head: bytes, more: bytes, tail: bytes) -> Script:
    later = [step for _ in range(LATE_CHUNKS) for step in (Wait(LATE_CHUNK_S), more)]
    return Script(headers=event_stream(b"").headers, steps=(head, Hold(), *later, tail))
