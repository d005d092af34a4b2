"""The embedded core beside the installed vLLM, step by step, on scripts whose traces are not shipped."""

from __future__ import annotations

import re

from vllm_rig import command

from engine.differential.generate import GROUP_SETS
from engine.embedded.families import NEWEST, family_of
from engine.vllm.environment import find

FIRST = 40
"""Behind the seeds of the vectors."""

SCRIPTS = 20


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
