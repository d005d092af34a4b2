"""The Makefile and `.ci/run`, as far as they can be tried without installing anything."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TARGETS = (
    *("conformance", "test", "lint", "format", "matrix", "visibility", "aa", "load", "incident", "targets"),
    *("engine-vllm", "test-vllm", "lock", "clean", "help"),
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with no environment in it yet."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make as from a fresh shell: `make test ARGS=...` exports its own variables to what it starts, these tests."""
    own = set(re.findall(r"^(\w+) *[?:]?=", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    inherited = own | {"MAKEFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "MFLAGS", "GNUMAKEFLAGS", "MAKEFILES"}
    clean = {name: value for name, value in os.environ.items() if name not in inherited}
    return subprocess.run(
        ["make", *arguments], cwd=folder, env=clean, capture_output=True, text=True, timeout=60, check=False
    )


def test_help_is_the_default_and_names_every_target(checkout: Path) -> None:
    result = make(checkout)
    assert result.returncode == 0, result.stderr
    assert re.findall(r"^  make ([a-z-]+) ", result.stdout, re.MULTILINE) == list(TARGETS[-1:] + TARGETS[:-1])
    assert not (checkout / ".venv").exists()


def test_a_missing_python_is_named_with_what_to_do(checkout: Path) -> None:
    result = make(checkout, "test", "PYTHON=python-that-is-not-there")
    assert result.returncode != 0
    assert "python-that-is-not-there not found: install Python 3.11 or later, or name one" in result.stderr


def test_conformance_passes_the_target_and_the_arguments_on(checkout: Path) -> None:
    result = make(checkout, "-n", "conformance", "TARGET=http://gw:3000/a?b&c", "ARGS=--model 'my model'")
    assert result.stdout.splitlines()[-1] == ".venv/bin/prefixproof --target 'http://gw:3000/a?b&c' --model 'my model'"


def test_without_a_target_none_is_named(checkout: Path) -> None:
    assert make(checkout, "-n", "conformance").stdout.splitlines()[-1].split() == [".venv/bin/prefixproof"]


def test_what_an_outer_make_exports_does_not_reach_the_inner_one(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ARGS", "TARGET", "TARGETS", "VENV", "SEEDS"):
        monkeypatch.setenv(name, "of-the-outer-make")
    monkeypatch.setenv("MAKEFLAGS", "-n -- ARGS=of-the-outer-make")
    monkeypatch.setenv("MAKEOVERRIDES", "ARGS=of-the-outer-make")
    for target in ("conformance", "test", "matrix", "targets"):
        assert "of-the-outer-make" not in make(checkout, "-n", target).stdout


@pytest.mark.parametrize(
    ("target", "command"),
    [("matrix", "python -m conformance.matrix --seeds 3"), ("aa", "python -m conformance.aa")],
)
def test_the_long_proofs_take_their_arguments(checkout: Path, target: str, command: str) -> None:
    assert f".venv/bin/{command}" in make(checkout, "-n", target, "SEEDS=3").stdout


def test_some_targets_can_be_named(checkout: Path) -> None:
    result = make(checkout, "-n", "targets", "TARGETS=litellm-1.108.7 ccr-2.0.0", "ARGS=--budget quick")
    assert result.stdout.splitlines()[-1] == (
        ".venv/bin/python tests/targets/run_targets.py litellm-1.108.7 ccr-2.0.0 --budget quick"
    )


def test_real_vllm_is_installed_and_tested_only_when_asked_for(checkout: Path) -> None:
    assert "engine.vllm.install" in make(checkout, "-n", "engine-vllm").stdout
    assert make(checkout, "-n", "test-vllm", "ARGS=-x").stdout.splitlines()[-1] == (
        "PREFIXPROOF_TEST_VLLM=1 .venv/bin/pytest tests/vllm -q -x"
    )
    for target in ("test", "conformance", "lint", "matrix", "targets"):
        assert "vllm" not in make(checkout, "-n", target).stdout


def test_the_environment_is_made_again_when_what_it_is_made_from_changes(checkout: Path) -> None:
    def stamp() -> str:
        [name] = set(re.findall(r"\.venv/\.made-from-\w+", make(checkout, "-n", "test").stdout))
        return str(name)

    before = stamp()
    assert stamp() == before
    with (checkout / "requirements.lock").open("a") as lock:
        lock.write("something==1\n")
    assert stamp() != before


def test_ci_runs_lint_tests_and_suite_in_this_order() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    text = script.read_text(encoding="utf-8")
    assert text.startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in text
    assert re.findall(r"^make (\w+)$", text, re.MULTILINE) == ["lint", "test", "conformance"]
