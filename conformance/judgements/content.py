"""CON rules: does everything the client sent arrive, and nothing else?"""

from __future__ import annotations

from conformance.diagnosis.content import ContentDifference, content_differences
from conformance.diagnosis.divergence import text_change
from conformance.diagnosis.prompt import parse_prompt
from conformance.errors import SendingStopped
from conformance.judgements.verdict import Judging, evidence, upstream_prompts
from conformance.masks import mask
from conformance.observe.observed import Observed
from conformance.verdicts import Cell, Change, Status, Table, Vantage, Verdict
from conformance.wire.exchange import Exchange

_SAYS = {
    "text-dropped": "the text of {where} does not arrive",
    "text-respaced": "the white space of {where} arrives changed",
    "text-added": "text the client did not send stands in {where}",
    "role-changed": "{where} was sent as {sent} text and arrives as {got} text",
    "tool-dropped": "{where} does not arrive",
    "tool-added": "{where} was not sent by the client",
    "schema-changed": "the definition of {where} arrives changed: {text}",
}

_COLUMNS = ("request", "kind", "where", "path, or characters")

_SHOWN = 120
"""Characters of a difference in a report."""


def everything_arrives(observed: Observed) -> Verdict:
    """CON-01 by upstream bytes, over every turn of the plain session and one request streamed."""
    judging = Judging("CON-01", observed.entry, Vantage.UPSTREAM)
    turns = [s.exchange for s in observed.arms.plain.new_turns if s.exchange is not None]
    prompts = upstream_prompts(turns)
    if not prompts:
        return judging.undecided("no turn reached the recorder", len(turns))
    prompts += upstream_prompts(_streamed(observed))
    found: dict[tuple[str, str, str], tuple[ContentDifference, int]] = {}
    compared: list[tuple[Cell, ...]] = []
    texts = tools = 0
    for i, (exchange, prompt) in enumerate(prompts):
        client = parse_prompt(observed.entry.path, exchange.request, join=False)
        assert client is not None, "the suite's own request has no messages"
        texts, tools = texts + len(client.parts), tools + len(client.tools)
        compared.append(
            (_place(exchange, i), len(client.parts), len(client.tools), len(prompt.parts), len(prompt.tools))
        )
        for difference in content_differences(client, prompt):
            key = (difference.code, difference.where, difference.text[:80])
            found.setdefault(key, (difference, i))
    if not found:
        columns = ("request", "texts sent", "tools sent", "texts upstream", "tools upstream")
        return judging.passes(
            f"{texts} texts and {tools} tool definitions of {len(prompts)} requests arrive",
            len(prompts),
            tables=(Table("what arrives", columns, tuple(compared)),),
        )
    first, at = next(iter(found.values()))
    rows = tuple(
        (_place(prompts[i][0], i), d.code, d.where, d.text[:60] if d.code == "schema-changed" else len(d.text))
        for d, i in found.values()
    )
    if all((d.code, d.sent, d.got) == ("role-changed", "system", "user") for d, _ in found.values()):
        return judging.says(
            Status.INCONCLUSIVE,
            f"{_says(first)}: right only where the model takes no system text",
            len(prompts),
            code="system-as-user",
            tables=(Table("what differs", _COLUMNS, rows[:20]),),
        )
    return judging.says(
        Status.FAIL,
        _says(first) + _and_more(len(found) - 1),
        len(prompts),
        code=first.code,
        tables=(Table("what differs", _COLUMNS, rows[:20]),),
        change=_change(first, observed),
        excerpts=(evidence(_place(prompts[at][0], at), prompts[at][0], observed),),
    )


def _and_more(others: int) -> str:
    return "" if not others else " (and 1 more difference)" if others == 1 else f" (and {others} more differences)"


def _says(difference: ContentDifference) -> str:
    d = difference
    return _SAYS[d.code].format(where=d.where, text=d.text, sent=d.sent, got=d.got)


def _streamed(observed: Observed) -> list[Exchange]:
    """Streams of one request, which gateways translate by code of their own; none where no more may be sent."""
    try:
        return [observed.streams.raw, observed.streams.sdk]
    except SendingStopped:
        return []


def _place(exchange: Exchange, i: int) -> str:
    return "streamed" if exchange.streamed else f"turn {i + 1}"


def _change(difference: ContentDifference, observed: Observed) -> Change:
    if difference.code == "schema-changed":
        return Change(
            f"{difference.where}, {difference.text.rpartition(' ')[0]}",
            0,
            difference.sent[:_SHOWN] or "(nothing)",
            mask(difference.got[:_SHOWN], observed.own_text) or "(nothing)",
            "tool definition changed",
        )
    if difference.code == "text-respaced":
        return text_change(difference.where, difference.sent, difference.got, observed.own_text, "white space")
    shown = mask(difference.text[:_SHOWN], observed.own_text) or difference.where
    if difference.code == "role-changed":
        return Change(difference.where, 0, f"{difference.sent}: {shown}", f"{difference.got}: {shown}", "role changed")
    dropped = difference.code.endswith("dropped")
    return Change(
        difference.where,
        0,
        shown if dropped else "(nothing)",
        "(nothing)" if dropped else shown,
        "content dropped" if dropped else "content added",
    )
