"""`--list-rules`."""

from __future__ import annotations

import pytest
from plugin_rig import Rig
from syrupy.assertion import SnapshotAssertion

from conformance.listing import rule_listing
from conformance.rules import RULES
from reference_gateway import FAULTS


@pytest.fixture
def rig(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(pytester, monkeypatch)


def test_the_listing_reads_well(snapshot: SnapshotAssertion) -> None:
    assert rule_listing(tuple(RULES.values()), 100) == snapshot


def test_every_rule_and_every_fault_is_named() -> None:
    text = " ".join(rule_listing(tuple(RULES.values()), 100).split())
    for rule in RULES.values():
        assert f"{rule.id} {rule.level} {rule.family}" in text
        assert rule.title in text
        assert f"a pass rests on: {rule.witness}" in text
    for fault in FAULTS.values():
        assert fault.name in text


def test_listing_sends_nothing_and_exits_0(rig: Rig) -> None:
    result = rig.run("--list-rules", "--rules", "PIN-*")
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"rule set *: 4 of {len(RULES)} rules", *(f"PIN-0{n} *" for n in range(1, 5))])
    assert rig.runs == []


def test_listing_rules_that_do_not_exist_is_a_usage_error(rig: Rig) -> None:
    assert rig.run("--list-rules", "--rules", "NO-*").ret == pytest.ExitCode.USAGE_ERROR
