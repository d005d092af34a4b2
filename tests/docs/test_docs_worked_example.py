"""CONTRIBUTING's worked example, applied to a copy of the project: the matrix must agree with it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from docs_text import ROOT, blocks

from conformance.rules import RULES
from reference_gateway import FAULTS

RULE, FAULT = "PIN-04", "cached-twice"
COPIED = ("conformance", "engine", "reference_gateway", "prefixproof_plugin.py")


def append(path: Path, text: str) -> None:
    path.write_text(f"{path.read_text(encoding='utf-8')}\n\n{text}", encoding="utf-8")


def insert(path: Path, behind: str, text: str) -> None:
    before = path.read_text(encoding="utf-8")
    assert before.count(behind) == 1, behind
    path.write_text(before.replace(behind, behind + text), encoding="utf-8")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The project with the rule and its fault added, block by block."""
    assert RULE not in RULES, "the example's rule exists: give CONTRIBUTING.md another example"
    assert FAULT not in FAULTS
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tmp_path / name)
    [registry] = blocks("CONTRIBUTING.md", "toml")
    judgement, case, mutation, entry, _ = blocks("CONTRIBUTING.md", "python")
    append(tmp_path / "conformance" / "rules.toml", registry)
    pinned = tmp_path / "conformance" / "judgements" / "pinned.py"
    insert(pinned, "from __future__ import annotations\n", "\nfrom conformance.judgements.verdict import evidence\n")
    append(pinned, judgement)
    append(tmp_path / "conformance" / "cache_tests" / "test_pinned.py", case)
    faults = tmp_path / "reference_gateway" / "faults"
    append(faults / "usage.py", mutation)
    insert(faults / "__init__.py", "_ALL = (\n", entry)
    return tmp_path


def test_the_matrix_agrees_with_the_worked_example(copy: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "conformance.matrix", "--fault", FAULT],
        cwd=copy, env={"PATH": "", "PYTHONPATH": str(copy)}, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.endswith("observed = declared\n")
    [row] = re.findall(rf"^{FAULT} +(.*)$", run.stdout, re.MULTILINE)
    [head] = re.findall(r"^ +((?:[A-Z][A-Z0-9]+-\d\d ?)+)$", run.stdout, re.MULTILINE)
    assert [rule for rule, mark in zip(head.split(), row.split(), strict=True) if mark == "X"] == [RULE]
