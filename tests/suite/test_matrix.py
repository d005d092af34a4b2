"""The suite proves itself: a fault breaks what it declares and nothing else; no rule can be taken out unseen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from matrix_cells import all_cells
from syrupy.assertion import SnapshotAssertion

from conformance.casebook import load_cases, running_order
from conformance.matrix import Cell, declared, disagreements, table
from conformance.rules import RULES
from conformance.verdicts import Status
from reference_gateway import FAULTS


@pytest.fixture
def cells() -> list[Cell]:
    return list(all_cells())


JUDGED = [rule.id for rule in RULES.values() if not rule.needs_load]


def without(rule: str, cells: Sequence[Cell]) -> list[Cell]:
    """The cells as they would be if `rule`'s judgement always said pass."""
    return [replace(cell, verdicts=tuple(v for v in cell.verdicts if v.rule != rule)) for cell in cells]


def test_every_rule_has_its_case() -> None:
    assert list(load_cases()) == sorted(RULES, key=running_order)


def test_observed_equals_declared(cells: list[Cell]) -> None:
    assert disagreements(cells) == []


def test_the_clean_pair_passes_everything(cells: list[Cell]) -> None:
    clean = cells[0]
    judged = [v for v in clean.verdicts if v.rule in JUDGED]
    assert [(v.rule, v.entry, v.status, v.reason) for v in judged if v.status is not Status.PASS] == []
    assert {v.rule for v in clean.verdicts} == set(RULES)
    assert all(v.n > 0 for v in judged)


def test_every_failure_has_a_code_a_baseline_can_name(cells: list[Cell]) -> None:
    failed = [v for cell in cells for v in cell.verdicts if v.status in (Status.FAIL, Status.WARN)]
    assert failed
    assert [(v.rule, v.reason) for v in failed if not v.code] == []


def test_every_failure_shows_a_request_and_its_answer(cells: list[Cell]) -> None:
    failed = [v for cell in cells for v in cell.verdicts if v.status in (Status.FAIL, Status.WARN)]
    assert {(v.rule, v.code) for v in failed if not v.excerpts} == set()


def test_every_verdict_shows_the_requests_it_rests_on(cells: list[Cell]) -> None:
    judged = [v for cell in cells for v in cell.verdicts if v.status.judged]
    bare = {(v.rule, v.status) for v in judged if v.n < 1 or not any(table.rows for table in v.tables)}
    assert bare == set()


def test_rules_that_need_load_say_so_and_count_for_nothing(cells: list[Cell]) -> None:
    waiting = [v for v in cells[0].verdicts if v.rule not in JUDGED]
    assert {v.rule for v in waiting} == {"AFF-01", *(f"L2-0{n}" for n in range(1, 8))}
    assert {(v.status, v.reason) for v in waiting} == {(Status.NOT_RUN, "needs --load")}


@pytest.mark.parametrize("rule", JUDGED)
def test_a_neutralised_rule_turns_the_matrix_red(rule: str, cells: list[Cell]) -> None:
    assert any(f"declares {rule}," in line for line in disagreements(without(rule, cells)))


def test_no_two_rules_have_the_same_declared_faults() -> None:
    columns = {r: frozenset(f.name for f in FAULTS.values() if r in declared(f, "tools-first")) for r in JUDGED}
    assert all(columns.values()), "a rule that no fault breaks proves nothing"
    assert len(set(columns.values())) == len(JUDGED), columns


def test_a_cell_is_cheap(cells: list[Cell]) -> None:
    """Budget: 1.5 s of CPU a cell (design 3)."""
    middle = sorted(cell.cpu for cell in cells)[len(cells) // 2]
    assert middle <= 1.5


def test_root_and_consequence(cells: list[Cell]) -> None:
    kept = next(cell for cell in cells if cell.fault == "keep-billing-header")
    pinned = next(v for v in kept.verdicts if v.rule == "PIN-01" and v.status is Status.FAIL)
    assert pinned.root == "PFX-02"
    assert next(v for v in kept.verdicts if v.rule == "PFX-02").root is None


def test_matrix_reads(cells: list[Cell], snapshot: SnapshotAssertion) -> None:
    assert table(cells) == snapshot
