"""Run reports to render: one with every kind of verdict, and one that is all green."""

from __future__ import annotations

from dataclasses import replace

from conformance.rules import RULES
from conformance.verdicts import (
    BaselineState,
    Change,
    Entry,
    Excerpt,
    Fact,
    KnownFailure,
    RunReport,
    Stale,
    Status,
    Table,
    Vantage,
    Verdict,
)

HOSTILE = "<script>alert('x')</script> [bold]not markup[/bold] \x1b[31mred\x1b[0m &amp; ]]>"
"""What a target may answer: it must reach no reader's browser, terminal or XML parser as anything but text."""

GROWTH = Table(
    title="cached tokens per turn (hot pairs)",
    columns=("turn", "prompt tokens", "cached, repeat", "cached, next turn", "lost", "where"),
    rows=tuple(
        (turn, 19_330 + 1_410 * turn, 19_328 + 1_408 * turn, 17_920, 1_408 * turn + 1_408, "after tool 23 (WebSearch)")
        for turn in range(1, 7)
    ),
)
CHANGE = Change(
    part="system text",
    offset=0,
    before="x-anthropic-billing-header: cc_version=2.1.116.d8c; cc_entrypoint=claude-vscode; cch=0f3a1;",
    after="x-anthropic-billing-header: cc_version=2.1.116.d8c; cc_entrypoint=claude-vscode; cch=b77d0;",
    kind="attribution block",
)
EXCERPT = Excerpt(
    title="turn 4 of the claude-code session",
    request='{\n  "model": "llm-prime",\n  "system": [ … ]\n}',
    response='{\n  "usage": {"input_tokens": 310}\n}',
    upstream_request='{\n  "messages": [{"role": "system", "content": "x-anthropic-billing-header: …"}]\n}',
)


def verdict(rule: str, entry: Entry, status: Status, reason: str, **more: object) -> Verdict:
    """A verdict with the fields a test does not care for filled in."""
    fields = {"vantage": Vantage.UPSTREAM, "n": 24} | more
    return Verdict(rule=rule, entry=entry, status=status, reason=reason, **fields)  # type: ignore[arg-type]


def run_report(verdicts: tuple[Verdict, ...], **more: object) -> RunReport:
    """A report of a run against some gateway, holding these verdicts."""
    fields: dict[str, object] = {
        "suite_version": "0.1.0",
        "rule_set": "2026-11",
        "target": "http://gw.example:3000",
        "model": "llm-prime",
        "entries": tuple(Entry),
        "vantages": (Vantage.CLIENT, Vantage.UPSTREAM),
        "fault": None,
        "budget": "standard",
        "seed": 7,
        "started": "2026-11-29T09:25:22+00:00",
        "seconds": 41.37,
        "requests_planned": 230,
        "requests_sent": 212,
        "prompt_tokens_planned": 298_000,
        "prompt_tokens_sent": 271_456,
        "facts": (
            Fact(name="granularity", value="256 tokens, from 7 counts"),
            Fact(name="template floor", value="256 tokens, what 3 fresh prompts share"),
            Fact(name="repeats that hit", value="24 of 24"),
        ),
    } | more
    return RunReport(verdicts=verdicts, **fields)  # type: ignore[arg-type]


def green() -> RunReport:
    """Every rule passes on every entry, on the embedded pair."""
    return run_report(
        tuple(
            verdict(rule.id, entry, Status.PASS, "the evidence agrees")
            for rule in RULES.values()
            for entry in rule.entries
        ),
        target="embedded pair",
    )


def mixed() -> RunReport:
    """Every kind of verdict: a root with a consequence, a warning, undecided rules, a suite error."""
    special = {
        ("PFX-02", Entry.MESSAGES): verdict(
            "PFX-02",
            Entry.MESSAGES,
            Status.FAIL,
            "the attribution block reached the upstream in 24 of 24 requests, with a new cch in each",
            code="attribution-kept",
            change=CHANGE,
            excerpts=(EXCERPT,),
        ),
        ("PIN-01", Entry.MESSAGES): verdict(
            "PIN-01",
            Entry.MESSAGES,
            Status.FAIL,
            "17,920 cached tokens on each of 6 turns that grew from 20,740 to 27,790 tokens; the shared part ends in "
            "tool 23 (WebSearch), between token 17,920 and 18,176",
            code="pinned",
            root="PFX-02",
            tables=(GROWTH,),
            ruled_out=("eviction: exact repeats kept hitting in 12 of 12", "the engine: the direct arm grows"),
            vantage=Vantage.CLIENT,
        ),
        ("PFX-09", Entry.CHAT): verdict("PFX-09", Entry.CHAT, Status.WARN, HOSTILE, code="order"),
        ("PFX-14", Entry.MESSAGES): verdict(
            "PFX-14", Entry.MESSAGES, Status.NOT_RUN, "needs the upstream vantage: --upstream-listen HOST:PORT", n=0
        ),
        ("PFX-14", Entry.CHAT): verdict(
            "PFX-14", Entry.CHAT, Status.NOT_RUN, "needs the upstream vantage: --upstream-listen HOST:PORT", n=0
        ),
        ("PIN-02", Entry.CHAT): verdict(
            "PIN-02", Entry.CHAT, Status.INCONCLUSIVE, "only 5 of 8 repeats hit: the cache is too busy to judge by"
        ),
        ("USE-07", Entry.CHAT): verdict("USE-07", Entry.CHAT, Status.NOT_APPLICABLE, "the target lacks it", n=0),
        ("STR-02", Entry.MESSAGES): verdict("STR-02", Entry.MESSAGES, Status.ERROR, "KeyError: 'usage'", n=3),
    }
    verdicts = [
        special.get((rule.id, entry)) or verdict(rule.id, entry, Status.PASS, "the evidence agrees")
        for rule in RULES.values()
        for entry in rule.entries
    ]
    return run_report(tuple(verdicts))


def with_baseline() -> RunReport:
    """The mixed report under a baseline: two failures known, one entry stale, one that could not be checked."""
    listed = {
        ("PFX-02", Entry.MESSAGES): KnownFailure("PFX-02", Entry.MESSAGES, "attribution-kept", f"ticket 7 {HOSTILE}"),
        ("PFX-09", Entry.CHAT): KnownFailure("PFX-09", Entry.CHAT, "order", "ticket 8"),
    }
    gone = KnownFailure("USE-06", Entry.CHAT, "total-moves", "ticket 9")
    unsure = KnownFailure("PFX-14", Entry.CHAT, "body-differs", "ticket 10")
    report = mixed()
    verdicts = tuple(
        replace(v, known=listed[v.rule, v.entry].reason) if (v.rule, v.entry) in listed else v for v in report.verdicts
    )
    state = BaselineState(tuple(listed.values()), (Stale(gone, "it passes"),), (unsure,))
    return replace(report, verdicts=verdicts, baseline=state)
