"""A model's KV groups, as far as its config.json tells: full attention, windows, and the draft's."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.doctor.launch import Launch, LaunchError
from engine.prove import launch as proving
from engine.prove.model_config import ModelError
from engine.prove.model_config import groups_of as all_groups_of

EAGLE_METHODS = ("eagle", "eagle3", "mtp", "dspark", "dflash")
"""Speculation whose draft model has KV of its own in the pool."""

ANNOTATED = ("mtp",)
"""Of these, those whose group vLLM 0.32 marks as the draft's, which is what makes it drop a chunk."""

NOT_TOLD = ("deepseek_v4",)
"""Architectures whose groups come of more than layer types and a window: `prove` builds them with vLLM itself."""


@dataclass(frozen=True)
class Group:
    """One KV group. `window` in tokens, as vLLM counts; None for full attention. `draft`: the drafter's."""

    window: int | None = None
    draft: bool = False

    def __str__(self) -> str:
        what = "full attention" if self.window is None else f"sliding window {self.window}"
        return f"draft, {what}" if self.draft else what


def read_config(path: Path) -> dict[str, Any]:
    """A model's config.json, or the folder it lies in. Raises `LaunchError`."""
    file = path / "config.json" if path.is_dir() else path
    try:
        held = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise LaunchError(f"{file}: {error.strerror or error}") from None
    except ValueError:
        raise LaunchError(f"{file}: no JSON: name a model's config.json") from None
    if not isinstance(held, dict):
        raise LaunchError(f"{file}: no JSON object: name a model's config.json")
    return held


def groups_of(config: dict[str, Any], launch: Launch) -> tuple[Group, ...]:
    """Groups in vLLM's order, so that their numbers are vLLM's; empty where the config does not tell.

    A manager that is switched off is left out of account: these are the groups the model would have.
    """
    text = config.get("text_config", config)
    if str(text.get("model_type", config.get("model_type", ""))) in NOT_TOLD:
        return ()
    plain = proving.Launch(block_size=launch.block_size, speculation=launch.json("speculative-config"))
    try:
        found = all_groups_of(config, plain).groups
    except ModelError:
        return ()
    return tuple(Group(group.window, group.draft) for group in found)


def drafts(launch: Launch) -> bool:
    """Whether speculation has a draft model with KV of its own."""
    return _method(launch) in EAGLE_METHODS or _method(launch).endswith("_mtp")


def drafts_annotated(launch: Launch) -> bool:
    """Whether that draft's group is known to be marked as one."""
    return _method(launch) in ANNOTATED or _method(launch).endswith("_mtp")


def _method(launch: Launch) -> str:
    return str(launch.json("speculative-config").get("method", "")).lower()
