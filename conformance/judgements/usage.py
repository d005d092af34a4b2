"""USE rules: do the reported counts add up, cold and warm, plain and streamed, on both entries?"""

from __future__ import annotations

from collections.abc import Sequence

from conformance.evidence.conversation import Sent
from conformance.judgements.verdict import Judging, evidence, evidence_of, usage_upstream
from conformance.observe.observations import DialectPair
from conformance.observe.observed import Observed
from conformance.observe.owed_usage import OWED, excuse
from conformance.observe.records import matching_records, own_record
from conformance.verdicts import Cell, Entry, Excerpt, Status, Table, Vantage, Verdict
from conformance.wire.exchange import Exchange, Usage
from conformance.wire.upstream_usage import upstream_usage

STREAMS_ONLY = "stream-"
"""Begins the code of a failure that no plain answer shows: only that can follow from how streams are asked for."""


def adds_up_to_upstream(observed: Observed) -> Verdict:
    """USE-01 by the upstream's own usage: the parts' sum is its prompt, the cache part its cached tokens.

    Where a gateway sends more than one request with the client's content, any of them may explain the numbers.
    """
    judging = Judging("USE-01", observed.entry, Vantage.UPSTREAM)
    _ = observed.arms, observed.streams
    right: list[tuple[Cell, ...]] = []
    rows: list[tuple[Cell, ...]] = []
    wrong: list[Exchange] = []
    judged = 0
    for exchange in observed.exchanges:
        truths = [t for r in matching_records(exchange) if (t := upstream_usage(r)).prompt is not None]
        if not exchange.ok or not truths:
            continue
        judged += 1
        usage = exchange.usage
        raw = usage.raw
        right_of = next((truth for truth in truths if _explains(truth, usage)), None)
        truth = right_of or truths[-1]
        row = ("stream" if exchange.streamed else "plain", truth.prompt, truth.cached, usage.prompt,
               raw.get("input_tokens"), usage.cached, usage.created)  # fmt: skip
        if right_of is not None:
            right.append(row)
        else:
            wrong.append(exchange)
            rows.append(row)
    if judged < 4:
        return judging.undecided(f"only {judged} answers whose upstream usage the recorder saw", judged)
    columns = ("form", "upstream prompt", "upstream cached", "reported sum", "input", "cache read", "cache creation")
    if not wrong:
        table = Table("every answer", columns, tuple(right))
        return judging.passes(
            f"the parts add up to the upstream's prompt in all {judged} answers", judged, tables=(table,)
        )
    # The example shows what the code says: where some sums are wrong, one of those.
    at = next((i for i, row in enumerate(rows) if row[3] != row[1]), 0)
    first = rows[at]
    if not any(e.usage.raw for e in wrong):
        code, says = (
            "usage-missing",
            f"carry no usage, where the upstream reports it: e.g. {_shown(first[1])} prompt tokens",
        )
    else:
        code = "sum-wrong" if any(row[3] != row[1] for row in rows) else "cache-read-wrong"
        says = (
            f"miscount: e.g. upstream {_shown(first[1])} prompt ({_shown(first[2])} cached) is reported as "
            f"{_shown(first[3])} in all ({_shown(first[4])} input, {_shown(first[5])} cache read)"
        )
    return judging.says(
        Status.FAIL,
        f"{len(wrong)} of {judged} answers {says}",
        judged,
        code=f"{STREAMS_ONLY}{code}" if all(e.streamed for e in wrong) else code,
        tables=(Table("answers that miscount", columns, (first, *rows[:at], *rows[at + 1 :])[:12]),),
        excerpts=(evidence("an answer that miscounts", wrong[at], observed),),
    )


def _explains(truth: Usage, said: Usage) -> bool:
    return said.prompt == truth.prompt and (truth.cached is None or (said.cached or 0) == truth.cached)


