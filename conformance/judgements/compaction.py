"""CMP rules: does a client compact at the size its context really has?"""

from __future__ import annotations

from collections.abc import Sequence

from conformance.judgements.verdict import Judging, evidence
from conformance.observe.compaction import Reading, plain_readings, twice_sent
from conformance.observe.observed import Observed
from conformance.verdicts import Cell, Status, Table, Vantage, Verdict

LEAST_OFF = 2
"""Answers of one form that must be off before the rule fails: a single one may be the target's hiccup, not its way."""

LEAST_ANSWERS = 2
"""Answers of one form, cold or warm, that a pass needs."""


def compacts_at_the_true_size(observed: Observed) -> Verdict:
    """CMP-01: plain and streamed, cold and warm, the counts a client adds up are the size of the prompt."""
    vantage = Vantage.UPSTREAM if observed.sees_upstream else Vantage.CLIENT
    judging = Judging("CMP-01", observed.entry, vantage)
    share = observed.thresholds.usage.compaction_share
    played = observed.compaction
    if played.failed:
        return judging.undecided(played.why, len(played.failed))
    answers = [*_plain(observed), *played.readings, *played.cold, *played.after]
    tables = (_table(played.threshold, [r for r in answers if r.streamed]), *_plain_table(answers))
    n = len(answers)
    readings = [r for r in answers if not r.untold]
    for streamed in (True, False):
        off = [r for r in readings if r.streamed is streamed and _off(r, share)]
        if len(off) >= LEAST_OFF:
            return _failed(observed, judging, off, played.threshold, n, tables)
    off = [r for r in readings if _off(r, share)]
    if off:
        return judging.undecided(f"{len(off)} of {n} answers count another context than was sent", n, tables=tables)
    if untold := [r for r in answers if r.untold]:
        why = f"{len(untold)} of {n} answers prove nothing: {untold[0].untold}"
        return judging.withholds(why, n, code="counts-missing", tables=tables)
    for streamed in (True, False):
        form = "streamed" if streamed else "plain"
        for warm in (True, False):
            seen = sum(r.streamed is streamed and r.warm is warm for r in readings)
            if seen < LEAST_ANSWERS:
                state = "from a warm cache" if warm else "cold"
                return judging.undecided(
                    f"only {seen} {form} answers {state}: the others prove nothing", n, tables=tables
                )
    last = played.readings[-1]
    if not last.full or len(played.after) != 1 or played.after[0].full:
        return judging.undecided("the session did not compact once and go on", n, tables=tables)
    known = "by the upstream's count" if observed.sees_upstream else "by the same prompts' cold counts"
    return judging.passes(
        f"a client that compacts at {played.threshold:,} tokens does so at {last.size:,}, {known}; "
        f"plain and streamed, cold and warm",
        n,
        tables=tables,
    )


def _plain(observed: Observed) -> list[Reading]:
    probes, floor = observed.qualification.probes, observed.qualification.floor
    if observed.sees_upstream:
        sends = [sent for probe in probes for sent in (probe.first, *probe.repeats[-1:])]
        return plain_readings([*sends, *observed.arms.pinned.new_turns], floor)
    return [
        reading for probe in probes for again in probe.repeats[-1:] for reading in twice_sent(probe.first, again, floor)
    ]


def _off(reading: Reading, share: float) -> bool:
    return abs(reading.context - reading.size) > share * reading.size


def _failed(
    observed: Observed, judging: Judging, off: Sequence[Reading], threshold: int, n: int, tables: Sequence[Table]
) -> Verdict:
    worst = max(off, key=lambda r: abs(r.context - r.size) / r.size)
    early = worst.context > worst.size
    code = "compacts-early" if early else "compacts-late"
    form = "streamed" if worst.streamed else "plain"
    if early and all(r in observed.compaction.after for r in off):
        code = "compacts-again"
        what = f"a client that has compacted reads its context as still {worst.context:,} tokens, and compacts again"
    elif early:
        at = threshold * worst.size / worst.context
        what = f"a client that means to compact at {threshold:,} tokens of context does so at about {at:,.0f}"
    elif worst.context == 0:
        what = "a client reads a context of 0 tokens, so it never compacts and runs into the engine's limit"
    else:
        at = threshold * worst.size / worst.context
        what = f"a client that means to compact at {threshold:,} tokens of context goes on to about {at:,.0f}"
    return judging.says(
        Status.FAIL,
        f"{what}: {len(off)} {form} answers, e.g. {worst.size:,} tokens ({worst.cached:,} cached) counted as "
        f"{worst.context:,}",
        n,
        code=code,
        tables=tables,
        excerpts=(evidence("an answer whose counts mislead", worst.exchange, observed),),
    )


def _row(reading: Reading) -> tuple[Cell, ...]:
    return (
        reading.what,
        reading.size,
        reading.cached,
        reading.context,
        round(reading.context / reading.size, 3),
        "yes" if reading.full else "",
    )


def _table(threshold: int, readings: Sequence[Reading]) -> Table:
    columns = ("answer", "true size", "cached", "client's context", "ratio", "compacts")
    return Table(
        f"a streamed session whose client compacts at {threshold:,} tokens", columns, tuple(map(_row, readings))
    )


def _plain_table(readings: Sequence[Reading]) -> tuple[Table, ...]:
    rows = tuple(_row(r)[:-1] for r in readings if not r.streamed)
    columns = ("answer", "true size", "cached", "client's context", "ratio")
    return (Table("the same client's context after plain answers", columns, rows),) if rows else ()
