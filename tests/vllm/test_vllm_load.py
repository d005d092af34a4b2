"""`prefixproof-load evict` through the reference gateway on real vLLM: its tier is read back, or the gate fails it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from vllm_rig import command, gateway, vllm

pytestmark = pytest.mark.slow

LAUNCH = ("--max-model-len", "16384", "--num-gpu-blocks-override")
"""Blocks for some 70,000 tokens; 40 % come back as four sessions: a client's smallest prompt is about 6,000."""

GATE = "errors = 0\nl2_loads_at_least = 0.5\nanswers_unchanged = true\n"


def evicted(profile: str, folder: Path, *flags: str) -> tuple[int, str, dict[str, Any]]:
    """Exit code, what was printed, and the result's `second_tier`."""
    result, gate = folder / "result.json", folder / "gate.toml"
    gate.write_text(GATE)
    words = ("evict", "--think", "0", "--mix", "messages-only", "--gate", str(gate), "--result", str(result))
    sizes = ("--returning", "0.4", "--l2-tokens", "400000")
    bounds = ("--max-seconds", "900", "--timeout", "300")
    with vllm(profile, folder, *LAUNCH, *flags) as server, gateway(server.url, "tiny") as url:
        done = command("load", *words, *sizes, *bounds, "--host", url, "--engine", server.url)
    told = json.loads(result.read_bytes())["second_tier"] if result.is_file() else {}
    return done.returncode, done.stdout + done.stderr, told


def test_a_tier_that_is_read_back_passes_the_gate(tmp_path: Path) -> None:
    code, said, tier = evicted("cpu-l2", tmp_path, "2200")
    assert tier["load_bytes"] > 0, said
    assert code == 0, said


def test_a_model_whose_tier_is_write_only_fails_it(tmp_path: Path) -> None:
    """Each prompt in one step: of one that is computed in parts, the windows' ends are kept at each part."""
    code, said, tier = evicted("cpu-window-129", tmp_path, "4200", "--max-num-batched-tokens", "65536")
    assert tier["load_bytes"] == 0, said
    assert code == 1, said
    assert "the tier is write-only" in said
    assert "a KV group vetoes every lookup" in said
