"""A few runs of the A/A harness: healthy targets under noise are never failed, broken ones are."""

from __future__ import annotations

import pytest

from conformance.aa.__main__ import BROKEN, JUDGED, NOISE, Breakage, many_runs
from conformance.verdicts import Status

RUNS = 4


@pytest.mark.parametrize("noise", list(NOISE))
def test_a_healthy_target_is_never_failed(noise: str) -> None:
    for rule, said in zip(JUDGED, many_runs(noise, RUNS, tuple(JUDGED)), strict=True):
        assert said[Status.FAIL.value] == 0, f"{rule} under {noise}: {said}"


@pytest.mark.parametrize("breakage", BROKEN, ids=lambda b: f"{b.rule}: {b.name}")
@pytest.mark.parametrize("noise", ["quiet, granule 16", "quiet, granule 256", "hits from the 3rd send"])
def test_a_broken_target_is_failed_where_it_is_quiet(breakage: Breakage, noise: str) -> None:
    (said,) = many_runs(noise, RUNS, (breakage.rule,), breakage)
    assert said[Status.FAIL.value] == RUNS


@pytest.mark.parametrize("breakage", BROKEN, ids=lambda b: f"{b.rule}: {b.name}")
@pytest.mark.parametrize("noise", ["2 replicas, random routing", "neighbours evict often"])
def test_noise_makes_a_broken_target_undecided_not_green(breakage: Breakage, noise: str) -> None:
    (said,) = many_runs(noise, RUNS, (breakage.rule,), breakage)
    assert said[Status.PASS.value] == 0
