"""Runs that never get to judging: problems of the target, of the suite and of the command line."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from plugin_rig import Outcomes, Rig, outcomes, verdict

from conformance import plugin
from conformance.errors import SuiteProblem, TargetProblem, UsageProblem
from conformance.verdicts import Entry, ExitCode, Status


@pytest.fixture
def rig(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(pytester, monkeypatch)


def test_a_target_problem_is_one_line_and_exit_10(rig: Rig) -> None:
    rig.prototype = replace(rig.prototype, preflight_error=TargetProblem("http://gw:1 refuses the connection"))
    result = rig.run()
    assert result.ret == ExitCode.TARGET
    assert outcomes(result) == Outcomes()
    result.stdout.fnmatch_lines(["problem *http://gw:1 refuses the connection", "exit 10: *"])
    assert rig.last.closed


def test_a_suite_problem_is_one_line_and_exit_11(rig: Rig) -> None:
    rig.prototype = replace(rig.prototype, preflight_error=SuiteProblem("the embedded pair did not start"))
    result = rig.run()
    assert result.ret == ExitCode.SUITE
    result.stdout.fnmatch_lines(["problem *the embedded pair did not start", "exit 11: *"])


def test_an_unexpected_error_of_the_preflight_keeps_its_traceback_for_who_asks(rig: Rig) -> None:
    rig.prototype = replace(rig.prototype, preflight_error=ZeroDivisionError("half a token"))
    quiet = rig.run()
    assert quiet.ret == ExitCode.SUITE
    quiet.stdout.fnmatch_lines(["problem *ZeroDivisionError: half a token"])
    assert "Traceback" not in quiet.stdout.str() + quiet.stderr.str()
    loud = rig.run("--tb=short")
    assert loud.ret == ExitCode.SUITE
    assert "plugin_rig.py" in loud.stdout.str() + loud.stderr.str()


def test_a_usage_problem_found_late_is_still_a_usage_error(rig: Rig) -> None:
    rig.prototype = replace(rig.prototype, preflight_error=UsageProblem("--engine and --target are the same"))
    result = rig.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --engine and --target are the same"])


def test_a_run_that_cannot_even_be_made_is_reported_too(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(options: object) -> object:
        raise OSError(f"no room for {type(options).__name__}")

    monkeypatch.setattr(plugin, "make_run", broken)
    result = rig.run("--report", str(tmp_path / "out"))
    assert result.ret == ExitCode.SUITE
    assert '"problem": "OSError: no room for RunOptions"' in (tmp_path / "out" / "report.json").read_text()


def test_cases_that_cannot_be_read_are_a_suite_error(rig: Rig) -> None:
    rig.write("import no_such_module\n", "test_broken.py")
    result = rig.run()
    assert result.ret == ExitCode.SUITE
    assert rig.runs == []


def test_a_case_without_a_rule_is_a_suite_error(rig: Rig) -> None:
    rig.write("def test_nothing():\n    pass\n", "test_stray.py")
    result = rig.run()
    assert result.ret == ExitCode.SUITE
    result.stdout.fnmatch_lines(["problem *test_nothing has no @rule(...): it judges nothing"])
    assert rig.runs == []


def test_a_rule_no_case_judges_is_a_suite_error(rig: Rig) -> None:
    rig.write("@pytest.mark.rule('PFX-01')\ndef test_one(observed, judge):\n    observed('PFX-01', judge)\n")
    result = rig.run("--rules", "PFX-0*")
    assert result.ret == ExitCode.SUITE
    result.stdout.fnmatch_lines(
        ["problem *no case judges PFX-02, PFX-03, PFX-04, PFX-05, PFX-06, PFX-07, PFX-08, PFX-09"]
    )


def test_nothing_selected_is_never_green(rig: Rig) -> None:
    assert rig.run("-k", "no_such_case").ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert rig.run("--entry", "chat", "--rules", "PFX-02").ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert rig.runs == []


def test_an_interrupted_run_says_what_it_saw_and_names_the_code_it_ends_with(rig: Rig, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = rig.run("--report", str(out), script={("USE-01", Entry.MESSAGES): KeyboardInterrupt()})
    assert result.ret == ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["CON-01  pass *", "exit 2: interrupted: *"])
    assert "exit 12" not in result.stdout.str()
    written = json.loads((out / "report.json").read_text())
    assert (written["exit"]["code"], written["exit"]["name"]) == (2, "interrupted")
    assert ", exit 2</title>" in (out / "report.html").read_text()
    assert rig.last.closed


def test_an_interrupt_before_anything_is_judged_names_its_code_too(rig: Rig) -> None:
    rig.prototype = replace(rig.prototype, preflight_error=KeyboardInterrupt())
    result = rig.run()
    assert result.ret == ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["exit 2: interrupted: *"])


def test_a_stop_of_pytests_own_or_of_a_plugin_ends_with_the_code_that_is_printed(rig: Rig) -> None:
    def leave(_: object) -> None:
        pytest.exit("enough", returncode=7)

    result = rig.run(script={("USE-01", Entry.MESSAGES): leave})
    printed = re.findall(r"^exit (\d+): ", result.stdout.str(), re.MULTILINE)
    assert printed == [str(int(result.ret))]
    first_failure = verdict("CON-01", Entry.MESSAGES, Status.FAIL)
    result = rig.run("-x", script={("CON-01", Entry.MESSAGES): first_failure})
    assert result.ret == ExitCode.RED
    result.stdout.fnmatch_lines(["exit 1: *"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--no-such-option"], "*unrecognized arguments: --no-such-option*"),
        (["--target"], "*argument --target: expected one argument*"),
        (["--fault", "no-such"], "*--fault no-such: no such fault; known are *keep-billing-header*"),
        (["--rules", "XYZ-*"], "*--rules XYZ-*: no rule has such an id*"),
        (["somewhere/else.py"], "*somewhere/else.py is not part of the suite*"),
        (["cases/missing.py"], "*cases/missing.py does not exist*"),
    ],
)
def test_a_wrong_command_line_exits_4_and_says_why(rig: Rig, arguments: list[str], message: str) -> None:
    result = rig.run(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])
    assert rig.runs == []
