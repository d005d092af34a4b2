"""What the doctor says: findings, each with a reason and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Weight(StrEnum):
    """How much a finding matters."""

    TRAP = "TRAP"
    """Breaks something, for certain or on known versions."""
    DOUBT = "doubt"
    """Breaks something under conditions that were not seen."""
    NOTE = "note"
    """Worth knowing."""


@dataclass(frozen=True)
class Finding:
    """One finding. `upstream` names issues and pull requests of vLLM."""

    id: str
    weight: Weight
    said: str
    remedy: str = ""
    upstream: tuple[int, ...] = ()


def family(version: str | None) -> tuple[int, int] | None:
    """`(0, 32)` of "0.32.0+cpu"; None where the version is not known."""
    parts = (version or "").lstrip("v").split(".")
    if len(parts) < 2 or not parts[0].isdecimal() or not parts[1].isdecimal():
        return None
    return int(parts[0]), int(parts[1])
