"""`count_tokens` beside the real request: what a client is told before it sends, and what the answer then reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from conformance.observe.lab import WireLab
from conformance.verdicts import Entry
from conformance.wire.answers import Reply, object_of
from conformance.wire.exchange import Exchange
from conformance.wire.jsontext import loads_or_none
from conformance.wire.upstream_usage import upstream_usage

PATH = "/v1/messages/count_tokens"

_COUNTED = ("model", "messages", "system", "tools", "tool_choice", "thinking")
"""Members of a Messages request that count_tokens takes."""


@dataclass(frozen=True)
class Counted:
    """One request counted first, then sent. `count` is the answer's integer, whatever else it said."""

    what: str
    reply: Reply
    real: Exchange

    @property
    def count(self) -> int | None:
        value = object_of(loads_or_none(self.reply.body)).get("input_tokens")
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def asked(self) -> Exchange:
        """The counting itself, as an exchange."""
        body = _counted_part(self.real.request)
        return Exchange(
            self.real.entry, body, False, self.reply.status, response_body=self.reply.body, error=self.reply.error
        )

    @property
    def total(self) -> int | None:
        """The real request's prompt: the upstream's word where the recorder has it, so that a total that is misreported
        to the client is not blamed on the count."""
        return self.real.usage.prompt if self.seen_upstream is None else self.seen_upstream

    @property
    def seen_upstream(self) -> int | None:
        """The prompt that the upstream counted; None where no recorder saw it."""
        chats = [r for r in self.real.upstream if r.path.rstrip("/").endswith(("/chat/completions", "/messages"))]
        return upstream_usage(chats[-1]).prompt if chats else None


def _counted_part(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: body[name] for name in _COUNTED if name in body}


def count_and_send(lab: WireLab) -> tuple[Counted, ...]:
    """Count and send a session with tools, and a text of its own. Raises what `WireLab.send` raises."""
    if lab.entry is not Entry.MESSAGES:
        raise ValueError("count_tokens is an entry of the Messages API")
    lab.check_engine()
    found = []
    for what, tools in (("tools and text", True), ("text only", False)):
        session = lab.session(tools=tools)
        body: dict[str, Any] = session.body()
        reply = lab.wire.ask(PATH, _counted_part(body))
        found.append(Counted(what, reply, lab.send_body(body, headers=session.headers())))
    return tuple(found)
