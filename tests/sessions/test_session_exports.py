"""The package's public names."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import conformance.sessions

ALLOWED = {"__future__", "orjson", *sys.stdlib_module_names}


def test_exported_names_resolve_and_are_sorted_for_reading() -> None:
    for name in conformance.sessions.__all__:
        assert getattr(conformance.sessions, name) is not None
    assert len(set(conformance.sessions.__all__)) == len(conformance.sessions.__all__)


def test_the_package_knows_no_http_and_no_other_part_of_the_project() -> None:
    folder = Path(conformance.sessions.__file__).parent
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                assert {alias.name.partition(".")[0] for alias in node.names} <= ALLOWED, path.name
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 1 or (node.module or "").partition(".")[0] in ALLOWED, path.name
