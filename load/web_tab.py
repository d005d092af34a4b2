"""A tab of Locust's web page: the run's hit rates and tiers, live."""

from __future__ import annotations

from typing import Any


def add_tab(environment: Any, leader: Any) -> None:
    """Add the tab."""
