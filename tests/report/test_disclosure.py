"""The gate before everything written."""

from __future__ import annotations

from sample_report import CHANGE, EXCERPT, GROWTH, mixed, run_report, verdict

from conformance.disclosure import Disclosure
from conformance.verdicts import Change, Entry, Excerpt, Fact, Status, Table

KEY = "zq-9f8e7d6c5b4a39281706"
LEAK = f"Quuxwellington {KEY}"


def text_of(value: object) -> str:
    return repr(value).lower()


def test_no_part_of_a_verdict_lets_a_key_or_an_unknown_word_through() -> None:
    leaking = verdict(
        "CON-01",
        Entry.MESSAGES,
        Status.FAIL,
        LEAK,
        code="text-added",
        tables=(Table(LEAK, (LEAK, "n"), ((LEAK, 3), (None, 0.5))),),
        ruled_out=(LEAK,),
        change=Change(LEAK, 0, LEAK, LEAK, LEAK, LEAK),
        excerpts=(Excerpt("turn 1", KEY, KEY, KEY, KEY),),
    )
    shown = Disclosure([KEY]).verdict(leaking)
    assert KEY not in text_of(shown)
    assert "quux" not in text_of(shown)
    assert (shown.rule, shown.status, shown.n, shown.code) == ("CON-01", Status.FAIL, leaking.n, "text-added")
    assert shown.tables[0].rows[1] == (None, 0.5)


def test_a_report_loses_the_key_wherever_it_stands() -> None:
    report = run_report(
        (), target=f"http://gw/{KEY}", model=KEY, facts=(Fact(name="note", value=f"said {KEY}"),), problem=f"no {KEY}"
    )
    assert KEY not in text_of(Disclosure([KEY]).report(report))


def test_what_the_suite_says_and_sent_passes_unchanged() -> None:
    gate = Disclosure(["some-other-key-0815"], lambda: [CHANGE.before, CHANGE.after, "one WebSearch agrees"])
    for said in mixed().verdicts:
        if said.rule != "PFX-09":  # its reason is hostile
            assert gate.verdict(said) == said
    assert GROWTH in gate.verdict(verdict("PIN-01", Entry.MESSAGES, Status.FAIL, "pinned", tables=(GROWTH,))).tables
    assert gate.plain(EXCERPT) == EXCERPT
    assert gate.report(mixed()) == mixed()
