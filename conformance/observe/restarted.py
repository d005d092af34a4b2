"""Requests that are sent before the target is restarted, and once more after it."""

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
class SentAgain:
    """One request before the restart and after it. `exact`: byte for byte the same on the client's side."""

    what: str
    before: Exchange
    after: Exchange
    exact: bool


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


def send_again(
    lab: WireLab, seen: str, identical: Sequence[Exchange], many_tools: Sequence[Exchange], turns: Sequence[Sent]
) -> AcrossRestart:
    """Send the identical request, the one with many tools and the session's last plain turn once more."""
    pairs = [
        SentAgain(what, sent[0], _again(lab, sent[0]), exact=True)
        for what, sent in (("the identical request", identical), (f"a request with {MANY_TOOLS} tools", many_tools))
    ]
    plain = [s.exchange for s in turns if s.exchange is not None and not s.exchange.streamed]
    if plain:
        pairs.append(SentAgain(f"turn {len(turns)} of a session", plain[-1], _again(lab, plain[-1]), exact=False))
    return AcrossRestart(seen, tuple(pairs))


def _again(lab: WireLab, exchange: Exchange) -> Exchange:
    """The same request, by the same client."""
    try:
        if exchange.body is not None:
            return lab.send_body(exchange.body, headers=dict(exchange.sent_headers))
        return lab.send_body(dict(exchange.request), via="sdk", headers=dict(exchange.sent_headers))
    except TargetProblem as problem:
        raise RestartFailed(f"the target answered after its restart, and then no more: {problem}") from None


def _tool(entry: Entry, name: str) -> dict[str, Any]:
    properties = {word: {"type": "string"} for word in _PARAMETERS}
    schema = {"type": "object", "properties": properties, "required": [_PARAMETERS[0]]}
    tool = {"name": f"{name}_entry", "description": f"Use it to {name} an entry."}
    if entry is Entry.MESSAGES:
        return {**tool, "input_schema": schema}
    return {"type": "function", "function": {**tool, "parameters": schema}}
