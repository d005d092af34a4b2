"""USE rules: do the reported counts add up, cold and warm, plain and streamed, on both entries?"""

from __future__ import annotations

from conformance.evidence.conversation import Sent
from conformance.judgements.verdict import Judging, evidence, last_record, usage_upstream
from conformance.observe.observed import DialectPair, Observed
from conformance.verdicts import Cell, Entry, Status, Table, Vantage, Verdict
from conformance.wire.exchange import Exchange
from conformance.wire.upstream_usage import upstream_usage

STREAMS_ONLY = "stream-"
"""Begins the code of a failure that no plain answer shows: only that can follow from how streams are asked for."""


def adds_up_to_upstream(observed: Observed) -> Verdict:
    """USE-01 by the upstream's own usage: the parts' sum is its prompt, the cache part its cached tokens."""
    judging = Judging("USE-01", observed.entry, Vantage.UPSTREAM)
    _ = observed.arms, observed.streams
    right: list[tuple[Cell, ...]] = []
    rows: list[tuple[Cell, ...]] = []
    wrong: list[Exchange] = []
    judged = 0
    for exchange in observed.exchanges:
        record = last_record(exchange)
        if not exchange.ok or record is None:
            continue
        truth = upstream_usage(record)
        if truth.prompt is None:
            continue
        judged += 1
        usage = exchange.usage
        row = ("stream" if exchange.streamed else "plain", truth.prompt, truth.cached, usage.prompt,
               usage.raw.get("input_tokens"), usage.cached, usage.created)  # fmt: skip
        if usage.prompt != truth.prompt or (truth.cached is not None and (usage.cached or 0) != truth.cached):
            wrong.append(exchange)
            rows.append(row)
        else:
            right.append(row)
    if judged < 4:
        return judging.undecided(f"only {judged} answers whose upstream usage the recorder saw", judged)
    columns = ("form", "upstream prompt", "upstream cached", "reported sum", "input", "cache read", "cache creation")
    if not wrong:
        table = Table("every answer", columns, tuple(right))
        return judging.passes(
            f"the parts add up to the upstream's prompt in all {judged} answers", judged, tables=(table,)
        )
    first = rows[0]
    code = "sum-wrong" if any(row[3] != row[1] for row in rows) else "cache-read-wrong"
    return judging.says(
        Status.FAIL,
        f"{len(wrong)} of {judged} answers miscount: e.g. upstream {_shown(first[1])} prompt ({_shown(first[2])} "
        f"cached) is reported as {_shown(first[3])} in all ({_shown(first[4])} input, {_shown(first[5])} cache read)",
        judged,
        code=f"{STREAMS_ONLY}{code}" if all(e.streamed for e in wrong) else code,
        tables=(Table("answers that miscount", columns, tuple(rows[:12])),),
        excerpts=(evidence("first answer that miscounts", wrong[0], observed),),
    )


def adds_up_to_other_entry(observed: Observed) -> Verdict:
    """USE-01 without upstream usage: the sum grows with what is sent, and warm it is the other entry's total."""
    judging = Judging("USE-01", observed.entry, Vantage.CLIENT)
    qualification = observed.qualification
    n = len(qualification.probes)
    if not qualification.counted["message"] and all(p.first.valid for p in qualification.probes):
        return judging.says(
            Status.FAIL,
            "the reported total does not grow when the message grows: it is not a count of the prompt",
            n,
            code="total-ignores-prompt",
            tables=(qualification.table,),
        )
    pair = observed.dialects
    if pair is None:
        return judging.not_run("needs a recorder (--upstream-listen), or the chat entry to compare with")
    ours, theirs = pair.messages.usage.prompt, pair.chat.usage.prompt
    if ours is None or theirs is None:
        return judging.undecided("one of the entries reports no prompt tokens", n + 2)
    table = _dialect_table(pair.messages, pair.chat)
    slack = observed.thresholds.usage.dialect_slack(theirs, upstream_known=False)
    if abs(ours - theirs) <= slack:
        return judging.passes(
            f"the same text counts {ours:,} tokens here and {theirs:,} on /v1/chat/completions, warm",
            n + 2,
            tables=(table,),
        )
    if observed.other is not None and len(_moving(observed.other)) >= 2 > len(_moving(observed)):
        return judging.undecided(
            f"the same text counts {ours:,} tokens here and {theirs:,} on the chat entry, whose totals move with its "
            "cached tokens (see USE-06 there)",
            n + 2,
            tables=(table,),
        )
    warm = pair.messages.usage.cached or pair.chat.usage.cached or 0
    if warm and abs(abs(ours - theirs) - warm) <= slack:
        return judging.says(
            Status.FAIL,
            f"the same text counts {ours:,} tokens here and {theirs:,} on the chat entry: off by its cached tokens",
            n + 2,
            code="cached-counted-wrong",
            tables=(table,),
        )
    return judging.undecided(
        f"the same text counts {ours:,} tokens here and {theirs:,} on the chat entry: needs a recorder to say why",
        n + 2,
        tables=(table,),
    )


