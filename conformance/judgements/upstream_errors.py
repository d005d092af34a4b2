"""ERR rules: what becomes of an upstream's errors, and of everyone else while one call is in trouble."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from conformance.judgements.broken_stream import Ending, ending
from conformance.judgements.scripted import unplayed, without_recorder
from conformance.judgements.verdict import Judging, evidence
from conformance.observe.error_scripts import ERRORS, ErrorCase
from conformance.observe.observed import Observed
from conformance.observe.scripted import Played
from conformance.observe.trouble import Beside, Trouble
from conformance.observe.usage_case import FORMS
from conformance.scripting import ScriptedReply
from conformance.verdicts import Entry, Excerpt, Status, Table, Vantage, Verdict
from conformance.wire.answers import object_of
from conformance.wire.exchange import Exchange
from conformance.wire.jsontext import loads_or_none

MOST_TRIES = 3
"""Upstream requests for one client request: what an SDK with its default of two retries sends."""

PATIENT = 3.0
"""Times as long is waited before a request counts as blocked: the second look."""

_CODES = ("error-as-200", "wrong-status", "retry-storm", "wrong-shape", "retry-after-dropped")
"""What can be wrong, the worst first; a verdict carries the first that was found."""


@dataclass(frozen=True)
class Told:
    """One upstream error as a client got it, and what is wrong with that, by code."""

    case: ErrorCase
    form: str
    played: Played
    wrong: Mapping[str, str]


def errors_are_passed_on(observed: Observed) -> Verdict:
    """ERR-01: an upstream error keeps its status and Retry-After, in the client's dialect, and is no retry storm."""
    judging = Judging("ERR-01", observed.entry, Vantage.UPSTREAM)
    scripted = observed.scripted
    if scripted is None:
        return without_recorder(observed, judging) or judging.not_run("needs a recorder")
    told = []
    for case in ERRORS:
        for form in FORMS:
            played = scripted.play(f"{case.name}-{form}", _named(case, form), stream=form == "stream")
            told.append(Told(case, form, played, _wrong(observed.entry, case, form, played)))
    if nothing := unplayed(judging, [t.played for t in told]):
        return nothing
    judged = [t for t in told if t.played.reached]
    n = len(judged)
    alone = len(told) - n
    note = f"; {alone} of {len(told)} requests never came upstream: the gateway had given up on it" if alone else ""
    table = _table(judged)
    found = [code for code in _CODES if any(code in t.wrong for t in judged)]
    if not found:
        return judging.passes(f"{n} upstream errors reach the client as what they are{note}", n, tables=(table,))
    worst = next(t for t in judged if found[0] in t.wrong)
    faults = [f"{t.case.name} ({t.form}): {t.wrong[code]}" for code in found for t in judged if code in t.wrong]
    return judging.says(
        Status.WARN,
        f"{'; '.join(faults[:3])}{f'; {len(faults) - 3} more' if len(faults) > 3 else ''}{note}",
        n,
        code=found[0],
        tables=(table,),
        excerpts=(evidence(f"upstream error {worst.case.name}", worst.played.exchange, observed),),
    )


def _named(case: ErrorCase, form: str) -> Callable[[str], ScriptedReply]:
    return lambda word: replace(case.reply(word), name=f"{case.name}-{form}")


def _wrong(entry: Entry, case: ErrorCase, form: str, played: Played) -> dict[str, str]:
    exchange, found = played.exchange, dict[str, str]()
    tries = len(played.records)
    if tries > MOST_TRIES:
        found["retry-storm"] = f"tried {tries} times upstream"
    if 200 <= exchange.status < 300:
        told = ending(exchange) in (Ending.ERROR_EVENT, Ending.BROKEN)
        if not (told and form == "stream" and case.inside_200):
            how = f"a {exchange.status} with the error inside" if told else f"a {exchange.status} without any error"
            found["error-as-200"] = f"{case.said} comes as {how}"
        return found
    if exchange.status not in case.right:
        was = exchange.status or "a broken connection"
        found["wrong-status"] = f"{case.said} comes as {was}"
        return found
    if not _in_dialect(entry, exchange.response_body):
        found["wrong-shape"] = f"a {exchange.status} not in the shape of {entry.path}"
    if case.retry_after and not exchange.headers.get("retry-after", "").strip():
        found["retry-after-dropped"] = f"a {exchange.status} without the upstream's Retry-After"
    return found


