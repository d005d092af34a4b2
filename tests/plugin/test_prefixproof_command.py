"""The `prefixproof` command."""

from __future__ import annotations

import os
import sys

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
