"""Requests that are sent early in a run, once more before the target is restarted, and once more after it.

The one right before tells what the restart changes from what time changes: a date, or where a gateway routes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.errors import RestartFailed, TargetProblem
from conformance.evidence.conversation import Sent
from conformance.observe.lab import WireLab
from conformance.verdicts import Entry
from conformance.wire.exchange import Exchange

Restart = Callable[[], str]
"""Restarts the target, once a run; returns by what that showed, "" where by nothing. Raises RestartFailed."""

_NAMES = ("list", "open", "find", "move", "mark", "send", "read", "copy", "sort", "join", "load", "keep")
_PARAMETERS = ("target", "amount", "reason")

MANY_TOOLS = len(_NAMES)
"""So many that two orders drawn at random are not the same by accident; the keys of their schemas even less."""

MANY_TOOLS_SENT = 2


@dataclass(frozen=True)
class SentBefore:
    """One request early in the run, and right before the restart. `exact`: byte for byte the same each time."""

    what: str
    early: Exchange
    before: Exchange
    exact: bool


@dataclass(frozen=True)
class SentAgain(SentBefore):
    """The same request once more, after the restart."""

    after: Exchange


@dataclass(frozen=True)
class AcrossRestart:
    """Everything that was sent again. `seen` says by what it showed that the target was away, "" where by nothing."""

    seen: str
    pairs: tuple[SentAgain, ...]


def send_many_tools(lab: WireLab) -> tuple[Exchange, ...]:
    """A short request with many tools, sent raw and byte for byte the same."""
    session = lab.session()
    body = session.body()
    body["tools"] = [_tool(lab.entry, name) for name in _NAMES]
    text = f"{session.salt} Answer briefly."
    if lab.entry is Entry.MESSAGES:
        body |= {"system": text, "messages": [{"role": "user", "content": "What is a tool?"}]}
    else:
        body["messages"] = [{"role": "system", "content": text}, {"role": "user", "content": "What is a tool?"}]
    return tuple(lab.send_body(body, headers=session.headers()) for _ in range(MANY_TOOLS_SENT))


def send_before(
    lab: WireLab, identical: Sequence[Exchange], many_tools: Sequence[Exchange], turns: Sequence[Sent]
) -> tuple[SentBefore, ...]:
    """Send the identical request, the one with many tools and the session's last plain turn once more."""
    early = [
        (what, sent[0], True)
        for what, sent in (("the identical request", identical), (f"a request with {MANY_TOOLS} tools", many_tools))
    ]
    plain = [s.exchange for s in turns if s.exchange is not None and not s.exchange.streamed]
    if plain:
        early.append((f"turn {len(turns)} of a session", plain[-1], False))
    return tuple(SentBefore(what, sent, _again(lab, sent), exact) for what, sent, exact in early)


def send_after(lab: WireLab, seen: str, sent: Sequence[SentBefore]) -> AcrossRestart:
    """Send all of it again. Raises RestartFailed where the target answers no more."""
    try:
        pairs = [SentAgain(s.what, s.early, s.before, s.exact, _again(lab, s.early)) for s in sent]
    except TargetProblem as problem:
        raise RestartFailed(f"the target answered after its restart, and then no more: {problem}") from None
    return AcrossRestart(seen, tuple(pairs))


def _again(lab: WireLab, exchange: Exchange) -> Exchange:
    """The same request, by the same client."""
    if exchange.body is not None:
        return lab.send_body(exchange.body, headers=dict(exchange.sent_headers))
    return lab.send_body(dict(exchange.request), via="sdk", headers=dict(exchange.sent_headers))


def _tool(entry: Entry, name: str) -> dict[str, Any]:
    properties = {word: {"type": "string"} for word in _PARAMETERS}
    schema = {"type": "object", "properties": properties, "required": [_PARAMETERS[0]]}
    tool = {"name": f"{name}_entry", "description": f"Use it to {name} an entry."}
    if entry is Entry.MESSAGES:
        return {**tool, "input_schema": schema}
    return {"type": "function", "function": {**tool, "parameters": schema}}
