"""The `prefixproof` command."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

import prefixproof_plugin
from conformance import RULE_SET, __version__, cli
from conformance.verdicts import ExitCode
from prefixproof_plugin import OPTIONS


def test_help_shows_our_options_and_every_exit_code(
    capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert text == snapshot
    for option in OPTIONS:
        assert f"  {option.short} " in text
    for code in ExitCode:
        assert f"\n  {int(code)} " in text
    assert "--prefixproof-" not in text
    assert max(map(len, text.splitlines())) <= cli.HELP_WIDTH


def test_version_names_the_suite_and_the_rule_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"prefixproof {__version__}, rule set {RULE_SET}\n"


@pytest.mark.parametrize("typed", [["-n", "2"], ["-n4"], ["--numprocesses=2"], ["--dist", "load"], ["--tx", "popen"]])
def test_a_run_in_several_processes_is_refused(typed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(typed) == pytest.ExitCode.USAGE_ERROR
    assert capsys.readouterr().err.startswith(f"ERROR: {typed[0]}: the suite sends each session once")


def test_settings_of_the_environment_do_not_apply_and_are_left_as_they_were(
    monkeypatch: pytest.MonkeyPatch, pytester: pytest.Pytester
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    monkeypatch.setenv("PYTEST_PLUGINS", "no_such_plugin")
    result = pytester.run(sys.executable, prefixproof_plugin.__file__, "--list-rules")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["rule set *"])
    with cli._without_foreign_settings():
        assert "PYTEST_ADDOPTS" not in os.environ
    assert os.environ["PYTEST_ADDOPTS"] == "--no-such-option"


def test_a_target_that_is_not_there_is_one_line_exit_10_and_a_report(tmp_path: Path) -> None:
    """The command as typed: no stand-in for the run, whose report must hold before anything was asked of a target."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        done = subprocess.run(
            [sys.executable, "-m", "conformance.cli", "--target", url, "--model", "m", "--report", str(tmp_path)],
            cwd=Path(cli.HERE).parent, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == ExitCode.TARGET, done.stdout + done.stderr
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["problem"].startswith(f"{url} does not answer")
    assert (report["rules"], report["exit"]["code"]) == ([], ExitCode.TARGET)
