"""A model's KV groups, as far as its config.json tells: full attention, windows, and the draft's."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.doctor.launch import Launch, LaunchError

EAGLE_METHODS = ("eagle", "eagle3", "mtp", "dspark", "dflash")
"""Speculation whose draft model has KV of its own in the pool."""

ANNOTATED = ("mtp",)
"""Of these, those whose group vLLM 0.32 marks as the draft's, which is what makes it drop a chunk."""

ONE_MORE = ("cohere2",)
"""Architectures for which vLLM counts a window as one token more than config.json says."""

NOT_TOLD = ("deepseek_v4",)
"""Architectures whose groups come of more than layer types and a window: `prove` builds them with vLLM itself."""


@dataclass(frozen=True)
class Group:
    """One KV group. `window` in tokens, as vLLM counts; None for full attention."""

    kind: str  # "full", "window" or "draft"
    window: int | None = None

    def __str__(self) -> str:
        if self.kind == "draft":
            return "draft"
        return "full attention" if self.window is None else f"sliding window {self.window}"


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
    """Groups in vLLM's terms; empty where the config does not tell."""
    text = config.get("text_config", config)
    kind = str(text.get("model_type", config.get("model_type", "")))
    if kind in NOT_TOLD:
        return ()
    window = text.get("sliding_window")
    types = set(text.get("layer_types") or ())
    if not types:
        pattern = text.get("sliding_window_pattern") or text.get("_sliding_window_pattern")
        windowed = bool(window) and text.get("use_sliding_window", True) is not False
        types = (
            {"sliding_attention", "full_attention"}
            if windowed and pattern
            else ({"sliding_attention"} if windowed else {"full_attention"})
        )
    found = []
    if "full_attention" in types:
        found.append(Group("full"))
    if "sliding_attention" in types and isinstance(window, int):
        found.append(Group("window", window + (kind in ONE_MORE)))
    if drafts(launch):
        found.append(Group("draft"))
    return tuple(found)


def drafts(launch: Launch) -> bool:
    """Whether speculation has a draft model with KV of its own."""
    return _method(launch) in EAGLE_METHODS or _method(launch).endswith("_mtp")


def drafts_annotated(launch: Launch) -> bool:
    """Whether that draft's group is known to be marked as one."""
    return _method(launch) in ANNOTATED or _method(launch).endswith("_mtp")


def _method(launch: Launch) -> str:
    return str(launch.json("speculative-config").get("method", "")).lower()