def same_total_cold_and_warm(observed: Observed) -> Verdict:
    """USE-06: a repeat's total is its first send's; its parts move."""
    judging = Judging("USE-06", observed.entry, Vantage.CLIENT)
    rules = observed.thresholds.usage
    known = repeat_pairs(observed)
    n = 2 * len(known)
    rows = tuple((a.prompt, a.cached, b.prompt, b.cached) for a, b in known)
    table = Table("the same request twice", ("total, first", "cached, first", "total, again", "cached, again"), rows)
    if not known:
        return judging.undecided("no answer reports prompt tokens (see USE-01)", 2 * len(observed.qualification.probes))
    off = [(a, b) for a, b in known if abs((a.prompt or 0) - (b.prompt or 0)) > rules.total_slack(a.prompt or 0)]
    if len(off) >= 2:
        a, b = off[0]
        reason = (
            f"the same request counts {a.prompt:,} tokens the first time and {b.prompt:,} the second "
            f"({len(off)} of {len(known)} pairs)"
        )
        upstream = [_moved_upstream(a, b) for a, b in off]
        if all(
            moved is not None and moved == (b.prompt or 0) - (a.prompt or 0)
            for moved, (a, b) in zip(upstream, off, strict=True)
        ):
            return judging.withholds(
                f"{reason}: the upstream's own total does", n, code="upstream-moves", tables=(table,)
            )
        side = cached_moves_total(known)
        cause = f": in each warm pair by exactly its cached tokens, which are {side} the total" if side else ""
        return judging.says(
            Status.FAIL,
            reason + cause,
            n,
            code="total-moves",
            tables=(table,),
            ruled_out=("the engine: its own total stays",) if all(moved == 0 for moved in upstream) else (),
            excerpts=evidence_of(observed, ("the first time", a), ("the second time", b)),
        )
    if off:
        return judging.undecided(f"1 of {len(known)} repeats reports another total", n, tables=(table,))
    if not observed.qualification.counted["message"]:
        return judging.undecided(
            "the total does not grow with the message: that it stays proves nothing", n, tables=(table,)
        )
    moved = sum(_cached(b) - _cached(a) >= rules.moved_tokens for a, b in known)
    if not moved:
        return judging.undecided("no repeat was warmer than its first send", n, tables=(table,))
    return judging.passes(
        f"{len(known)} requests sent twice keep their total; {moved} were warm the second time", n, tables=(table,)
    )


def cached_moves_total(pairs: Sequence[tuple[Sent, Sent]]) -> str | None:
    """What cached tokens do to the total, if arithmetic proves it: "added to" or "left out of"; else None.

    `pairs` are sends of one request. In each that is warmer the second time, and in two at least, the total must move
    by exactly as much, always to one side.
    """
    moved = [((b.prompt or 0) - (a.prompt or 0), warmer) for a, b in pairs if (warmer := _cached(b) - _cached(a)) > 0]
    if len(moved) < 2:
        return None
    if all(total == warmer for total, warmer in moved):
        return "added to"
    return "left out of" if all(total == -warmer for total, warmer in moved) else None


def repeat_pairs(observed: Observed) -> list[tuple[Sent, Sent]]:
    """First send and last repeat of each fresh prompt whose totals are known."""
    pairs = ((p.first, r) for p in observed.qualification.probes for r in p.repeats[-1:])
    return [(a, b) for a, b in pairs if a.valid and b.valid and a.prompt is not None and b.prompt is not None]


def _moved_upstream(a: Sent, b: Sent) -> int | None:
    """By how much the upstream's own total moved between two sends; None where no recorder saw it."""
    totals = [usage_upstream(s.exchange).prompt if s.exchange is not None else None for s in (a, b)]
    return None if totals[0] is None or totals[1] is None else totals[1] - totals[0]


def _cached(sent: Sent) -> int:
    """What came from cache: by the answer, or by the upstream's own word where the answer says nothing."""
    if sent.cached is None and sent.exchange is not None:
        return usage_upstream(sent.exchange).cached or 0
    return sent.cached or 0


