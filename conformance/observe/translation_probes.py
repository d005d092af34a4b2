"""Special conversations that show how a gateway translates: sent once, when a judgement first asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from conformance.diagnosis.items import Request, read_request
from conformance.diagnosis.prompt import Dialect
from conformance.observe import probe_bodies as bodies
from conformance.observe.lab import WireLab
from conformance.observe.probe_texts import SESSION_ID, Json, attribution
from conformance.observe.records import own_record
from conformance.sessions import filler
from conformance.verdicts import Entry
from conformance.wire.exchange import Exchange, UpstreamRecord
from conformance.wire.jsontext import dumps

SESSION_HEADERS = {"x-claude-code-session-id": SESSION_ID, "x-session-id": SESSION_ID}


@dataclass(frozen=True)
class Translated:
    """One request: as the client sent it, and as it reached the upstream (None: it did not)."""

    name: str
    exchange: Exchange
    sent: Request
    got: Request | None
    record: UpstreamRecord | None

    @property
    def refused(self) -> bool:
        """True when the gateway itself turned the request down."""
        return self.record is None and 400 <= self.exchange.status < 500


@dataclass(frozen=True)
class AttributionForm:
    """One way the attribution text comes, sent twice with other values in it and everything else alike."""

    name: str
    kept: str  # the system text that must arrive, behind or beside the attribution text
    first: Translated
    second: Translated


class TranslationProbes:
    """The probes of one entry. They need a recorder between gateway and engine.

    `counted_tokens`: what a prompt must be longer by for its repeat to be seen in cached counts.
    """

    def __init__(
        self, entry: Entry, lab: WireLab, native_lab: Callable[[], WireLab | None], counted_tokens: Callable[[], int]
    ) -> None:
        self.entry = entry
        self._lab = lab
        self._counted_tokens = counted_tokens
        self._native_lab = native_lab
        self._salt = lab.salts.fresh()
        self.sent: list[Translated] = []

    def _send(
        self, name: str, body: Json | bytes, lab: WireLab | None = None, headers: dict[str, str] | None = None
    ) -> Translated:
        exchange = (lab or self._lab).send_body(body, headers=headers, odd=True)
        record = own_record(exchange)
        assert exchange.body is not None, "probes are sent raw"
        sent = read_request(self.entry.path, exchange.body)
        assert sent is not None, "the suite's own request has messages"
        got = read_request(record.path, record.body) if record is not None else None
        translated = Translated(name, exchange, sent, got, record)
        self.sent.append(translated)
        return translated

    @property
    def texts(self) -> Iterator[str]:
        """Every text sent so far, for telling the suite's own words from others'."""
        for translated in self.sent:
            yield from (item.text for item in translated.sent.items)
            yield from (tool.text for tool in translated.sent.tools)

    @cached_property
    def plain(self) -> Translated:
        """The conversation: every content a list of blocks, no mark anywhere."""
        return self._send("the conversation", bodies.conversation(self.entry, self._salt))

    @cached_property
    def again(self) -> Translated:
        """`plain` once more, byte for byte."""
        _ = self.plain
        return self._send("the same, byte for byte", bodies.conversation(self.entry, self._salt))

    @cached_property
    def marked(self) -> Translated:
        """`plain` with cache marks and a key that is no text (/v1/messages only)."""
        return self._send("with cache marks", bodies.conversation(self.entry, self._salt, marks=True))

    @cached_property
    def strings(self) -> Translated:
        """`plain` with every content of one text as a string."""
        return self._send("texts as strings", bodies.conversation(self.entry, self._salt, form="string"))

    @cached_property
    def later(self) -> Translated:
        """`plain`, one turn on."""
        return self._send("one turn later", bodies.conversation(self.entry, self._salt, later=True))

    @cached_property
    def noted(self) -> tuple[Translated, Translated]:
        """A conversation, and the same with system notes appended."""
        return (
            self._send("before the notes", bodies.notes(self.entry, self._salt, appended=False)),
            self._send("with system notes", bodies.notes(self.entry, self._salt, appended=True)),
        )

    @cached_property
    def thinking(self) -> tuple[Translated, Translated, Translated]:
        """Low effort; the same with high effort; the same one turn on."""
        return (
            self._send("low effort", bodies.thinking(self.entry, self._salt, effort="low")),
            self._send("high effort", bodies.thinking(self.entry, self._salt, effort="high")),
            self._send(
                "high effort, one turn later", bodies.thinking(self.entry, self._salt, effort="high", later=True)
            ),
        )

    @cached_property
    def images(self) -> Translated:
        return self._send("with images", bodies.images(self.entry, self._salt))

    @cached_property
    def deferred(self) -> tuple[Translated, Translated]:
        """Before and after a deferred tool was found (/v1/messages only)."""
        return (
            self._send("before a deferred tool was found", bodies.deferred(self._salt, found=False)),
            self._send("after it was found", bodies.deferred(self._salt, found=True)),
        )

    @cached_property
    def any_choice(self) -> Translated:
        """All control fields, and the session's own header."""
        return self._send("all controls", bodies.controls(self.entry, self._salt, "any"), headers=SESSION_HEADERS)

    @cached_property
    def other_choices(self) -> tuple[Translated, Translated, Translated]:
        """tool_choice: one tool, none, and left out with every other control."""
        return (
            self._send("one tool chosen", bodies.controls(self.entry, self._salt, "tool")),
            self._send("no tool chosen", bodies.controls(self.entry, self._salt, "none")),
            self._send("no control", bodies.controls(self.entry, self._salt, "left out")),
        )

    @cached_property
    def real_name(self) -> tuple[Translated, Translated, Translated] | None:
        """A request twice as it is, then under the upstream's own name of the model; None where both names are one."""
        body = bodies.controls(self.entry, self._salt, "left out")
        first, again = self._send("under the alias", body), self._send("the same, byte for byte", body)
        name = first.got.fields.get("model") if first.got is not None else None
        if not isinstance(name, str) or name == self._lab.wire.model:
            return None
        return first, again, self._send("under the real name", dumps({**body, "model": name}))

    @cached_property
    def forms(self) -> tuple[AttributionForm, ...]:
        """The attribution text in every form the field has (/v1/messages only)."""
        kept = f"{self._salt} Attribution probe: keep to the facts."

        def block(header: str) -> object:
            return [{"type": "text", "text": header}, {"type": "text", "text": kept}]

        def line(header: str) -> object:
            return f"{header}\n{kept}"

        def glued(header: str) -> object:
            return f"{header}{kept}"

        more = " cc_workload=agent; cc_is_subagent=true;"
        shapes: tuple[tuple[str, Callable[[str], object], str, str], ...] = (
            ("a block of its own", block, attribution("0a1b2", "d8c"), attribution("f3e4d", "d8c")),
            ("the first line of a string", line, attribution("1a1b2", "d8c"), attribution("e3e4d", "d8c")),
            ("a string without a line break", glued, attribution("2a1b2", "d8c"), attribution("d3e4d", "d8c")),
            ("without cch", block, attribution("", "d8c"), attribution("", "3f1")),
            ("with more keys", block, attribution("4a1b2", "d8c", more=more), attribution("b3e4d", "3f1", more=more)),
            ("only the suffix changes", block, attribution("5a1b2", "d8c"), attribution("5a1b2", "3f1")),
        )
        found = []
        for name, shape, one, two in shapes:
            values = (("one value", one), ("another value", two))
            sent = [self._send(f"{name}, {which}", self._form(shape(header))) for which, header in values]
            found.append(AttributionForm(name, kept, *sent))
        return tuple(found)

    def _form(self, system: object) -> Json:
        question = {"role": "user", "content": f"Attribution probe: which facts? ({self._salt})"}
        return {"max_tokens": 16, "system": system, "messages": [question]}

    @cached_property
    def native(self) -> Translated | None:
        """Three system blocks, the attribution text first, towards an upstream that speaks Messages; None: no such."""
        body = bodies.boundaries(self._salt, attribution("0a1b2", "d8c"))
        if self.plain.got is not None and self.plain.got.dialect is Dialect.MESSAGES:
            return self._send("to a Messages upstream", body)
        lab = self._native_lab()
        return None if lab is None else self._send("to a Messages upstream", body, lab)

    @cached_property
    def tenants(self) -> tuple[tuple[str, Translated], ...]:
        """One prompt under the salts a, a, b (chat only): a tenant's own, and another's."""
        salt = self._lab.salts.fresh()
        body = bodies.controls(self.entry, salt, "left out")
        words = filler(f"tenants/{salt}", round(self._counted_tokens() / self._lab.tokens_per_byte))
        body["messages"][-1]["content"] += f"\n{words}"
        salted = [(name, {**body, "cache_salt": f"{name}-{salt}"}) for name in ("a", "a", "b")]
        return tuple((name, self._send(f"under the salt {name}", own)) for name, own in salted)
