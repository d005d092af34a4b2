"""docs/rules.md is the registry, written out."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs_text import read

from conformance.listing import main, rule_book
from conformance.rules import RULES
from reference_gateway import FAULTS


def test_the_document_is_up_to_date() -> None:
    assert read("docs/rules.md") == rule_book(), "python -m conformance.listing --write docs/rules.md"


def test_every_rule_and_every_fault_stands_in_it() -> None:
    text = rule_book()
    assert all(f"\n## {rule}\n" in text for rule in RULES)
    assert all(f"`{fault}`" in text for fault in FAULTS)


def test_it_is_written_and_printed_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--write", str(tmp_path / "rules.md")]) == 0
    assert main([]) == 0
    assert capsys.readouterr().out == (tmp_path / "rules.md").read_text(encoding="utf-8")