def forms_agree(observed: Observed) -> Verdict:
    """USE-07: plain and streamed answers of one request agree, and both entries on one text."""
    judging = Judging("USE-07", observed.entry, Vantage.CLIENT)
    rules = observed.thresholds.usage
    streams = observed.streams
    forms = (("plain", streams.plain), ("stream, raw", streams.raw), ("stream, SDK", streams.sdk))
    rows = tuple((name, e.usage.prompt, e.usage.cached, e.usage.output, e.error) for name, e in forms)
    table = Table("one warm request in all forms", ("form", "total", "cached", "output", "error"), rows)
    n = 4
    plain = streams.plain.usage
    if not streams.plain.ok or plain.prompt is None:
        return judging.undecided(
            f"the plain answer reports no prompt tokens ({streams.plain.error})", n, tables=(table,)
        )
    if not streams.raw.ok and not streams.sdk.ok:
        if observed.entry is Entry.CHAT and all(200 <= e.status < 300 for e in (streams.raw, streams.sdk)):
            return judging.says(
                Status.FAIL,
                f"two streams of a request whose plain answer is whole break off: {streams.raw.error}",
                n,
                code="stream-broken",
                tables=(table,),
                excerpts=(evidence("streamed", streams.raw, observed),),
            )
        return judging.undecided(f"no stream could be read ({streams.raw.error}): see STR-01", n, tables=(table,))
    for name, exchange in forms[1:]:
        usage = exchange.usage
        if not exchange.ok:
            continue
        if not usage.prompt and (why := excuse(exchange, lambda: observed.engine_counts_streams)):
            said = f"the same request counts {plain.prompt:,} prompt tokens plain and none streamed ({name}): {why}"
            code = "upstream-owes" if why == OWED else "engine-not-ruled-out"
            return judging.withholds(said, n, code=code, tables=(table,))
        if usage.prompt is None or abs(usage.prompt - plain.prompt) > rules.total_slack(plain.prompt):
            streamed = "none" if usage.prompt is None else f"{usage.prompt:,}"
            return judging.says(
                Status.FAIL,
                f"the same request counts {plain.prompt:,} prompt tokens plain and {streamed} streamed ({name})",
                n,
                code="stream-total-differs",
                tables=(table,),
                excerpts=(evidence("streamed", exchange, observed),),
            )
        known = usage.output is not None and plain.output is not None and streams.repeat_themselves
        if known and abs((usage.output or 0) - (plain.output or 0)) > rules.output_slack(plain.output or 0):
            return judging.says(
                Status.FAIL,
                f"the same answer counts {plain.output} output tokens plain and {usage.output} streamed ({name})",
                n,
                code="stream-output-differs",
                tables=(table,),
                excerpts=(evidence("streamed", exchange, observed),),
            )
    if not observed.qualification.counted["message"]:
        return judging.undecided("the total does not grow with the message, so that forms agree proves nothing", n)
    return _dialects_agree(observed, judging, n, table)


def _dialects_agree(observed: Observed, judging: Judging, n: int, table: Table) -> Verdict:
    pair = observed.dialects
    agreed = f"plain and streamed agree on {observed.streams.plain.usage.prompt:,} prompt tokens"
    if pair is None:
        return judging.passes(f"{agreed}; one entry only, nothing to compare between dialects", n, tables=(table,))
    ours, theirs = pair.messages.usage.prompt, pair.chat.usage.prompt
    if not pair.messages.ok or not pair.chat.ok:
        return judging.undecided(
            f"{agreed}; the text-only request failed: {pair.messages.error or pair.chat.error}", n + 2, tables=(table,)
        )
    if ours is None or theirs is None:
        return judging.passes(f"{agreed}; the text-only pair could not be compared", n, tables=(table,))
    records = own_record(pair.messages), own_record(pair.chat)
    same_upstream = None not in records and _messages_of(records[0]) == _messages_of(records[1])
    if same_upstream:
        slack = observed.thresholds.usage.total_slack(theirs)
    else:
        slack = observed.thresholds.usage.dialect_slack(theirs, upstream_known=None not in records)
    tables = (table, dialect_table(pair.messages, pair.chat))
    if abs(ours - theirs) <= slack:
        return judging.passes(
            f"{agreed}; one text counts {ours:,} and {theirs:,} on the two entries", n + 2, tables=tables
        )
    if not same_upstream:
        return judging.undecided(
            f"{agreed}; the same text counts {ours:,} and {theirs:,} on the two entries, whose upstream prompts "
            + ("differ" if None not in records else "are not known"),
            n + 2,
            tables=tables,
        )
    here, off = _off_upstream(observed.entry, pair)
    if off is None:
        return judging.withholds(
            f"the same upstream prompt counts {ours:,} tokens on /v1/messages and {theirs:,} on /v1/chat/completions; "
            "which is right the upstream does not say",
            n + 2,
            code="dialects-differ",
            tables=tables,
        )
    if off <= observed.thresholds.usage.total_slack(theirs):
        return judging.passes(
            f"{agreed}; one text counts {ours:,} and {theirs:,} on the two entries, and this one's {here:,} is the "
            "upstream's count",
            n + 2,
            tables=tables,
        )
    return judging.says(
        Status.FAIL,
        f"the same upstream prompt counts {ours:,} tokens on /v1/messages and {theirs:,} on /v1/chat/completions",
        n + 2,
        code="dialects-differ",
        tables=tables,
        excerpts=evidence_of_pair(pair, observed),
    )


