"""A model's KV groups as vLLM itself makes them, in an environment of its own, without weights."""

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from engine.differential.vllm_child import VllmError
from engine.embedded.groups import KVGroup
from engine.prove.launch import Launch
from engine.prove.model_config import ModelGroups

WORKER = Path(__file__).with_name("vllm_groups.py")


def groups_from_vllm(python: str, wheel: str | None, config: Path, launch: Launch) -> ModelGroups:
    """Ask the vLLM of `python` for the groups of a model under a launch. Raises `VllmError` with its own last words."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if wheel is not None:
        env["PYTHONPATH"] = wheel
    question = {
        "config": str(config.resolve()),
        "block_size": launch.block_size or 16,
        "speculation": launch.speculation if launch.drafts_from_states else {},
        "hybrid": launch.hybrid,
    }
    with tempfile.TemporaryFile("w+") as log:
        done = subprocess.run(  # noqa: S603 - the user's own interpreter
            [python, "-P", str(WORKER)],
            input=json.dumps(question),
            stdout=subprocess.PIPE,
            stderr=log,
            env=env,
            text=True,
            check=False,
        )
        log.seek(0)
        last = [line.strip() for line in log if line.strip()][-1:] or ["it said nothing"]
    if done.returncode:
        raise VllmError(f"vLLM could not build the model's KV groups: {last[0]}")
    return read_answer(json.loads(done.stdout.splitlines()[-1]), launch)


def read_answer(answer: dict[str, Any], launch: Launch) -> ModelGroups:
    """Groups out of what `vllm_groups` says. Raises `VllmError` for a kind of layer that is not covered."""
    groups = []
    for group in answer["groups"]:
        if group["kind"] not in ("full", "mla", "window"):
            raise VllmError(f"the model has a group of {group['kind']}: only full attention and windows are covered")
        groups.append(KVGroup(**group))
    notes = [] if launch.block_size else ["no --block-size in the launch: blocks of 16 tokens, vLLM's usual size"]
    notes += answer.get("notes", [])
    unmarked = launch.drafts_from_states and not any(group.draft for group in groups)
    return ModelGroups(tuple(groups), unmarked, tuple(notes))
