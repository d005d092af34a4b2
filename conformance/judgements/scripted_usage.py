"""USE and STR rules judged by scripted upstream usages: each case is an upstream's report and all honest answers to it.

A gateway that misreads the sane usage misreads every other: fields that the control case already gets wrong are
USE-01's or USE-05's to tell, and the other rules leave them out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from conformance.judgements.scripted import unplayed, without_recorder, witnessed
from conformance.judgements.verdict import Judging, evidence
from conformance.observe.observed import Observed
from conformance.observe.scripted import Played
from conformance.observe.usage_case import (
    Reading,
    UsageCase,
    allows,
    chat_fields,
    fits,
    is_count,
    is_integer,
    messages_fields,
)
from conformance.observe.usage_scripts import CASES_BY_NAME, USAGE_CASES
from conformance.observe.usage_values import PLAIN_CONTROL, PROMPT, STREAM_CONTROL
from conformance.verdicts import Cell, Entry, Status, Table, Vantage, Verdict
from conformance.wire.jsontext import dumps

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Wrong:
    """What is wrong with an answer in a few words; `code` where it is not what the rule's failures mostly are."""

    words: str
    code: str = ""


Check = Callable[["Answer"], Wrong | None]
"""What is wrong with an answer, or None."""

_COLUMNS = ("case", "form", "the upstream reports", "an honest answer", "the client got")
_SHOWN = 120
_MOST_ROWS = 12
_MESSAGES_FIELDS = ("input", "read", "created", "output")
_CHAT_FIELDS = ("prompt", "cached", "completion", "reasoning", "total")


class Answer:
    """One case as it was answered, and the control of its form."""

    def __init__(self, entry: Entry, case: UsageCase, played: Played, control: Played) -> None:
        self.case = case
        self.played = played
        self.readings: Sequence[Reading] = case.messages if entry is Entry.MESSAGES else case.chat
        read = messages_fields if entry is Entry.MESSAGES else chat_fields
        self.got: Fields = read(played.exchange.usage)
        self.control: Fields = read(control.exchange.usage)
        sane = CASES_BY_NAME[PLAIN_CONTROL]
        self._sane = sane.messages if entry is Entry.MESSAGES else sane.chat
        self.control_answered = control.exchange.ok

    def right_in_control(self, field: str) -> bool:
        """True when the sane usage was reported right in this field."""
        return fits(self._sane, self.control, (field,))

    @property
    def written(self) -> int:
        """Tokens the client was told were written to a cache. What is no count is USE-09's to tell."""
        created = self.got.get("created")
        return int(created) if created is not None and is_count(created) else 0

    @property
    def honest_totals(self) -> frozenset[int]:
        """What input, read and created may come to in all, by the case's readings of the Messages entry."""
        parts = (product(*(r[name] for name in ("input", "read", "created"))) for r in self.readings)
        return frozenset(sum(v for v in values if isinstance(v, int)) for found in parts for values in found)

    @property
    def extra_in_control(self) -> int | None:
        """How much the sane case's total is above the prompt: 0, the cached tokens once more, or None for neither."""
        total, read = total_of(self.control), self.control["read"]
        if total == PROMPT:
            return 0
        return read if isinstance(read, int) and total == PROMPT + read else None


def total_of(got: Fields) -> int | None:
    """input + read + created, absent parts counting 0; None when a part is no integer."""
    parts = [got[name] for name in ("input", "read", "created") if got[name] is not None]
    counts = [part for part in parts if isinstance(part, int) and not isinstance(part, bool)]
    return sum(counts) if counts and len(counts) == len(parts) else None


def never_below_zero(observed: Observed) -> Verdict:
    """USE-02: no count is negative, and parts that exceed the prompt are brought into agreement."""

    def check(answer: Answer) -> Wrong | None:
        low = [name for name, value in answer.got.items() if isinstance(value, int | float) and value < 0]
        if low:
            return Wrong(f"{low[0]} is {answer.got[low[0]]}")
        judged = all(answer.right_in_control(name) for name in ("input", "read", "output"))
        total, honest = total_of(answer.got), answer.honest_totals
        if judged and total is not None and total not in honest:
            return Wrong(f"the parts make {total} in all, where {' or '.join(map(str, sorted(honest)))} is right")
        return None

    passed = "no count falls below 0, and the parts agree"
    return _judge(observed, "USE-02", check, code="below-zero", passed=passed, gate=("input", "read"))


