"""What happens in a client's day, as a small script, and the requests that follow from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .script import StepKind
from .session import Session
from .side import side_body

RequestKind = Literal["turn", "retry", "side", "sub-agent", "compaction"]


@dataclass(frozen=True, slots=True)
class Turn:
    """The conversation grows by `bytes` and its next request is sent; the first one only sends what there is."""

    bytes: int
    kind: StepKind | None = None
    ask: str = ""


@dataclass(frozen=True, slots=True)
class Retry:
    """The last request once more, byte for byte, `times` times: what a client does when a connection breaks."""

    times: int = 1


@dataclass(frozen=True, slots=True)
class Side:
    """All side requests of one name: "title", "topic" or "count_tokens"."""

    name: str


@dataclass(frozen=True, slots=True)
class SubAgents:
    """`count` sub-agents at once, `turns` requests each, growing by `bytes`; then the turn with their results."""

    count: int = 2
    turns: int = 3
    bytes: int = 1200


@dataclass(frozen=True, slots=True)
class LoadTools:
    """The deferred tools are loaded: a turn of its own."""


@dataclass(frozen=True, slots=True)
class Note:
    """A `role: "system"` message is added and goes out with the next turn."""

    bytes: int


@dataclass(frozen=True, slots=True)
class Resume:
    """The conversation is taken up in a new process."""


@dataclass(frozen=True, slots=True)
class Compact:
    """The client asks for a summary and goes on with it in place of the messages."""

    summary_bytes: int | None = None


Event = Turn | Retry | Side | SubAgents | LoadTools | Note | Resume | Compact


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a client, ready to be sent to `path`, without credentials.

    `conversation` names the conversation it belongs to ("main", "agent-1", "side"); requests with one `group` are sent
    at the same time, groups one after the other. `stream` as the client does.
    """

    kind: RequestKind
    path: str
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    conversation: str
    group: int
    stream: bool


def play(session: Session, script: Iterable[Event]) -> Iterator[Request]:
    """The requests of `session`'s client while `script` happens. The session is grown by it.

    Answers play no part: what the assistant said is scripted, so the same script gives the same bytes whatever the
    target answers. Raises ValueError for an event the client cannot take part in.
    """
    player = _Player(session)
    for event in script:
        yield from player.requests(event)


class _Player:
    def __init__(self, session: Session) -> None:
        self.session = session
        self.path = "/v1/messages" if session.profile.dialect == "messages" else "/v1/chat/completions"
        self._group = 0
        self._begun = False
        self._last: Request | None = None

    def requests(self, event: Event) -> Iterator[Request]:
        session = self.session
        if isinstance(event, Turn):
            if self._begun:
                session.grow(event.bytes, event.kind, event.ask)
            yield self._main("turn", session.body())
        elif isinstance(event, Retry):
            if self._last is None:
                raise ValueError("a retry needs a request that went before it")
            for _ in range(event.times):
                yield self._made("retry", self._last.body, self._last.headers, self._last.conversation, self._next())
        elif isinstance(event, Side):
            yield from self._side(event.name)
        elif isinstance(event, SubAgents):
            yield from self._sub_agents(event)
        elif isinstance(event, LoadTools):
            session.load_deferred()
            yield self._main("turn", session.body())
        elif isinstance(event, Note):
            session.note(event.bytes)
        elif isinstance(event, Resume):
            session.resume()
        else:
            yield self._main("compaction", session.compaction_body())
            session.compact(event.summary_bytes)
            yield self._main("turn", session.body())

    def _side(self, name: str) -> Iterator[Request]:
        parts = [(i, part) for i, part in enumerate(self.session.profile.side) if part.name == name]
        if not parts:
            known = sorted({part.name for part in self.session.profile.side})
            raise ValueError(f"{self.session.profile.client} sends no side request {name!r}; it sends {known}")
        group = self._next()
        for number, part in parts:
            body = side_body(self.session, part, number)
            stream = part.max_tokens is not None
            yield Request("side", part.path, body, self.session.headers(), "side", group, stream)

    def _sub_agents(self, event: SubAgents) -> Iterator[Request]:
        agents = [self.session.sub_agent(number) for number in range(1, event.count + 1)]
        for turn in range(event.turns):
            group = self._next()
            for number, agent in enumerate(agents, start=1):
                if turn:
                    agent.grow(event.bytes)
                yield self._made("sub-agent", agent.body(), agent.headers(), f"agent-{number}", group)
        self.session.spawn(event.count)
        yield self._main("turn", self.session.body())

    def _main(self, kind: RequestKind, body: Mapping[str, Any]) -> Request:
        self._begun = True
        self._last = self._made(kind, body, self.session.headers(), "main", self._next())
        return self._last

    def _made(
        self, kind: RequestKind, body: Mapping[str, Any], headers: Mapping[str, str], conversation: str, group: int
    ) -> Request:
        return Request(kind, self.path, body, headers, conversation, group, stream=True)

    def _next(self) -> int:
        self._group += 1
        return self._group