def _in_dialect(entry: Entry, body: bytes) -> bool:
    answer = object_of(loads_or_none(body))
    error = object_of(answer.get("error"))
    if not isinstance(error.get("message"), str):
        return False
    return entry is Entry.CHAT or (answer.get("type") == "error" and isinstance(error.get("type"), str))


def _table(told: list[Told]) -> Table:
    rows = tuple(
        (
            t.case.name,
            t.form,
            200 if t.case.inside_200 else t.case.status,
            len(t.played.records),
            t.played.exchange.status,
            t.played.exchange.headers.get("retry-after"),
            ", ".join(t.wrong) or "as it should be",
        )
        for t in told
    )
    columns = ("upstream error", "form", "upstream status", "tries", "client status", "Retry-After", "verdict")
    return Table("upstream errors", columns, rows)


def trouble_stays_ones_own(observed: Observed) -> Verdict:
    """ERR-02: a hung or failed call neither blocks nor cools down other requests; a client that leaves is cancelled."""
    judging = Judging("ERR-02", observed.entry, Vantage.UPSTREAM)
    trouble = observed.trouble
    if trouble is None:
        return without_recorder(observed, judging) or judging.not_run("needs a recorder")
    beside = trouble.beside_hung()
    n = 2
    if not beside.hung_arrived:
        return judging.undecided("the request that was to hang did not come to the recorder", 1)
    if not beside.free:
        beside, n = trouble.beside_hung(factor=PATIENT), n + 2
    if beside.blocked:
        return judging.says(
            Status.WARN,
            "a request beside a hung upstream call is answered only when that call ends (seen twice)",
            n,
            code="blocked",
            tables=(_beside_table(beside),),
            excerpts=_shown("the request beside it", beside.exchange, observed),
        )
    if beside.refused:
        return judging.says(
            Status.WARN,
            f"a request beside a hung upstream call is turned away with HTTP {beside.status} (seen twice)",
            n,
            code="refused",
            tables=(_beside_table(beside),),
            excerpts=_shown("the request beside it", beside.exchange, observed),
        )
    if not beside.free:
        return judging.undecided(
            "a request beside a hung call was not answered at all", n, tables=(_beside_table(beside),)
        )
    judging.rests_on(_beside_table(beside))
    return _after_failure(observed, judging, trouble, n)


def _after_failure(observed: Observed, judging: Judging, trouble: Trouble, n: int) -> Verdict:
    after = trouble.after_failures()
    n += 2 * len(after)
    cooled = [p for p in after if not p.reached and p.exchange.status in (429, 500, 502, 503, 529)]
    if cooled:
        return judging.says(
            Status.WARN,
            f"after one failed upstream call ({cooled[0].name}) the next request is turned away with HTTP "
            f"{cooled[0].exchange.status}, unasked upstream",
            n,
            code="cooled-down",
            excerpts=(evidence("the next request", cooled[0].exchange, observed),),
        )
    if not all(p.exchange.ok for p in after):
        return judging.undecided(f"the request after a failed one failed too: {after[0].exchange.error}", n)
    left = trouble.left()
    n += 1
    if not left.arrived:
        return judging.undecided("the stream that a client was to leave did not come to the recorder", n)
    if left.heard_out and trouble.left().heard_out:
        return judging.says(
            Status.WARN,
            "a client that leaves its stream goes on being served: the upstream call runs to its end (seen twice)",
            n + 1,
            code="not-cancelled",
            excerpts=_shown("the stream that was left", left.exchange, observed),
        )
    return judging.passes(
        "a request beside a hung call is answered, failures cool nothing down, and a client that leaves is cancelled", n
    )


def _shown(title: str, exchange: Exchange | None, observed: Observed) -> tuple[Excerpt, ...]:
    return (evidence(title, exchange, observed),) if exchange is not None else ()


def _beside_table(beside: Beside) -> Table:
    row = (beside.status, "yes" if beside.arrived else "no", beside.status_after)
    return Table("beside a hung call", ("answered meanwhile", "upstream meanwhile", "answered after"), (row,))
