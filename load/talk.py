"""One session as it talks: steps of a plan to requests, ready to be put on the wire."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import orjson

from conformance.sessions import CLIENTS, Session
from conformance.sessions.side import COUNT_TOKENS, side_body
from load.plan import SessionSpec, Step

MESSAGES: Final = "/v1/messages"
CHAT: Final = "/v1/chat/completions"

_STREAM: Final = b',"stream":true'
_STREAM_CHAT: Final = b',"stream":true,"stream_options":{"include_usage":true}'
_SAME: Final = b',"temperature":0'
"""Where answers are compared they must not be left to chance."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One request. `group`: those with one number are sent side by side. `expects` is the fact its answer must name."""

    session: int
    conversation: str
    kind: str
    path: str
    body: bytes
    headers: dict[str, str]
    group: int
    stream: bool
    expects: str | None = None
    client: str = ""
    sdk: bool = False

    @property
    def entry(self) -> str:
        """`messages` or `chat`."""
        return "chat" if self.path == CHAT else "messages"


@dataclass
class Talk:
    """A session and what it sent last. Answers play no part in what it says next."""

    spec: SessionSpec
    session: Session
    fact: str | None = None
    _group: int = 0
    _begun: bool = False
    _last: Outgoing | None = None
    _agents: int = field(default=0)

    @classmethod
    def begin(cls, spec: SessionSpec, *, seed: int, run: str, model: str, max_tokens: int) -> Talk:
        """The session of `spec`. `run` goes into every salt, so that two runs never warm each other."""
        client = CLIENTS[spec.client]
        salt = f"{run}-{spec.number:05d}"
        fact = f"v{hash_of(run, spec.number) % 1_000_000:06d}" if spec.fact else None
        ask = f"the fact k{spec.number} is {fact}" if fact else ""
        start = partial(
            client.start, seed=f"load-{seed}-{spec.number}", salt=salt, shape=spec.shape, model=model,
            max_tokens=max_tokens, ask=ask,
        )  # fmt: skip
        if spec.base_bytes is not None:
            try:
                return cls(spec, start(base_bytes=spec.base_bytes), fact)
            except ValueError:
                pass  # smaller than this client's parts can be made: its own scaled size then
        return cls(spec, start(), fact)

    def requests(self, step: Step) -> Iterator[Outgoing]:
        """The requests of one step, in order. The session grows as they are taken."""
        session = self.session
        if step.kind == "turn":
            if self._begun:
                ask = f"recall k{self.spec.number}" if step.recall and self.fact else ""
                session.grow(max(step.bytes, 300), "text" if ask else None, ask)
            yield self._main("turn", expects=self.fact if step.recall and self._begun else None)
        elif step.kind == "again":
            if self._last is None:
                raise ValueError("nothing was sent yet that could be sent again")
            self._group += 1
            last = self._last
            again = (last.path, last.body, last.headers, self._group, True, last.expects, last.client, last.sdk)
            yield Outgoing(last.session, last.conversation, "again", *again)
        elif step.kind == "side":
            yield from self._side(step.name)
        elif step.kind == "agents":
            yield from self._sub_agents(step)
        else:
            body = session.compaction_body()
            encoded = with_members(orjson.dumps(body), self._stream + self._sameness)
            yield self._made("compaction", "main", encoded, session.headers())
            session.compact()
            yield self._main("turn")

    def _side(self, name: str) -> Iterator[Outgoing]:
        session = self.session
        self._group += 1
        for number, part in enumerate(session.profile.side):
            if part.name != name:
                continue
            streams = part.max_tokens is not None and part.path != COUNT_TOKENS
            body = orjson.dumps(side_body(session, part, number))
            if streams:
                body = with_members(body, stream_members(part.path))
            yield self._made("side", "side", body, session.headers(), path=part.path, stream=streams, same_group=True)

    def _sub_agents(self, step: Step) -> Iterator[Outgoing]:
        agents = [self.session.sub_agent(self._agents + i) for i in range(1, step.count + 1)]
        for turn in range(step.turns):
            self._group += 1
            for i, agent in enumerate(agents, start=1):
                if turn:
                    agent.grow(1_200)
                name = f"agent-{self._agents + i}"
                body = agent.encoded(self._stream)
                yield self._made("sub-agent", name, body, agent.headers(), same_group=True)
        self._agents += step.count
        self.session.spawn(step.count)
        yield self._main("turn")

    def _main(self, kind: str, expects: str | None = None) -> Outgoing:
        self._begun = True
        body = self.session.encoded(self._stream + self._sameness)
        self._last = self._made(kind, "main", body, self.session.headers(), expects=expects)
        return self._last

    def _made(
        self,
        kind: str,
        conversation: str,
        body: bytes,
        headers: dict[str, str],
        *,
        path: str | None = None,
        stream: bool = True,
        expects: str | None = None,
        same_group: bool = False,
    ) -> Outgoing:
        if not same_group:
            self._group += 1
        own, spec = path or path_of(self.session), self.spec
        return Outgoing(
            spec.number, conversation, kind, own, body, headers, self._group, stream, expects, spec.client, spec.sdk
        )

    @property
    def _stream(self) -> bytes:
        return stream_members(path_of(self.session))

    @property
    def _sameness(self) -> bytes:
        return _SAME if self.spec.fact and "temperature" not in self.session.profile.body_keys else b""


def path_of(session: Session) -> str:
    """Where a session's turns are sent."""
    return MESSAGES if session.profile.dialect == "messages" else CHAT


def stream_members(path: str) -> bytes:
    """The members of a body that ask for a stream, and for usage at its end."""
    return _STREAM if path == MESSAGES else _STREAM_CHAT


def with_members(body: bytes, more: bytes) -> bytes:
    """The encoded body with the members `more` at its end."""
    return b"".join((memoryview(body)[:-1], more, b"}"))


def hash_of(*key: object) -> int:
    """A number that follows from `key` in every process."""
    return int.from_bytes(hashlib.blake2b("/".join(map(str, key)).encode(), digest_size=6).digest(), "big")


def as_object(outgoing: Outgoing) -> dict[str, Any]:
    """The body as an SDK takes it."""
    decoded: dict[str, Any] = orjson.loads(outgoing.body)
    return decoded
