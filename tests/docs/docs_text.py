"""The project's documents, as text and as what they name."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
DOCUMENTS = tuple(ROOT / name for name in GUIDES) + tuple(sorted((ROOT / "docs").rglob("*.md")))

_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)


def name(document: Path) -> str:
    """A document's path in the project."""
    return document.relative_to(ROOT).as_posix()


def read(document: str | Path) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def blocks(document: str | Path, language: str) -> list[str]:
    """The fenced blocks of one language, in order, without their fences."""
    return [found[2] for found in _FENCE.findall(read(document)) if found[1] == language]


def prose(document: str | Path) -> str:
    """The text without its fenced blocks."""
    return _FENCE.sub("", read(document))
