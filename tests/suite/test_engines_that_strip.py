"""vLLM from 0.32 on drops the attribution line itself: bytes still tell of the gateway, counts cannot."""

from __future__ import annotations

import pytest
from suite_targets import Judged, Target, judge

from conformance.options import Budget
from conformance.report.wording import told
from conformance.verdicts import Entry, ExitCode, Status, by_rule
from conformance.wire.engine_version import VllmVersion


def attribution(version: str, *, strips: bool, recorder: bool, direct: bool = False) -> Judged:
    target = Target(strips=strips, vllm=version)
    budget = Budget.QUICK if recorder else Budget.STANDARD
    return judge(target, recorder=recorder, direct=direct, budget=budget, entries=(Entry.MESSAGES,))


@pytest.mark.parametrize(("version", "costs_nothing"), [("0.32.0", True), ("0.29.0", False)])
def test_bytes_fail_a_gateway_that_forwards_it_and_the_cost_is_this_engines(version: str, costs_nothing: bool) -> None:
    judged = attribution(version, strips=False, recorder=True)
    [result] = [r for r in by_rule(judged.verdicts) if r.rule == "PFX-02"]
    [verdict] = told(result)
    assert (judged.code, verdict.status) == (ExitCode.RED, Status.FAIL)
    assert (f"vLLM {version} drops the block itself" in result.cost) is costs_nothing
    assert any("what survives" in table.title for table in verdict.tables) is not costs_nothing


@pytest.mark.parametrize("strips", [True, False])
def test_counts_behind_such_an_engine_do_not_tell(strips: bool) -> None:
    judged = attribution("0.32.0", strips=strips, recorder=False, direct=True)
    assert judged.failed == set(), judged.said
    assert judged.status("PFX-02") is Status.INCONCLUSIVE
    assert "vLLM 0.32.0 drops the block itself" in judged.reason("PFX-02")
    assert "--upstream-listen" in judged.reason("PFX-02")


def test_counts_behind_an_older_engine_do() -> None:
    kept_out = attribution("0.29.0", strips=True, recorder=False, direct=True)
    assert kept_out.status("PFX-02") is Status.PASS
    assert "vLLM 0.29.0 does not drop" in kept_out.reason("PFX-02")
    forwarded = attribution("0.29.0", strips=False, recorder=False, direct=True)
    assert forwarded.status("PFX-02") is Status.FAIL


def test_an_unknown_engine_is_said_to_be_one() -> None:
    judged = attribution("0.32.0", strips=True, recorder=False)
    assert "not known what answers" in judged.reason("PFX-02")


@pytest.mark.parametrize(
    ("name", "strips"),
    [("0.31.9", False), ("0.32.0", True), ("0.32.1rc1+cpu", True), ("v0.33.0", True), ("1.0.0", True), ("dev", False),
     ("0.9.2", False)],
)  # fmt: skip
def test_releases_that_strip(name: str, strips: bool) -> None:
    assert VllmVersion(name).strips_attribution is strips
