"""A verdict as pytest sees it, and the exit code of the run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plugin_rig import Outcomes, Rig, Script, outcomes, verdict

from conformance import case_run, plugin
from conformance.errors import SendingStopped, SuiteProblem, TargetProblem
from conformance.options import RunOptions
from conformance.rules import RULES
from conformance.verdicts import Change, Entry, ExitCode, Status

CASES = sum(len(rule.entries) for rule in RULES.values())
MESSAGES, CHAT = Entry.MESSAGES, Entry.CHAT


@pytest.fixture
def rig(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(pytester, monkeypatch)


def test_every_rule_is_judged_once_on_each_entry_and_a_clean_run_exits_0(rig: Rig) -> None:
    result = rig.run()
    assert outcomes(result) == Outcomes(passed=CASES)
    assert result.ret == ExitCode.GREEN
    judged = [(v.rule, v.entry) for v in rig.last.verdicts]
    assert sorted(judged) == sorted((rule.id, entry) for rule in RULES.values() for entry in rule.entries)
    assert rig.last.preflights == 1
    assert rig.last.closed
    result.stdout.fnmatch_lines([f"green for {len(RULES)} of {len(RULES)} rules", "exit 0: *"])


def test_a_failed_must_fails_the_test_with_a_short_explanation_and_no_traceback(rig: Rig) -> None:
    change = Change("system text", 0, "cch=1", "cch=2", "attribution block")
    failed = verdict("PFX-02", MESSAGES, Status.FAIL, "a new cch in each request", code="kept", change=change)
    result = rig.run("--tb=long", script={("PFX-02", MESSAGES): failed})
    assert outcomes(result) == Outcomes(passed=CASES - 1, failed=1)
    assert result.ret == ExitCode.RED
    result.stdout.fnmatch_lines(
        [
            "PFX-02 FAIL on messages: the attribution block stays out of the prompt",
            "  a new cch in each request",
            "  changed: system text, from character 0: attribution block",
            "    before | cch=1",
            "    after  | cch=2",
            "  remedy: Drop system blocks *",
        ]
    )
    result.stdout.no_fnmatch_line("*case_run.py*")
    result.stdout.no_fnmatch_line("*test_cases.py:*")


def test_a_warning_passes_and_stands_in_the_table(rig: Rig) -> None:
    result = rig.run(script={("STR-03", MESSAGES): verdict("STR-03", MESSAGES, Status.WARN, "half the truth")})
    assert outcomes(result) == Outcomes(passed=CASES)
    assert result.ret == ExitCode.GREEN
    result.stdout.fnmatch_lines(["STR-03  WARN *", "*half the truth*"])


def test_a_failed_should_is_a_warning(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RULES, "STR-03", replace(RULES["STR-03"], level="SHOULD"))
    result = rig.run(script={("STR-03", MESSAGES): verdict("STR-03", MESSAGES, Status.FAIL)})
    assert result.ret == ExitCode.GREEN
    assert [v.status for v in rig.last.verdicts if v.rule == "STR-03"] == [Status.WARN]


@pytest.mark.parametrize("status", [Status.INCONCLUSIVE, Status.NOT_RUN, Status.NOT_APPLICABLE])
def test_what_was_not_judged_is_skipped_with_its_reason(rig: Rig, status: Status) -> None:
    result = rig.run("-rs", script={("PFX-01", CHAT): verdict("PFX-01", CHAT, status, "needs the upstream vantage")})
    assert outcomes(result) == Outcomes(passed=CASES - 1, skipped=1)
    assert result.ret == ExitCode.GREEN
    result.stdout.fnmatch_lines([f"SKIPPED*{status}: needs the upstream vantage"])
    result.stdout.fnmatch_lines([f"  PFX-01 on chat: {status}: needs the upstream vantage"])


def test_a_family_with_no_must_judged_makes_the_run_incomplete(rig: Rig) -> None:
    usage: Script = {
        (rule.id, entry): verdict(rule.id, entry, Status.INCONCLUSIVE)
        for rule in RULES.values()
        for entry in rule.entries
        if rule.family == "usage"
    }
    assert rig.run(script=usage).ret == ExitCode.INCOMPLETE
    assert rig.run("--allow-unjudged", "usage", script=usage).ret == ExitCode.GREEN


def test_an_exception_is_a_suite_error_in_one_line_with_the_traceback_left_to_pytest(rig: Rig) -> None:
    script: Script = {("USE-01", MESSAGES): KeyError("usage\nof sk-abcdefghijkl")}
    result = rig.run(script=script)
    assert outcomes(result) == Outcomes(passed=CASES - 1, failed=1)
    assert result.ret == ExitCode.SUITE
    [error] = [v for v in rig.last.verdicts if v.status is Status.ERROR]
    assert (error.rule, error.entry) == ("USE-01", MESSAGES)
    assert error.reason.startswith("KeyError: ")
    assert "sk-abc" not in error.reason
    result.stdout.no_fnmatch_line("*plugin_rig.py*")
    result.stdout.fnmatch_lines(["USE-01  SUITE ERROR *", "*hint *--tb=short*"])
    rig.run("--tb=short", script=script).stdout.fnmatch_lines(["*plugin_rig.py:*", "E *KeyError*"])


def test_a_case_without_a_verdict_is_a_suite_error(rig: Rig) -> None:
    result = rig.run(script={("USE-01", MESSAGES): lambda _: None})
    assert result.ret == ExitCode.SUITE
    result.stdout.fnmatch_lines(["*the case of USE-01 on messages ended without a verdict*"])


@pytest.mark.parametrize(
    "second",
    [
        verdict("USE-01", MESSAGES, Status.PASS),
        verdict("USE-06", MESSAGES, Status.PASS),
        verdict("USE-01", CHAT, Status.PASS),
    ],
)
def test_a_second_or_foreign_verdict_is_a_suite_error(rig: Rig, second: object) -> None:
    def judge_twice(judge: object) -> None:
        assert callable(judge)
        judge(verdict("USE-01", MESSAGES, Status.PASS))
        judge(second)

    result = rig.run(script={("USE-01", MESSAGES): judge_twice})
    assert result.ret == ExitCode.SUITE
    assert [v.status for v in rig.last.verdicts if v.rule == "USE-01"] == [Status.PASS, Status.ERROR]


def test_sending_stopped_leaves_the_case_undecided(rig: Rig) -> None:
    result = rig.run(script={("*", MESSAGES): SendingStopped("the token budget is used up")})
    assert result.ret == ExitCode.GREEN  # chat alone judged a MUST of both families
    stopped = [v for v in rig.last.verdicts if v.entry is MESSAGES]
    assert {v.status for v in stopped} == {Status.INCONCLUSIVE}
    assert {v.reason for v in stopped} == {"the token budget is used up"}


def test_a_target_lost_on_the_way_ends_the_run_with_exit_10(rig: Rig) -> None:
    result = rig.run(script={("PIN-01", MESSAGES): TargetProblem("the target stopped answering")})
    assert result.ret == ExitCode.TARGET
    result.stdout.fnmatch_lines(["problem *the target stopped answering", "exit 10: *"])
    after = [v for v in rig.last.verdicts if v.rule.startswith("STR")]
    assert {v.status for v in after} == {Status.INCONCLUSIVE}


def test_an_observation_that_fails_is_a_suite_error_of_each_of_its_cases(rig: Rig) -> None:
    result = rig.run(script={("*", CHAT): SuiteProblem("the recorder is gone")})
    assert result.ret == ExitCode.SUITE
    on_chat = [v for v in rig.last.verdicts if v.entry is CHAT]
    assert {(v.status, v.reason) for v in on_chat} == {(Status.ERROR, "the recorder is gone")}


def test_an_entry_the_target_lacks_is_not_applicable(rig: Rig) -> None:
    rig.prototype = replace(rig.prototype, entries=(CHAT,))
    rig.run("--allow-unjudged", "usage")
    lacking = [v for v in rig.last.verdicts if v.entry is MESSAGES]
    assert {v.status for v in lacking} == {Status.NOT_APPLICABLE}
    assert {v.reason for v in lacking} == {"the target has no /v1/messages"}
    assert MESSAGES not in rig.last.asked


def test_a_failure_outside_every_judgement_is_never_green(rig: Rig) -> None:
    rig.write(
        "@pytest.fixture(autouse=True)\ndef breaks():\n    yield\n    raise RuntimeError('teardown')\n"
        + "".join(
            f"@pytest.mark.rule({rule!r})\ndef test_{n}(observed, judge): observed({rule!r}, judge)\n"
            for n, rule in enumerate(RULES)
        )
    )
    result = rig.run()
    assert {v.status for v in rig.last.verdicts} == {Status.PASS}
    assert result.ret == ExitCode.SUITE


def test_one_line_keeps_an_error_short() -> None:
    session = case_run.SuiteSession(RunOptions())
    assert len(session.one_line(ValueError("word " * 1000))) == case_run.LONGEST_ERROR
    assert session.one_line(ValueError()) == "ValueError"
    assert session.one_line(TargetProblem("no\n answer")) == "no answer"


def test_the_rig_stands_where_the_real_run_would(rig: Rig) -> None:
    assert plugin.make_run is not None
    rig.run("--seed", "5", "--target", "http://127.0.0.1:9", "--model", "x")
    assert rig.last.options.seed == 5
    assert rig.last.options.target == "http://127.0.0.1:9"