def same_total_cold_and_warm(observed: Observed) -> Verdict:
    """USE-06: a repeat's total is its first send's; its parts move."""
    judging = Judging("USE-06", observed.entry, Vantage.CLIENT)
    rules = observed.thresholds.usage
    known = _sent_twice(observed)
    n = 2 * len(known)
    rows = tuple((a.prompt, a.cached, b.prompt, b.cached) for a, b in known)
    table = Table("the same request twice", ("total, first", "cached, first", "total, again", "cached, again"), rows)
    if not known:
        return judging.undecided("no answer reports prompt tokens", 2 * len(observed.qualification.probes))
    off = _moving(observed)
    if len(off) >= 2:
        a, b = off[0]
        side = "added to" if (b.prompt or 0) > (a.prompt or 0) else "left out of"
        return judging.says(
            Status.FAIL,
            f"the same request counts {a.prompt:,} tokens the first time and {b.prompt:,} the second "
            f"({len(off)} of {len(known)} pairs): cached tokens are {side} the total",
            n,
            code="total-moves",
            tables=(table,),
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


def _sent_twice(observed: Observed) -> list[tuple[Sent, Sent]]:
    """The probes' first sends and last repeats, where both count their prompt."""
    pairs = [(p.first, repeat) for p in observed.qualification.probes for repeat in p.repeats[-1:]]
    return [(a, b) for a, b in pairs if a.valid and b.valid and a.prompt is not None and b.prompt is not None]


def _moving(observed: Observed) -> list[tuple[Sent, Sent]]:
    """Of those, the ones whose total is another the second time."""
    slack = observed.thresholds.usage.total_slack
    known = _sent_twice(observed)
    return [(a, b) for a, b in known if abs((a.prompt or 0) - (b.prompt or 0)) > slack(a.prompt or 0)]


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
    records = last_record(pair.messages), last_record(pair.chat)
    same_upstream = None not in records and _messages_of(records[0]) == _messages_of(records[1])
    if same_upstream:
        slack = observed.thresholds.usage.total_slack(theirs)
    else:
        slack = observed.thresholds.usage.dialect_slack(theirs, upstream_known=None not in records)
    tables = (table, _dialect_table(pair.messages, pair.chat))
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
    if (right := _right_here(observed.entry, pair, observed.thresholds.usage.total_slack(theirs))) is not None:
        return judging.passes(
            f"{agreed}; one text counts {ours:,} and {theirs:,} on the two entries, and this one's {right:,} is the "
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
    )


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


def _dialect_table(messages: Exchange, chat: Exchange) -> Table:
    rows = tuple((e.entry.path, e.usage.prompt, e.usage.cached, e.error) for e in (messages, chat))
    return Table("the same text on both entries, sent twice", ("entry", "total", "cached", "error"), rows)


def _right_here(entry: Entry, pair: DialectPair, slack: float) -> int | None:
    """This entry's total, if it is what the upstream counted and the other entry's is not."""
    here, there = (pair.messages, pair.chat) if entry is Entry.MESSAGES else (pair.chat, pair.messages)
    off = []
    for exchange in (here, there):
        said, true = exchange.usage.prompt, usage_upstream(exchange).prompt
        off.append(None if said is None or true is None else abs(said - true))
    right = off[0] is not None and off[0] <= slack and off[1] is not None and off[1] > slack
    return here.usage.prompt if right else None


def _shown(cell: Cell) -> str:
    return "no" if cell is None else f"{cell:,}" if isinstance(cell, int) else str(cell)
