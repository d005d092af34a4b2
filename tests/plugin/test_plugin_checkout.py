"""Plain `pytest` in the checkout, installed or not: the suite; with paths: those."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.rules import RULES
from prefixproof_plugin import ROOT

CASES = sum(len(rule.entries) for rule in RULES.values())


CONFTEST_ONLY = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""The plugin comes from the root conftest, as in a checkout that is not installed."""

BOTH_WAYS = pytest.mark.parametrize("environment", [{}, CONFTEST_ONLY], ids=["as it is", "by conftest"])


def collect(environment: dict[str, str], *arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def cases(result: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in result.stdout.splitlines() if "::" in line]


@BOTH_WAYS
def test_plain_pytest_is_the_suite(environment: dict[str, str]) -> None:
    result = collect(environment, "--collect-only")
    assert result.returncode == 0, result.stderr
    assert len(cases(result)) == CASES
    assert all("cache_tests" in line or "usage_tests" in line for line in cases(result))


@BOTH_WAYS
def test_a_target_is_judged_from_any_folder(environment: dict[str, str]) -> None:
    result = collect(environment, "--collect-only", "--target", "http://127.0.0.1:9", folder=ROOT / "docs")
    assert result.returncode == 0, result.stderr
    assert len(cases(result)) == CASES


def test_a_path_inside_the_suite_narrows_it() -> None:
    result = collect(CONFTEST_ONLY, "--collect-only", "conformance/usage_tests")
    assert result.returncode == 0, result.stderr
    assert 0 < len(cases(result)) < CASES
    assert all("usage_tests" in line for line in cases(result))


def test_the_projects_own_tests_are_left_alone() -> None:
    result = collect(CONFTEST_ONLY, "-q", "tests/plugin/test_casebook.py", "-k", "unknown")
    assert result.returncode == 0, result.stdout
    assert "1 passed" in result.stdout


@BOTH_WAYS
def test_the_suite_and_other_tests_do_not_share_a_run(environment: dict[str, str]) -> None:
    result = collect(environment, "tests/plugin/test_casebook.py", "conformance")
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert "the suite and other tests cannot share a run" in result.stderr


def test_own_tests_with_a_target_are_a_usage_error() -> None:
    result = collect(CONFTEST_ONLY, "--target", "http://127.0.0.1:9", "tests")
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert "tests is not part of the suite" in result.stderr