def evidence_of_pair(pair: DialectPair, observed: Observed) -> tuple[Excerpt, ...]:
    """One text on both entries."""
    return tuple(evidence(f"on {e.entry.path}", e, observed) for e in (pair.messages, pair.chat))


def chat_parts_agree(observed: Observed) -> Verdict:
    """USE-05 from the client's side: total = prompt + completion, and cached tokens are a subset of the prompt."""
    judging = Judging("USE-05", observed.entry, Vantage.CLIENT)
    _ = observed.qualification, observed.streams
    columns = ("prompt", "cached", "completion", "total")
    rows: list[tuple[Cell, ...]] = []
    right: list[tuple[Cell, ...]] = []
    wrong: list[Exchange] = []
    judged = 0
    for exchange in observed.exchanges:
        usage, total = exchange.usage, exchange.usage.raw.get("total_tokens")
        if not exchange.ok or usage.prompt is None or usage.output is None or not isinstance(total, int):
            continue
        judged += 1
        row = (usage.prompt, usage.cached, usage.output, total)
        if total == usage.prompt + usage.output:
            right.append(row)
        else:
            wrong.append(exchange)
            rows.append(row)
    if judged < 4:
        return judging.undecided(f"only {judged} answers report prompt, completion and total tokens", judged)
    if not wrong:
        table = Table(f"the first of {judged} answers", columns, tuple(right[:12]))
        return judging.passes(f"the total is prompt + completion in all {judged} answers", judged, tables=(table,))
    prompt, _, output, total = rows[0]
    return judging.says(
        Status.FAIL,
        f"{len(wrong)} of {judged} answers do not add up: {prompt} + {output} is reported as {total} in all",
        judged,
        code="total-wrong",
        tables=(Table("answers that do not add up", columns, tuple(rows[:12])),),
        excerpts=(evidence("first such answer", wrong[0], observed),),
    )


def _messages_of(record: object) -> object:
    body = getattr(record, "json", None)
    return body.get("messages") if isinstance(body, dict) else None


def dialect_table(messages: Exchange, chat: Exchange) -> Table:
    rows = tuple((e.entry.path, e.usage.prompt, e.usage.cached, e.error) for e in (messages, chat))
    return Table("the same text on both entries, sent twice", ("entry", "total", "cached", "error"), rows)


def _off_upstream(entry: Entry, pair: DialectPair) -> tuple[int | None, int | None]:
    """This entry's total, and how far it is from what the upstream counted; None where that is not known."""
    here = pair.messages if entry is Entry.MESSAGES else pair.chat
    said, true = here.usage.prompt, usage_upstream(here).prompt
    return said, None if said is None or true is None else abs(said - true)


def _shown(cell: Cell) -> str:
    return "no" if cell is None else f"{cell:,}" if isinstance(cell, int) else str(cell)
