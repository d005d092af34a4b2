"""The suite's conversations on the wire: client-shaped sessions under fresh salts, sent to one entry."""

from __future__ import annotations

import hashlib
from itertools import count
from typing import Literal

from conformance.errors import SendingStopped, VantageMissing
from conformance.evidence.conversation import NO_EXTRA, Extra, Sent
from conformance.observe.plan import BYTES_PER_TOKEN
from conformance.observe.records import own_record
from conformance.observe.variety import Kinds, variety_of
from conformance.sessions import CLAUDE_CODE, CLIENTS, ChatCodingSession, ClaudeCodeSession, Client, Session
from conformance.verdicts import Entry
from conformance.wire.client import Wire
from conformance.wire.exchange import Exchange

_LEAST_GROWTH_BYTES = 256


class Salts:
    """Fresh salts of one run. Each begins differently and ends in the run's marker, by which a recorder knows it."""

    def __init__(self, run_id: str) -> None:
        self.marker = f"prefixproof-{run_id}"
        self._numbers = count()

    def fresh(self) -> str:
        """ASCII, 30 bytes; two of a run share their first token or two at most by accident."""
        number = next(self._numbers)
        head = hashlib.sha256(f"{self.marker}/{number}".encode()).hexdigest()[:8]
        return f"{head}-{self.marker}"


class WireConversation:
    """A session, its salt and the wire it goes over (a `Conversation` of conformance.evidence)."""

    def __init__(self, session: Session, lab: WireLab, *, turn: int = 1, streamed_turns: int = 0) -> None:
        self.session = session
        self.turn = turn
        self.streamed_turns = streamed_turns  # this many first turns are sent as streams, repeats included
        self._lab = lab
        self.exchanges: list[Exchange] = []

    @property
    def content_bytes(self) -> int:
        return self.session.prompt_bytes

    def send(self) -> Sent:
        send = self._lab.stream if self.turn <= self.streamed_turns else self._lab.send
        exchange = send(self.session)
        self.exchanges.append(exchange)
        return self._lab.read(exchange)

    def grow(self, tokens: int) -> None:
        self.turn += 1
        self.session.grow(max(_LEAST_GROWTH_BYTES, round(tokens / self._lab.tokens_per_byte)))

    def ahead(self, tokens: int) -> WireConversation:
        copy = self._copy(self.session.salt)
        copy.exchanges = self.exchanges  # the copy is the same conversation, one turn on
        copy.grow(tokens)
        return copy

    def resalted(self) -> WireConversation:
        return self._lab.track(self._copy(self._lab.salts.fresh()))

    def _copy(self, salt: str) -> WireConversation:
        return WireConversation(
            self.session.with_salt(salt), self._lab, turn=self.turn, streamed_turns=self.streamed_turns
        )


