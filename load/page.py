"""One self-contained HTML page of a run."""

from __future__ import annotations

from typing import Any

from load.record import Record


def page(told: dict[str, Any], record: Record) -> str:
    """The page."""
    return f"<!doctype html><title>{told['shape']}</title>{record.seconds}"
