"""`--baseline` and `--write-baseline`: from the command line to the exit code and the reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from plugin_rig import Outcomes, Rig, Script, outcomes, verdict

from conformance.rules import RULES
from conformance.verdicts import Entry, ExitCode, Status

CASES = sum(len(rule.entries) for rule in RULES.values())
FAILS: Script = {
    ("PFX-02", Entry.MESSAGES): verdict("PFX-02", Entry.MESSAGES, Status.FAIL, "it stays", code="attribution-kept"),
}
OTHERWISE: Script = {
    ("PFX-02", Entry.MESSAGES): verdict("PFX-02", Entry.MESSAGES, Status.FAIL, "it stays", code="another-way"),
}


@pytest.fixture
def rig(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(pytester, monkeypatch)


@pytest.fixture
def known(tmp_path: Path) -> str:
    path = tmp_path / "known.toml"
    path.write_text(
        '[[known]]\nrule = "PFX-02"\nentry = "messages"\ncode = "attribution-kept"\nreason = "ticket 7"\n',
        encoding="utf-8",
    )
    return str(path)


def test_a_known_failure_is_shown_and_fails_nothing(rig: Rig, known: str, tmp_path: Path) -> None:
    result = rig.run("--baseline", known, "--report", str(tmp_path / "out"), script=FAILS)
    assert result.ret == ExitCode.GREEN
    assert outcomes(result) == Outcomes(passed=CASES - 1, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "PFX-02  known fail *",
            "PFX-02 known fail: *",
            "  PFX-02 on messages  known (attribution-kept): ticket 7",
            f"green for {len(RULES) - 1} of {len(RULES)} rules; 1 failed (1 known)",
            "exit 0: every MUST that was judged passed, but for 1 known failure",
        ]
    )
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["exit"]["code"] == 0
    assert report["baseline"]["seen"][0]["reason"] == "ticket 7"


def test_the_same_run_without_the_file_fails(rig: Rig) -> None:
    assert rig.run(script=FAILS).ret == ExitCode.RED


def test_another_failure_code_is_never_hidden(rig: Rig, known: str) -> None:
    result = rig.run("--baseline", known, script=OTHERWISE)
    assert result.ret == ExitCode.RED
    result.stdout.fnmatch_lines(
        [
            "PFX-02  FAIL *",
            "  PFX-02 on messages  STALE: it fails as another-way instead*",
            "exit 1: a MUST failed, and 1 stale baseline entry",
        ]
    )


def test_a_stale_entry_fails_a_run_that_is_otherwise_green(rig: Rig, known: str) -> None:
    result = rig.run("--baseline", known)
    assert result.ret == ExitCode.RED
    assert outcomes(result) == Outcomes(passed=CASES)
    result.stdout.fnmatch_lines(["*STALE: it passes*", "exit 1: 1 stale baseline entry: remove what is gone*"])


def test_an_entry_of_a_rule_that_was_not_asked_for_is_not_stale(rig: Rig, known: str) -> None:
    result = rig.run("--baseline", known, "--rules", "USE-*")
    assert result.ret == ExitCode.GREEN
    result.stdout.fnmatch_lines(["*not checked in this run (attribution-kept): ticket 7"])


def test_a_missing_file_is_a_usage_error_before_anything_is_sent(rig: Rig) -> None:
    result = rig.run("--baseline", "none.toml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --baseline none.toml: cannot be read (No such file or directory)*"])
    assert rig.runs == []


def test_a_written_baseline_makes_the_next_run_green(rig: Rig, tmp_path: Path) -> None:
    path = tmp_path / "fresh.toml"
    first = rig.run("--write-baseline", str(path), script=FAILS)
    assert first.ret == ExitCode.RED, "writing the file excuses nothing in the run that wrote it"
    first.stdout.fnmatch_lines(["baseline: 1 known failures in *fresh.toml"])
    assert rig.run("--baseline", str(path), script=FAILS).ret == ExitCode.GREEN


def test_a_run_that_ended_early_writes_no_baseline(rig: Rig, tmp_path: Path) -> None:
    path = tmp_path / "fresh.toml"
    script: Script = {("PFX-02", Entry.MESSAGES): ZeroDivisionError("half a token")}
    assert rig.run("--write-baseline", str(path), "-x", script=script).ret == ExitCode.SUITE
    assert not path.exists()


def test_a_baseline_cannot_be_written_into_nowhere(rig: Rig) -> None:
    result = rig.run("--write-baseline", "none/known.toml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --write-baseline known.toml: not a file in a folder that exists"])
