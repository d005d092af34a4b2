"""STR rules judged by scripted streams: those that break off, those that never finish, and those of several blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from conformance.judgements.scripted import unplayed, without_recorder
from conformance.judgements.stop_reasons import Stop, play_stops, stops_table, wrong_stops
from conformance.judgements.stream import NO_BLOCK, block_faults
from conformance.judgements.verdict import Judging, evidence
from conformance.observe import stream_scripts as scripts
from conformance.observe.observed import Observed
from conformance.observe.scripted import Played, ScriptedUpstream
from conformance.verdicts import Entry, Status, Table, Vantage, Verdict
from conformance.wire.answers import object_of
from conformance.wire.exchange import Exchange
from conformance.wire.jsontext import loads_or_none


class Ending(StrEnum):
    """How a stream ended for its client."""

    ERROR_STATUS = "an error status"
    ERROR_EVENT = "an error event"
    BROKEN = "a broken connection"
    STOPS = "events stop, without an error"
    FINISHED = "a finished answer"


def ending(exchange: Exchange) -> Ending:
    """How a client saw this answer end, the most telling sign first."""
    if exchange.status and not 200 <= exchange.status < 300:
        return Ending.ERROR_STATUS
    if _error_event(exchange) or object_of(loads_or_none(exchange.response_body)).get("error") is not None:
        return Ending.ERROR_EVENT
    if exchange.status == 0 or (exchange.error or "").startswith("the answer broke off"):
        return Ending.BROKEN
    stopped = exchange.stop_reason is not None or any(_type(e.data) == "message_stop" for e in exchange.events)
    return Ending.FINISHED if stopped else Ending.STOPS


def _type(data: Any) -> Any:
    return data.get("type") if isinstance(data, Mapping) else None


def _error_event(exchange: Exchange) -> bool:
    return any(
        event.name == "error" or (isinstance(event.data, Mapping) and event.data.get("error") is not None)
        for event in exchange.events
    )


def breaks_become_errors(observed: Observed) -> Verdict:
    """STR-07: a cut upstream stream, or one with an error in it, never ends as if nothing had happened."""
    judging = Judging("STR-07", observed.entry, Vantage.UPSTREAM)
    scripted = observed.scripted
    if scripted is None:
        return without_recorder(observed, judging) or judging.not_run("needs a recorder")
    played = [*_aborted(scripted), scripted.play("error-event", scripts.error_event, stream=True)]
    if nothing := unplayed(judging, played):
        return nothing
    seen = [(p, ending(p.exchange)) for p in played if p.reached]
    codes = {Ending.FINISHED: "clean-end", Ending.STOPS: "events-stop"}
    return _said(
        observed,
        judging,
        seen,
        codes,
        f"all {len(seen)} broken upstream streams reach the client as an error or a break",
    )


def unfinished_is_no_end(observed: Observed) -> Verdict:
    """STR-09: neither a cut stream nor one that HTTP ends without a finish_reason is an `end_turn`.

    And what is finished ends as the upstream said.
    """
    judging = Judging("STR-09", observed.entry, Vantage.UPSTREAM)
    scripted = observed.scripted
    if scripted is None:
        return without_recorder(observed, judging) or judging.not_run("needs a recorder")
    stops = play_stops(scripted)
    ended = [scripted.play(name, make, stream=True) for name, make in scripts.UNFINISHED.items()]
    aborted = _aborted(scripted)
    if nothing := unplayed(judging, [*(s.played for s in stops), *ended, *aborted]):
        return nothing
    # A cut that just stops is STR-07's; and where the gateway relays a dialect it adds nothing that was not there.
    relays = observed.entry is Entry.CHAT or any(p.native for p in ended)
    seen = [(p, ending(p.exchange)) for p in (*ended, *aborted) if p.reached]
    judged = [(p, e) for p, e in seen if e is not Ending.STOPS or (p in ended and not relays)]
    codes = {Ending.FINISHED: "end-turn", Ending.STOPS: "events-stop"}
    good = f"none of {len(seen)} unfinished upstream answers is called finished"
    unfinished = _said(observed, judging, judged, codes, good, seen)
    return _with_stops(observed, judging, unfinished, stops)


def _with_stops(observed: Observed, judging: Judging, unfinished: Verdict, stops: Sequence[Stop]) -> Verdict:
    """The verdict on unfinished answers, and on how the finished ones end."""
    arrived = [s for s in stops if s.arrived]
    wrong = [s for s in arrived if not s.right]
    n = unfinished.n + len(arrived)
    tables = (stops_table(arrived), *unfinished.tables)
    if wrong:
        also = f"; and {unfinished.reason}" if unfinished.status is Status.FAIL else ""
        return judging.says(
            Status.FAIL,
            f"{wrong_stops(wrong)}{also}",
            n,
            code="stop-reason",
            tables=tables,
            excerpts=(evidence(f"scripted answer {wrong[0].played.name}", wrong[0].exchange, observed),),
        )
    if unfinished.status is not Status.PASS:
        return unfinished
    if missing := [s for s in stops if s not in arrived]:
        first = missing[0].played
        why = first.exchange.error or ("it carries no answer" if first.reached else "it did not come to the recorder")
        return judging.undecided(f"{unfinished.reason}; the answer {first.name} did not arrive: {why}", n)
    return judging.passes(
        f"{unfinished.reason}; {len(arrived)} finished ones end as the upstream said", n, tables=tables
    )


def _aborted(scripted: ScriptedUpstream) -> list[Played]:
    return [scripted.play(name, make, stream=True) for name, make in scripts.ABORTED.items()]


def _said(
    observed: Observed,
    judging: Judging,
    seen: Sequence[tuple[Played, Ending]],
    codes: Mapping[Ending, str],
    good: str,
    shown: Sequence[tuple[Played, Ending]] | None = None,
) -> Verdict:
    """The verdict on the endings `seen`; `shown` are all that were looked at, where those are more."""
    shown = seen if shown is None else shown
    n = len(shown)
    table = Table(
        "how streams ended",
        ("the upstream", "the client sees", "stop reason", "output tokens"),
        tuple((p.name, str(e), p.exchange.stop_reason, p.exchange.usage.output) for p, e in shown),
    )
    for bad, code in codes.items():
        found = [p for p, e in seen if e is bad]
        if found:
            exchange = found[0].exchange
            told = f"stop reason {exchange.stop_reason}" if bad is Ending.FINISHED else "clients take it for the whole"
            return judging.says(
                Status.FAIL,
                f"{len(found)} of {n} unfinished upstream streams ({found[0].name}) reach the client as {bad}: {told}",
                n,
                code=code,
                tables=(table,),
                excerpts=(evidence(f"upstream stream {found[0].name}", exchange, observed),),
            )
    return judging.passes(good, n, tables=(table,))


def blocks_have_their_own_index(observed: Observed) -> Verdict:
    """STR-08: parallel calls, and thinking or text beside them, come as blocks of their own, none of them null."""
    judging = Judging("STR-08", observed.entry, Vantage.UPSTREAM)
    scripted = observed.scripted
    if scripted is None:
        return without_recorder(observed, judging) or judging.not_run("needs a recorder")
    played = []
    for name, make in scripts.BLOCKS.items():
        thinks = name.startswith("thinking")
        more = {"max_tokens": 4096, "thinking": {"type": "enabled", "budget_tokens": 1024}} if thinks else None
        played.append(scripted.play(name, make, stream=True, tools=not thinks, more=more))
    if nothing := unplayed(judging, played):
        return nothing
    streamed = [p for p in played if p.reached and 200 <= p.exchange.status < 300 and p.exchange.events]
    if not streamed:
        return judging.undecided(f"no scripted stream arrived: {played[0].exchange.error}", len(played))
    faults = [(p, fault) for p in streamed for fault in _wrong_blocks(p)]
    n = len(streamed)
    if not faults:
        if not any(ending(p.exchange) is Ending.FINISHED or _whole(p) for p in streamed):
            return judging.undecided(f"no scripted stream arrived whole: {streamed[0].exchange.error}", n)
        return judging.passes(f"every block of {n} streams has its own index and its own content", n)
    first, fault = faults[0]
    order = tuple((e.name, _type(e.data), object_of(e.data).get("index")) for e in first.exchange.events[:40])
    return judging.says(
        Status.FAIL,
        f"{first.name}: {fault}",
        n,
        code="blocks-mixed",
        tables=(Table("events", ("event", "type", "index"), order),),
        excerpts=(evidence(f"scripted stream {first.name}", first.exchange, observed),),
    )


def _wrong_blocks(played: Played) -> list[str]:
    exchange = played.exchange
    starts = [e.data for e in exchange.events if _type(e.data) == "content_block_start"]
    if any(object_of(start.get("content_block")).get("type") is None for start in starts):
        return ["a content block is null, or has no type"]
    # A last block that never closes, and a stream that breaks off, are no question of an index: STR-01 tells of them.
    finished = ending(exchange) is Ending.FINISHED
    beside = ("still open at message_delta",) if finished else ("still open at message_delta", NO_BLOCK)
    if faults := [fault for fault in block_faults(exchange.events) if not any(words in fault for words in beside)]:
        return faults
    if _whole(played) or not finished:
        return []
    if _thinks(played):
        return ["the text beside the thinking is lost"]
    wanted, got = _calls(played)
    return [f"of 2 parallel calls {sum(call in got for call in wanted)} arrive as they were made"]


def _whole(played: Played) -> bool:
    """True when what the upstream said in blocks is what the client got."""
    wanted, got = _calls(played)
    return played.word in played.exchange.text if _thinks(played) else got == wanted


def _thinks(played: Played) -> bool:
    return played.name.startswith("thinking")


def _calls(played: Played) -> tuple[list[tuple[str, Any]], list[tuple[str, Any]]]:
    """The calls the upstream made, and those that arrived."""
    wanted = [(call.name, loads_or_none(call.arguments)) for call in scripts.calls(played.word)]
    return wanted, [(name, loads_or_none(arguments)) for name, arguments in played.exchange.tool_calls]