class WireLab:
    """Makes conversations for one entry and sends them (a `Lab` of conformance.evidence).

    The sessions are shaped like `client`'s, a name in `conformance.sessions.CLIENTS` that speaks the entry's dialect.
    `tokens_per_byte` starts as an estimate and is set to the measured rate after qualification.
    `prompt_token_cap` ends sending: SendingStopped. `needs` says what is missing where no real engine answers: then
    nothing is sent, and whoever tries gets VantageMissing.
    """

    def __init__(
        self,
        *,
        entry: Entry,
        wire: Wire,
        salts: Salts,
        seed: int,
        client: str,
        base_bytes: int,
        shape: Literal["scaled", "full"],
        sees_upstream: bool,
        prompt_token_cap: int,
        needs: str | None = None,
    ) -> None:
        self.entry = entry
        self.wire = wire
        self.salts = salts
        self.seed = seed
        self.variety = variety_of(seed)
        self.client = CLIENTS[client]
        self.base_bytes = base_bytes
        self.shape = shape
        self.sees_upstream = sees_upstream
        self.prompt_token_cap = prompt_token_cap
        self._needs = needs
        self.tokens_per_byte = 1 / BYTES_PER_TOKEN
        self.conversations: list[WireConversation] = []
        self.exchanges: list[Exchange] = []

    @property
    def sends_attribution(self) -> bool:
        """True when the entry's client puts an attribution block at the head of its system prompt."""
        return self.client.profile.attribution is not None

    def conversation(
        self, *, attribution: bool = False, extra: Extra = NO_EXTRA, scale: float = 1.0, tools: bool = True
    ) -> WireConversation:
        session = self.session(attribution=attribution, extra=extra, scale=scale, tools=tools)
        if extra.message:
            session.grow(max(_LEAST_GROWTH_BYTES, extra.message), kind="text")
        return self.track(WireConversation(session, self))

    def track(self, conversation: WireConversation) -> WireConversation:
        self.conversations.append(conversation)
        return conversation

    def session(
        self, *, attribution: bool = False, extra: Extra = NO_EXTRA, scale: float = 1.0, tools: bool = True,
        compacts: bool = False,
    ) -> Session:  # fmt: skip
        """A session of the client under a fresh salt, its attribution block only where `attribution` asks for it.

        `compacts` asks for a client whose compaction was recorded: the default one where this one's was not.
        """
        client = self.client if not compacts or self.client.profile.compaction else CLIENTS[CLAUDE_CODE]
        natural = self._build(client, attribution, scale, tools, None)
        if not (extra.system or extra.tools):
            return natural
        return self._build(client, attribution, scale, tools, (natural, extra))

    def _build(
        self, client: Client, attribution: bool, scale: float, tools: bool, longer: tuple[Session, Extra] | None
    ) -> Session:
        base = None if self.shape == "full" else round(self.base_bytes * self.variety.size * scale)
        tools_bytes = system_bytes = None
        if longer is not None:
            natural, extra = longer
            tools_bytes = natural.sizes.tools_bytes + extra.tools
            system_bytes = natural.sizes.instructions + extra.system
            base = natural.prompt_bytes + extra.tools + extra.system
        n_tools = None if tools else 0
        if tools and self.shape == "scaled" and self.base_bytes * scale < 8_000:
            n_tools = self.variety.tools
        kinds: Kinds = self.variety.kinds if tools else ("text",)
        seed = f"seed-{self.seed}"
        salt = self.salts.fresh()
        if self.entry is Entry.CHAT:
            return ChatCodingSession(
                seed=seed, salt=salt, shape=self.shape, tools=n_tools, tools_bytes=tools_bytes,
                system_bytes=system_bytes, base_bytes=base, kinds=kinds, model=self.wire.model, client=client.name,
            )  # fmt: skip
        return ClaudeCodeSession(
            seed=seed, salt=salt, shape=self.shape, tools=n_tools, tools_bytes=tools_bytes,
            system_bytes=system_bytes, base_bytes=base, kinds=kinds, model=self.wire.model,
            attribution=attribution, collapse=False, client=client.name,
        )  # fmt: skip

    def send(self, session: Session, *, stream: bool = False, via: Literal["sdk", "raw"] = "sdk") -> Exchange:
        """Send a session's current turn through the official SDK, or raw where bytes or events matter."""
        return self.send_body(session.body(), stream=stream, via=via, headers=session.headers())

    def stream(self, session: Session) -> Exchange:
        """Send a session's current turn as a stream of a client that asks for its usage."""
        body = session.body()
        if self.entry is Entry.CHAT:
            body["stream_options"] = {"include_usage": True}
        return self.send_body(body, stream=True, via="sdk", headers=session.headers())

    def send_body(
        self, body: dict[str, object] | bytes, *, stream: bool = False, via: Literal["sdk", "raw"] = "raw",
        headers: dict[str, str] | None = None, odd: bool = False,
    ) -> Exchange:  # fmt: skip
        """Send any body, or exact bytes; counted against the token cap. `odd`: a gateway may refuse it."""
        self.check_engine()
        if self.wire.prompt_tokens_sent > self.prompt_token_cap:
            raise SendingStopped(
                "the token budget is used up "
                f"({self.wire.prompt_tokens_sent:,} prompt tokens sent): use a larger --budget"
            )
        exchange = self.wire.send(self.entry, body, stream=stream, via=via, headers=headers, odd=odd)
        self.exchanges.append(exchange)
        return exchange

    def check_engine(self) -> None:
        """Raise VantageMissing where no real engine answers."""
        if self._needs is not None:
            raise VantageMissing(self._needs)

    def read(self, exchange: Exchange) -> Sent:
        """The counts of an answer.

        It proves nothing if it failed, never reached the recorder that sees the rest, or is a stream without usage.
        """
        usage = exchange.usage
        counted = usage.prompt is not None or not exchange.streamed
        return Sent(
            prompt=usage.prompt,
            cached=usage.cached,
            answer_id=exchange.response_id,
            valid=exchange.ok and counted and (not self.sees_upstream or own_record(exchange) is not None),
            exchange=exchange,
        )
