"""The day's clients as they talk: acts to requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from conformance.sessions import CLIENTS, Session
from conformance.sessions.compaction import ContextMeter
from conformance.sessions.side import side_body
from load.day.acts import Act, neighbour_bytes
from load.day.inputs import Inputs
from load.samples import Sample
from load.talk import CHAT, MESSAGES, Outgoing, path_of, stream_members, with_members

ALIAS: Final = "llm-prime"
MODEL: Final = "deepseek-v4-flash"
"""The model's own name: what Reasonix asks for in the report's first row."""

CLAUDE: Final = "claude-code-2.1.116-vscode"
REASONIX: Final = "reasonix-1.38.11"
OPENCODE: Final = "opencode-1.18.33"
NEIGHBOUR: Final = "pi-0.73.1"

SALT: Final = "day-0817"
"""One for the whole day: what the user's prompts share they share as in life."""


def longer(session: Session, prompt_bytes: int) -> Session:
    """The session with a first exchange that makes its prompt this long; tools and instructions keep their sizes."""
    session.grow(max(400, prompt_bytes - session.prompt_bytes), "text")
    return session


@dataclass
class DayTalks:
    """All conversations of the day. With `meter` the Claude Code client compacts when its own count says so, and the
    acts' compactions are left out; else it compacts where the acts say."""

    inputs: Inputs
    answer_tokens: int = 16
    meter: ContextMeter | None = None
    compactions: int = 0
    _claude: Session | None = None
    _chats: dict[str, Session] = field(default_factory=dict)
    _neighbours: dict[int, bytes] = field(default_factory=dict)

    def requests(self, act: Act) -> Iterator[Outgoing]:
        """The requests of one act, in order; take each only when the one before is answered."""
        if act.who == "neighbour":
            yield self._neighbour(act.number)
        elif act.who == "claude":
            yield from self._claude_code(act)
        else:
            yield self._chat(act)

    def note(self, sample: Sample) -> None:
        """Tell the client what an answer's counts were."""
        if self.meter is not None and sample.client == CLAUDE and sample.kind != "side":
            self.meter.note(sample.prompt, sample.start_prompt)

    def _claude_code(self, act: Act) -> Iterator[Outgoing]:
        session = self._session()
        if act.what == "title":
            for number, part in enumerate(session.profile.side):
                if part.name == "title":
                    yield self._made(session, "side", _json(side_body(session, part, number)), "side", CLAUDE)
            return
        if act.what == "compact" and self.meter is None:
            yield from self._compacted(session, act.bytes)
            yield self._made(session, "turn", _turn(session), "main", CLAUDE)
            return
        if act.what != "begin":
            session.grow(max(act.bytes, 400) if act.what == "turn" else 4_000)
        if self.meter is not None and self.meter.full:
            yield from self._compacted(session, self.inputs.summary_bytes)
        yield self._made(session, "turn", _turn(session), "main", CLAUDE)

    def _compacted(self, session: Session, summary: int) -> Iterator[Outgoing]:
        body = _json(session.compaction_body())
        yield self._made(session, "compaction", body, "main", CLAUDE)
        session.compact(summary)
        self.compactions += 1

    def _session(self) -> Session:
        if self._claude is None:
            self._claude = CLIENTS[CLAUDE].start(
                seed="incident", salt=SALT, shape="full", model=ALIAS, max_tokens=self.answer_tokens,
                tools_bytes=self.inputs.tools_bytes, system_bytes=self.inputs.system_bytes,
                base_bytes=self.inputs.first_bytes,
            )  # fmt: skip
        return self._claude

    def _chat(self, act: Act) -> Outgoing:
        name, model = (REASONIX, MODEL) if act.who == "reasonix" else (OPENCODE, ALIAS)
        if act.what == "begin":
            first = self.inputs.reasonix_first if act.who == "reasonix" else self.inputs.alias_bytes
            started = CLIENTS[name].start(
                seed=f"incident-{act.who}-{act.number}", salt=f"{SALT}-{act.number}", shape="full", model=model,
                max_tokens=self.answer_tokens,
            )  # fmt: skip
            self._chats[act.who] = longer(started, first)
        else:
            self._chats[act.who].grow(max(act.bytes, 400))
        session = self._chats[act.who]
        return self._made(session, "turn", _turn(session), "main", name)

    def _neighbour(self, number: int) -> Outgoing:
        body = self._neighbours.get(number)
        if body is None:
            started = CLIENTS[NEIGHBOUR].start(
                seed=f"neighbour-{number}", salt=f"tenant-{number:03d}", shape="full", model=MODEL,
                max_tokens=self.answer_tokens,
            )  # fmt: skip
            session = longer(started, neighbour_bytes(self.inputs, number))
            salt = f',"cache_salt":"tenant-{number:03d}"'.encode()
            body = self._neighbours[number] = session.encoded(salt + stream_members(CHAT))
        return Outgoing(-1 - number, "main", "turn", CHAT, body, {}, 0, True, client=NEIGHBOUR)

    def _made(self, session: Session, kind: str, body: bytes, conversation: str, client: str) -> Outgoing:
        path = path_of(session)
        return Outgoing(0, conversation, kind, path, body, session.headers(), 0, True, client=client)


def _turn(session: Session) -> bytes:
    return session.encoded(stream_members(path_of(session)))


def _json(body: dict[str, Any]) -> bytes:
    """A body of the Claude Code client that is no turn."""
    return with_members(orjson.dumps(body), stream_members(MESSAGES))
