"""The incident's second fault, for real: stock vLLM stores what it pushes out of the pool and never loads it."""

from __future__ import annotations

from pathlib import Path

import pytest
from vllm_rig import command, outcomes, probe, vllm

from engine.metrics import read
from engine.scrape import fetch

pytestmark = pytest.mark.slow

WORKAROUND = ("--prefix-cache-retention-interval", "32")
CASES = {
    "cpu-mtp": "group 0 (draft, sliding window 128) vetoes every load: the drafter's group asks for one chunk more",
    "cpu-window-129": "group 0 (sliding window 129) vetoes every load: 129 mod 32 = 1",
}


@pytest.mark.parametrize("profile", CASES)
def test_it_stores_and_never_loads_and_the_doctor_names_the_group(profile: str, tmp_path: Path) -> None:
    with vllm(profile, tmp_path) as server:
        found = probe(server.url)
        assert outcomes(found, ["L1", "L2-01", "L2-02", "L2-05"]) == ["pass", "FAIL", "FAIL", "pass"], found
        counters = read(fetch(server.url)).counters
        assert counters.write_only
        assert counters.l2_hits == 0
        done = command("engine", "doctor", "--metrics", f"{server.url}/metrics", "--log", str(server.log))
    assert done.returncode == 1, done.stdout + done.stderr
    assert CASES[profile] in done.stdout
    assert "so nothing was ever pushed out of it" in done.stdout
    assert "--prefix-cache-retention-interval 32 restores loads" in done.stdout


@pytest.mark.parametrize("profile", CASES)
def test_with_the_workaround_the_same_run_passes(profile: str, tmp_path: Path) -> None:
    with vllm(profile, tmp_path, *WORKAROUND) as server:
        found = probe(server.url)
        assert outcomes(found, ["L1", "L2-01", "L2-02", "L2-03", "L2-05"]) == ["pass"] * 5, found
        done = command("engine", "doctor", "--metrics", f"{server.url}/metrics", "--log", str(server.log))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "vetoes" not in done.stdout
