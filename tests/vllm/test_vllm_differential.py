"""The embedded core beside the installed vLLM, step by step, on scripts whose traces are not shipped."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from vllm_rig import command

from engine.differential.generate import GROUP_SETS
from engine.embedded.families import NEWEST, family_of
from engine.vllm.environment import find
from load.day.inputs import part_of, read_inputs
from load.day.model import write_traffic

FIRST = 40
"""Behind the seeds of the vectors."""

SCRIPTS = 20

DAY = 0.03
"""Share of the incident's day."""


def test_no_step_differs_and_every_mutant_is_caught() -> None:
    environment = find(gpu=False)
    assert family_of(environment.version()) == family_of(NEWEST)
    done = command(
        "engine.differential",
        *("--python", str(environment.python), "--scripts", str(SCRIPTS), "--first", str(FIRST), "--workers", "1"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{SCRIPTS * len(GROUP_SETS)} scripts, 0 with a difference" in done.stdout
    counted = dict(re.findall(r"^  ([\w+ -]+): (\d+)$", done.stdout, re.MULTILINE))
    for name in ("evicting", "loading", "aborting", "preempting", "branching", "vetoed"):
        assert int(counted[name]) > 0, done.stdout


@pytest.mark.parametrize("l2", [0, 4])
def test_the_incidents_day_finds_the_same_in_both(l2: int, tmp_path: Path) -> None:
    """Some 3 M prompt tokens; L2 holds `l2` times what L1 does."""
    inputs = part_of(read_inputs(), DAY)
    write_traffic(inputs, tmp_path / "day.jsonl", strip=True)
    sizes = ("--pool-tokens", str(inputs.pool_tokens), "--l2-tokens", str(l2 * inputs.pool_tokens))
    done = command("engine.differential", "--traffic", str(tmp_path / "day.jsonl"), *sizes)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no request differs" in done.stdout
