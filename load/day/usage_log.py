"""The gateway's own usage log: what upstream counted, whatever clients were told."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import orjson

from load.errors import TargetGone

PATIENCE_S: Final = 10.0
_LOOK_EVERY_S: Final = 0.05


def lines_of(path: Path) -> list[bytes]:
    """The lines that are whole; a gateway that has not begun its log has none."""
    if not path.exists():
        return []
    return path.read_bytes().split(b"\n")[:-1]


def logged(path: Path, count: int, *, before: int = 0, patience_s: float = PATIENCE_S) -> list[tuple[int, int]]:
    """(prompt, cached) of `count` requests sent one after the other, behind the `before` lines there were.

    A gateway writes a request's line once its body is over, so the last ones may follow their answers: they are waited
    for. Raises `TargetGone` when they do not come.
    """
    until = time.monotonic() + patience_s
    while len(found := lines_of(path)[before:]) < count and time.monotonic() < until:
        time.sleep(_LOOK_EVERY_S)
    if len(found) != count:
        raise TargetGone(f"the gateway logged {len(found):,} of {count:,} requests")
    return [_counts(line) for line in found]


def _counts(line: bytes) -> tuple[int, int]:
    usage = orjson.loads(line)["usage"] or {}
    details = usage.get("prompt_tokens_details") or {}
    return usage.get("prompt_tokens") or 0, details.get("cached_tokens") or 0
