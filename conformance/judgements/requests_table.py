"""Tables of the requests a verdict rests on, for judgements that compare texts and have no counts to show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from conformance.observe.records import own_record
from conformance.observe.scripted import Played
from conformance.observe.translation_probes import Translated
from conformance.verdicts import Cell, Table
from conformance.wire.exchange import Exchange

MOST_ROWS = 20
"""Of one table: what is left out behind them is said in its title."""


def probes_table(probes: Iterable[Translated]) -> Table:
    """One row a probe: how many texts, calls and images, and how many tools, were sent and came upstream."""
    columns = ("request", "status", "parts sent", "parts upstream", "tools sent", "tools upstream")
    rows: list[tuple[Cell, ...]] = []
    for probe in probes:
        got = probe.got
        came = (None, None) if got is None else (len(got.items), len(got.tools))
        sent = (len(probe.sent.items), len(probe.sent.tools))
        rows.append((probe.name, probe.exchange.status, sent[0], came[0], sent[1], came[1]))
    return _limited("requests this rests on", columns, rows)


def exchanges_table(named: Iterable[tuple[str, Exchange]]) -> Table:
    """One row a request: its counts, and the bytes that went upstream for it."""
    columns = ("request", "status", "prompt", "cached", "upstream bytes")
    rows: list[tuple[Cell, ...]] = []
    for name, exchange in named:
        record = own_record(exchange)
        usage = exchange.usage
        rows.append((name, exchange.status, usage.prompt, usage.cached, len(record.body) if record else None))
    return _limited("requests this rests on", columns, rows)


def turns_table(turns: Sequence[Exchange]) -> Table:
    """`exchanges_table` of a conversation's turns, in order."""
    return exchanges_table((f"turn {number}", turn) for number, turn in enumerate(turns, start=1))


def scripted_table(played: Iterable[Played]) -> Table:
    """One row a scripted answer: whether the upstream was asked for it, and what the client saw."""
    columns = ("scripted answer", "asked upstream", "status", "events", "stop reason")
    rows: list[tuple[Cell, ...]] = [
        (p.name, len(p.records), p.exchange.status, len(p.exchange.events), p.exchange.stop_reason) for p in played
    ]
    return _limited("scripted answers this rests on", columns, rows)


def numbered(what: str, texts: Iterable[object]) -> list[str]:
    """A name for each text by which a reader sees which are the same: "body 1" for the first and its like, ..."""
    names: dict[object, str] = {}
    return [names.setdefault(text, f"{what} {len(names) + 1}") for text in texts]


def _limited(title: str, columns: tuple[str, ...], rows: Sequence[tuple[Cell, ...]]) -> Table:
    if len(rows) > MOST_ROWS:
        title = f"{title}, the first {MOST_ROWS} of {len(rows)}"
    return Table(title, columns, tuple(rows[:MOST_ROWS]))
