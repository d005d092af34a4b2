"""`prefixproof-engine prove` with vLLM's own word: the models and geometries that were seen to load, and not to."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from vllm_rig import command

from engine.differential.vllm_child import VllmChild
from engine.embedded.groups import describe, parse_groups
from engine.prove.launch import read_launch
from engine.prove.model_config import groups_of
from engine.prove.verdict import Setting, judge
from engine.vllm.environment import find, models_folder
from engine.vllm.launch_profile import load

RETENTION = "--prefix-cache-retention-interval 32"
NO_DRAFT = "--no-speculative-config"
WINDOW_129 = "sliding window 129"
MTP = "draft, sliding window 128"
INCIDENT = "mla:256,window:64:128,window:64:128:draft,window:4:8,window:8:128"

# Profile and flags, what loads of a re-sent prompt of 1,570 tokens, and who vetoes.
MODELS = [
    ("cpu-l2", 1_568, None),
    ("cpu-mtp", 0, MTP),
    (f"cpu-mtp {RETENTION}", 1_536, None),
    (f"cpu-mtp {NO_DRAFT}", 1_568, None),
    ("cpu-window-129", 0, WINDOW_129),
    (f"cpu-window-129 {RETENTION}", 1_568, None),
]
GEOMETRIES = [
    ("full:16,window:16:129", 1_570, False),
    ("full:16,window:16:128,full:16:draft", 1_570, False),
    ("mla:256,window:64:128,window:64:128:draft", 30_208, True),
    ("mla:256,window:64:128,window:64:128:draft", 30_300, True),
    ("mla:256,window:64:128,mla:256:draft", 30_300, False),
    (INCIDENT, 30_208, True),
]


def prove(*words: str) -> tuple[int, dict[str, Any]]:
    """Exit code and answer of the command."""
    done = command("engine", "prove", *words, "--json", "--python", str(find(gpu=False).python))
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(("launched", "loaded", "veto"), MODELS)
def test_models_by_vllms_own_groups(launched: str, loaded: int, veto: str | None) -> None:
    name, *flags = launched.split()
    profile = load(name).overridden(flags)
    launch = shlex.join(["vllm", *profile.command(models=models_folder(), host="127.0.0.1", port=8000)])
    config = models_folder() / str(profile.tiny_kind) / "config.json"
    code, told = prove("--model-config", str(config), "--launch", launch, "--length", "1570")
    assert "its own scheduler and connector" in told["speaker"]
    assert told["rows"][0]["again"] == loaded
    assert (code, told["word"]) == ((0, "loads") if loaded else (1, "never loads"))
    # Without vLLM the groups come of config.json: the same, and numbered alike.
    assert told["groups"] == describe(groups_of(json.loads(config.read_bytes()), read_launch(launch)).groups).split(",")
    if veto is not None:
        group = parse_groups(told["groups"][told["veto"]])[0]
        assert f"{'draft, ' if group.draft else ''}sliding window {group.window}" == veto
        assert told["remedies"][0]["change"] == RETENTION


@pytest.fixture(scope="module")
def child() -> Iterator[VllmChild]:
    with VllmChild(find(gpu=False).python) as running:
        yield running


@pytest.mark.parametrize(("groups", "length", "loads"), GEOMETRIES)
def test_geometries(child: VllmChild, groups: str, length: int, loads: bool) -> None:
    setting = Setting(groups=parse_groups(groups))
    found = judge(setting, lambda script: child.play(script, quiet=True), child.version, "vLLM", [length])
    assert found.word == ("loads" if loads else "never loads")
