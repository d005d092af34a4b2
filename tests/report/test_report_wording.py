"""Words and order that all forms of the report share."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sample_report import green, mixed, run_report, verdict, with_baseline

from conformance.report import wording
from conformance.rules import RULES
from conformance.verdicts import Entry, ExitCode, Status, Verdict


def test_a_root_is_told_before_its_consequences_and_right_before_them() -> None:
    failed = [
        verdict("PIN-01", Entry.MESSAGES, Status.FAIL, "pinned", root="USE-01"),
        verdict("PFX-01", Entry.MESSAGES, Status.FAIL, "broken"),
        verdict("USE-01", Entry.MESSAGES, Status.FAIL, "root"),
        verdict("PFX-09", Entry.MESSAGES, Status.FAIL, "order", root="PIN-01"),
    ]
    assert [r.rule for r in wording.failures(run_report(tuple(failed)))] == ["PFX-01", "USE-01", "PIN-01", "PFX-09"]


def test_roots_that_name_each_other_or_nobody_are_still_told() -> None:
    failed = [
        verdict("PFX-01", Entry.CHAT, Status.FAIL, "a", root="PFX-09"),
        verdict("PFX-09", Entry.CHAT, Status.FAIL, "b", root="PFX-01"),
        verdict("USE-06", Entry.CHAT, Status.FAIL, "c", root="USE-01"),
    ]
    told = [r.rule for r in wording.failures(run_report(tuple(failed)))]
    assert sorted(told) == ["PFX-01", "PFX-09", "USE-06"]


def test_the_summary_counts_rules_by_their_worst_verdict() -> None:
    assert wording.summary_line(green()) == f"green for {len(RULES)} of {len(RULES)} rules"
    assert wording.summary_line(mixed()) == (
        f"green for {len(RULES) - 6} of {len(RULES)} rules; "
        "2 failed, 1 warned, 1 suite error, 1 inconclusive, 1 not run"
    )


def test_the_headline_counts_what_failed_and_names_the_roots() -> None:
    assert wording.headline(green()) == []
    head = wording.headline(mixed())
    assert head[0] == "2 rules FAILED, from 1 root:"
    assert head[1].startswith("PFX-02: the attribution block reached the upstream in 24 of 24 requests")
    assert head[1].endswith(" (PIN-01 follows from it)")
    assert len(head) == 2, "what only warned, or failed in the suite, is no failure"


def test_the_headline_follows_a_chain_to_its_root_and_survives_a_ring() -> None:
    def failed(rule: str, root: str | None) -> Verdict:
        return verdict(rule, Entry.MESSAGES, Status.FAIL, f"why {rule}", root=root)

    chain = (failed("PFX-01", None), failed("PFX-09", "PFX-01"), failed("PIN-01", "PFX-09"), failed("USE-01", None))
    assert wording.headline(run_report(chain)) == [
        "4 rules FAILED, from 2 roots:",
        "PFX-01: why PFX-01 (PFX-09, PIN-01 follow from it)",
        "USE-01: why USE-01",
    ]
    ring = (failed("PFX-01", "PFX-09"), failed("PFX-09", "PFX-01"))
    assert wording.headline(run_report(ring)) == [
        "2 rules FAILED, from 1 root:",
        "PFX-01: why PFX-01 (PFX-09 follows from it)",
    ]
    assert wording.headline(run_report((failed("USE-06", "USE-01"),))) == ["1 rule FAILED:", "USE-06: why USE-06"]


def test_what_is_open_for_one_reason_is_told_once() -> None:
    def said(rule: str, entry: Entry, status: Status, reason: str) -> Verdict:
        return verdict(rule, entry, status, reason)

    report = run_report(
        (
            *(said(rule, entry, Status.NOT_RUN, "needs --load") for rule in ("L2-01", "L2-02") for entry in Entry),
            said("USE-06", Entry.MESSAGES, Status.PASS, "fine"),
            said("USE-06", Entry.CHAT, Status.NOT_RUN, "needs --load"),
            said("STR-01", Entry.MESSAGES, Status.INCONCLUSIVE, "cut"),
        )
    )
    assert wording.open_groups(report) == [
        ("L2-01, L2-02, USE-06 on chat", "not run: needs --load"),
        ("STR-01 on messages", "inconclusive: cut"),
    ]


def test_a_rule_broken_on_one_entry_says_on_which() -> None:
    [result] = run_report(
        (
            verdict("USE-06", Entry.MESSAGES, Status.PASS, "fine"),
            verdict("USE-06", Entry.CHAT, Status.FAIL, "not so", root="USE-01"),
        )
    ).results
    assert wording.short_reason(result) == "consequence of USE-01: on chat: not so"


@pytest.mark.parametrize("code", list(ExitCode))
def test_every_exit_code_has_a_meaning(code: ExitCode) -> None:
    assert wording.exit_line(code, green()).startswith(f"exit {int(code)}: ")


@pytest.mark.parametrize("status", list(Status))
def test_every_status_has_a_short_form_that_fits_its_column(status: Status) -> None:
    assert 0 < len(wording.SHOWN_STATUS[status]) <= 12


def test_known_failures_are_told_as_failures_that_are_known() -> None:
    report = with_baseline()
    shown = {r.rule: wording.shown_status(r) for r in report.results}
    assert shown["PFX-02"] == "known fail"
    assert shown["PFX-09"] == "known warn"
    assert shown["PIN-01"] == "FAIL", "a consequence nobody listed is not known"
    assert "2 failed (1 known), 1 warned (1 known)" in wording.summary_line(report)
    assert [r.rule for r in wording.failures(report)][:2] == ["PFX-02", "PIN-01"]
    lines = wording.baseline_lines(report)
    assert [text.partition(":")[0].partition(" (")[0] for _, text in lines] == [
        "STALE",
        "known",
        "known",
        "not checked in this run",
    ]
    assert lines[0][0] == "USE-06 on chat"


def test_the_exit_line_never_calls_a_known_failure_a_pass() -> None:
    report = with_baseline()
    assert report.baseline is not None
    assert wording.exit_line(ExitCode.RED, report) == "exit 1: a MUST failed, and 1 stale baseline entry"
    rest = tuple(v for v in report.verdicts if v.rule != "PIN-01")
    only_stale = replace(report, verdicts=rest)
    assert (
        wording.exit_line(ExitCode.RED, only_stale)
        == "exit 1: 1 stale baseline entry: remove what is gone from the file"
    )
    fresh = replace(only_stale, baseline=replace(report.baseline, stale=()))
    assert wording.exit_line(ExitCode.GREEN, fresh) == (
        "exit 0: every MUST that was judged passed, but for 1 known failure; 1 of 61 rules were not run "
        "(what they need is said above)"
    )


def test_every_verdict_s_evidence_is_told_once() -> None:
    report = mixed()
    told = [v for r in wording.failures(report) for v in wording.told(r)]
    assert sorted(map(id, [*told, *wording.other_verdicts(report)])) == sorted(map(id, report.verdicts))


def test_shortened_cuts_at_a_word() -> None:
    assert wording.shortened("one two three", 13) == "one two three"
    assert wording.shortened("one two three", 10) == "one two…"


def test_control_characters_are_spelt_out() -> None:
    assert wording.printable("a\x1b[0m\tb\nc\r\x00\u202e") == "a\\x1b[0m\\tb\\nc\\r\\x00\\x202e"


def test_one_request_is_no_plural() -> None:
    assert [wording.requests(n) for n in (0, 1, 1200)] == ["0 requests", "1 request", "1,200 requests"]
