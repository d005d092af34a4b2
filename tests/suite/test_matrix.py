"""The suite proves itself: a fault breaks what it declares and nothing else; no rule can be taken out unseen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from conformance.casebook import load_cases
from conformance.matrix import Cell, declared, disagreements, run_cell, table
from conformance.rules import RULES
from conformance.verdicts import Status
from reference_gateway import FAULTS


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    return [run_cell(fault) for fault in (None, *FAULTS)]


def without(rule: str, cells: Sequence[Cell]) -> list[Cell]:
    """The cells as they would be if `rule`'s judgement always said pass."""
    return [replace(cell, verdicts=tuple(v for v in cell.verdicts if v.rule != rule)) for cell in cells]


def test_every_rule_has_its_case() -> None:
    assert list(load_cases()) == list(RULES)


def test_observed_equals_declared(cells: list[Cell]) -> None:
    assert disagreements(cells) == []


def test_the_clean_pair_passes_everything(cells: list[Cell]) -> None:
    clean = cells[0]
    assert [(v.rule, v.entry, v.status, v.reason) for v in clean.verdicts if v.status is not Status.PASS] == []
    assert {v.rule for v in clean.verdicts} == set(RULES)
    assert all(v.n > 0 for v in clean.verdicts)


def test_every_failure_has_a_code_a_baseline_can_name(cells: list[Cell]) -> None:
    failed = [v for cell in cells for v in cell.verdicts if v.status in (Status.FAIL, Status.WARN)]
    assert failed
    assert [(v.rule, v.reason) for v in failed if not v.code] == []


def test_a_pass_shows_the_numbers_it_rests_on(cells: list[Cell]) -> None:
    """STR-04 speaks of one field of one request: there is nothing to put into a table."""
    bare = {v.rule for v in cells[0].verdicts if not any(table.rows for table in v.tables)}
    assert bare <= {"STR-04"}


@pytest.mark.parametrize("rule", list(RULES))
def test_a_neutralised_rule_turns_the_matrix_red(rule: str, cells: list[Cell]) -> None:
    assert any(f"declares {rule}," in line for line in disagreements(without(rule, cells)))


def test_no_two_rules_have_the_same_declared_faults() -> None:
    columns = {r: frozenset(f.name for f in FAULTS.values() if r in declared(f, "tools-first")) for r in RULES}
    assert all(columns.values()), "a rule that no fault breaks proves nothing"
    assert len(set(columns.values())) == len(RULES), columns


def test_a_cell_is_cheap(cells: list[Cell]) -> None:
    """Budget: 1.5 s of CPU a cell (design 3). The first cell also imports both SDKs."""
    middle = sorted(cell.cpu for cell in cells)[len(cells) // 2]
    assert middle <= 1.5


def test_root_and_consequence(cells: list[Cell]) -> None:
    kept = next(cell for cell in cells if cell.fault == "keep-billing-header")
    pinned = next(v for v in kept.verdicts if v.rule == "PIN-01" and v.status is Status.FAIL)
    assert pinned.root == "PFX-02"
    assert next(v for v in kept.verdicts if v.rule == "PFX-02").root is None


def test_matrix_reads(cells: list[Cell], snapshot: SnapshotAssertion) -> None:
    assert table(cells) == snapshot
