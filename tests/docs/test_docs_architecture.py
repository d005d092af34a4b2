"""The dependency directions of docs/architecture.md, held to the code."""

from __future__ import annotations

import ast
from pathlib import Path

from docs_text import ROOT

OWN = ("conformance", "engine", "reference_gateway", "load")


def imports(path: Path) -> set[str]:
    """The modules a file imports, inside functions too; those for type checking only are left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module)
    return found


def users_of(package: str, folder: str) -> set[str]:
    """Files under `folder` that import `package`, as paths in the project."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / folder).rglob("*.py")
        if any(module == package or module.startswith(f"{package}.") for module in imports(path))
    }


def test_gateway_and_engine_know_neither_the_suite_nor_each_other() -> None:
    for folder in ("engine", "reference_gateway"):
        for package in set(OWN) - {folder}:
            assert users_of(package, folder) == set(), (folder, package)


def test_load_knows_sessions_and_the_wire_and_starts_the_pair_as_processes() -> None:
    for package in ("engine", "reference_gateway"):
        assert users_of(package, "load") == set()
    known = {
        module for path in (ROOT / "load").rglob("*.py") for module in imports(path) if module.startswith("conformance")
    }
    parts = {".".join(module.split(".")[:2]) for module in known} - {"conformance"}
    assert parts == {"conformance.sessions", "conformance.wire", "conformance.verdicts", "conformance.errors",
                     "conformance.forensics"}  # fmt: skip
    assert users_of("load", "conformance") == set(), "it is run as a child: Locust patches the standard library"


def test_who_knows_locust() -> None:
    assert users_of("locust", "load") == {
        "load/cli.py",
        "load/coordinator.py",
        "load/day/play.py",
        "load/locustfile.py",
        "load/sending.py",
        "load/web_tab.py",
    }
    assert users_of("locust", "conformance") == set()


def test_who_in_the_suite_knows_the_gateway_and_the_engine() -> None:
    assert users_of("reference_gateway", "conformance") == {
        "conformance/listing.py",
        "conformance/matrix.py",
        "conformance/option_values.py",
        "conformance/pair.py",
    }
    assert users_of("engine", "conformance") == {"conformance/aa/simulated.py", "conformance/pair.py"}


def test_who_in_the_suite_knows_pytest() -> None:
    assert users_of("pytest", "conformance") == {
        "conformance/case_run.py",
        "conformance/casebook.py",
        "conformance/cli.py",
        "conformance/plugin.py",
    }


def test_sessions_and_verdicts_are_plain_data() -> None:
    assert users_of("conformance", "conformance/sessions") == set()
    assert not any(module.startswith(OWN) for module in imports(ROOT / "conformance" / "verdicts.py"))


def test_lower_layers_do_not_look_up() -> None:
    for folder in ("conformance/evidence", "conformance/observe", "conformance/wire", "conformance/diagnosis"):
        for package in ("conformance.judgements", "conformance.casebook", "conformance.run", "conformance.rules"):
            assert users_of(package, folder) == set(), (folder, package)
