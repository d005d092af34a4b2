"""The order of the tests: what takes longest first, so that no worker is left alone with it at the end."""

from __future__ import annotations

import gc

import pytest

SUITE = "tests/suite/"
FIRST = (f"{SUITE}test_matrix.py", f"{SUITE}test_changes_are_named.py")
"""Both read the cells of the matrix, which a process makes once: neighbours end on one worker."""

WAITING = ("tests/load/", "tests/engine_metrics/", "tests/engine_vllm/", "tests/gateway/test_gateway_odd_upstreams.py")
"""These wait for processes and timeouts more than they compute: a worker of their own begins with them at once."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _place(item.nodeid))


def pytest_collection_finish() -> None:
    # What is imported and collected by now stays: the collector need not walk it again and again.
    gc.collect()
    gc.freeze()


def _place(nodeid: str) -> int:
    path = nodeid.split("::")[0]
    if path in FIRST:
        return FIRST.index(path)
    if path.startswith(SUITE):
        return len(FIRST)
    return len(FIRST) + (1 if path.startswith(WAITING) else 2)