def unknown_is_not_zero(observed: Observed) -> Verdict:
    """USE-03: what the upstream did not report is absent; a 0 it did report is 0."""

    field = "read" if observed.entry is Entry.MESSAGES else "cached"

    def check(answer: Answer) -> Wrong | None:
        allowed, got = answer.readings[0][field], answer.got[field]
        if not allows(allowed, got):
            if None in allowed:
                return Wrong(f"{_json(got)} cached tokens where the upstream told nothing")
            if answer.right_in_control(field) and got is not None:
                return Wrong(f"a reported 0 became {_json(got)}")
        if answer.written:
            return Wrong(f"{answer.written} written tokens nobody reported")
        left_out = got is None and not allows(allowed, got) and answer.right_in_control(field)
        return Wrong("a reported 0 is left out", code="zero-left-out") if left_out else None

    passed = "unknown counts stay unknown, a reported 0 stays 0"
    return _judge(observed, "USE-03", check, code="invented", passed=passed, gate=(field,))


def reads_hit_and_miss(observed: Observed) -> Verdict:
    """USE-04: DeepSeek's hit is what was read from cache; its miss is no write."""

    def check(answer: Answer) -> Wrong | None:
        if answer.written:
            return Wrong(f"{answer.written} missed tokens are called a cache write")
        if answer.right_in_control("read") and not _fits(answer, ("read",)):
            return Wrong(f"cache read is {answer.got['read']}")
        return None

    passed = "hits are read, and a miss is no write"
    return _judge(observed, "USE-04", check, code="hit-and-miss", passed=passed, gate=("read",))


def creation_counted_once(observed: Observed) -> Verdict:
    """USE-08: written tokens are part of the prompt, so the total stays; none are reported that were not."""

    def check(answer: Answer) -> Wrong | None:
        created = answer.written
        told = any(reading["created"] != (None, 0) for reading in answer.readings)
        if created and not told:
            return Wrong(f"{created} written tokens nobody reported")
        extra, total = answer.extra_in_control, total_of(answer.got)
        if extra is None or total is None or not created:
            return None
        right = PROMPT + (answer.got["read"] or 0 if extra else 0)
        return Wrong(f"the total is {total} where {right} is right") if total != right else None

    return _judge(observed, "USE-08", check, code="creation-twice", passed="written tokens are counted once, if at all")


def counts_are_integers(observed: Observed) -> Verdict:
    """USE-09: whatever the upstream reports, counts are integers from 0 up."""

    def check(answer: Answer) -> Wrong | None:
        usages = [answer.got]
        start = answer.played.exchange.start_usage
        if start is not None:
            usages.append(messages_fields(start))
        for usage in usages:
            for name in ("input", "output"):
                if not is_count(usage[name]):
                    return Wrong(f"{name} is {_json(usage[name])}")
            for name in ("read", "created"):
                # A cache field below zero is USE-02's to tell.
                if usage[name] is not None and not is_integer(usage[name]):
                    return Wrong(f"{name} is {_json(usage[name])}")
        return None

    return _judge(observed, "USE-09", check, code="no-integer", passed="all counts are integers")


def output_is_complete(observed: Observed) -> Verdict:
    """USE-10: output tokens include reasoning."""

    def check(answer: Answer) -> Wrong | None:
        if not answer.right_in_control("output") or _fits(answer, ("output",)):
            return None
        return Wrong(f"{answer.got['output']} output tokens")

    passed = "output tokens include reasoning"
    return _judge(observed, "USE-10", check, code="output-incomplete", passed=passed, gate=("output",))


def last_usage_chunk_holds(observed: Observed) -> Verdict:
    """STR-05: wherever a stream's usage stands, and of several the last one."""
    fields = ("input", "read", "output") if observed.entry is Entry.MESSAGES else ("prompt", "cached", "completion")

    def check(answer: Answer) -> Wrong | None:
        judged = [name for name in fields if answer.right_in_control(name)]
        wrong = [name for name in judged if not _fits(answer, (name,))]
        return Wrong(f"{wrong[0]} is {_json(answer.got[wrong[0]])}") if wrong else None

    passed = "the last usage of a stream is reported"
    return _judge(observed, "STR-05", check, code="usage-chunk-missed", passed=passed, gate=fields)


def survives_missing_usage(observed: Observed) -> Verdict:
    """STR-06: without any usage the stream still ends properly, its counts integers."""

    def check(answer: Answer) -> Wrong | None:
        if observed.entry is Entry.CHAT:
            return None
        bad = [name for name in ("input", "output") if not is_count(answer.got[name])]
        return Wrong(f"{bad[0]} is {_json(answer.got[bad[0]])}") if bad else None

    return _judge(observed, "STR-06", check, code="no-usage", passed="streams without usage end properly")


def chat_usage_is_kept(observed: Observed) -> Verdict:
    """USE-05 by the upstream's own usage: prompt, completion, total and details arrive as they were sent."""
    fields = _CHAT_FIELDS

    def check(answer: Answer) -> Wrong | None:
        wrong = [name for name in fields if not _fits(answer, (name,))]
        return Wrong(f"{wrong[0]} is {_json(answer.got[wrong[0]])}") if wrong else None

    cases = tuple(c for c in USAGE_CASES if c.chat and c.rule in ("USE-01", "USE-02", "USE-04", "USE-10"))
    passed = "chat usage arrives as the upstream sent it"
    return _judge(observed, "USE-05", check, code="usage-rewritten", passed=passed, cases=cases)


def _control(case: UsageCase) -> UsageCase:
    sane = PLAIN_CONTROL if case.form == "plain" else STREAM_CONTROL
    return CASES_BY_NAME[case.control or sane]


def _fits(answer: Answer, fields: Sequence[str] | None = None) -> bool:
    return fits(answer.readings, answer.got, tuple(answer.got) if fields is None else fields)


def _judge(
    observed: Observed,
    rule: str,
    check: Check,
    *,
    code: str,
    passed: str,
    gate: Sequence[str] = (),
    cases: Sequence[UsageCase] | None = None,
) -> Verdict:
    """Play the rule's cases and check each answer; `gate` are fields of which the controls must get one right."""
    judging = Judging(rule, observed.entry, Vantage.UPSTREAM)
    missing = without_recorder(observed, judging)
    scripted = observed.scripted
    if missing is not None or scripted is None:
        return missing or judging.not_run("needs a recorder")
    chat = observed.entry is Entry.CHAT
    if cases is None:
        cases = tuple(c for c in USAGE_CASES if c.rule == rule and (c.chat if chat else c.messages))
    played = scripted.usages(cases)
    if nothing := unplayed(judging, [p for _, p in played]):
        return nothing
    answers = [Answer(observed.entry, case, p, scripted.usage(_control(case))) for case, p in played if p.reached]
    problems = [(answer, wrong) for answer in answers if (wrong := _problem(answer, check)) is not None]
    problems.sort(key=lambda found: bool(found[1].code))  # what the rule is about goes first
    table = Table("scripted upstream usages", _COLUMNS, tuple(_row(a) for a, _ in problems[:_MOST_ROWS]))
    n = len(answers)
    if problems:
        answer, wrong = problems[0]
        return judging.says(
            Status.FAIL,
            f"{len(problems)} of {n} usages are misreported: {answer.case.name}: {wrong.words} ({answer.case.why})",
            n,
            code=wrong.code or code,
            tables=(table,),
            excerpts=(evidence(f"case {answer.case.name}", answer.played.exchange, observed),),
        )
    told = [answer for answer in answers if witnessed(answer.played)]
    if not told:
        return judging.undecided(f"none of {n} scripted answers arrived: {answers[0].played.exchange.error}", n)
    if gate and not any(answer.right_in_control(name) for answer in told for name in gate):
        return judging.undecided("the sane usage is misreported already: see USE-01 and USE-05", n)
    shown = replace(table, rows=tuple(_row(a) for a in told[:_MOST_ROWS]))
    return judging.passes(f"{passed} ({len(told)} scripted usages)", n, tables=(shown,))


def _problem(answer: Answer, check: Check) -> Wrong | None:
    exchange = answer.played.exchange
    if not exchange.ok:
        # A target that cannot answer the sane case either has another trouble than this usage.
        refused = answer.case.may_refuse or not answer.control_answered
        return None if refused else Wrong(f"the answer is lost: {_cut(exchange.error or '')}", code="answer-lost")
    return check(answer) if witnessed(answer.played) else None


def _row(answer: Answer) -> tuple[Cell, ...]:
    case = answer.case
    says = " then ".join(_json(usage) for usage in case.usages) or "nothing"
    honest = " or ".join(
        ", ".join(
            f"{name} {'/'.join('absent' if v is None else str(v) for v in allowed)}" for name, allowed in r.items()
        )
        for r in answer.readings
    )
    exchange = answer.played.exchange
    got = ", ".join(f"{k} {_json(v)}" for k, v in answer.got.items()) if exchange.ok else str(exchange.error)
    return case.name, f"{case.form}, {case.position}", _cut(says), _cut(honest), _cut(got)


def _json(value: Any) -> str:
    return "absent" if value is None else _cut(dumps(value).decode())


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
