"""The wheel, in another project's environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from conformance.rules import RULES

ROOT = Path(__file__).parents[2]
PACKAGES = ("conformance", "engine", "load", "reference_gateway")
CASES = sum(len(rule.entries) for rule in RULES.values())

CONFTEST = """
import sys

def pytest_addoption(parser):
    parser.addoption("--model", default="own")  # a name of ours, owned by this project

def pytest_sessionfinish(session):
    own = sorted(n for n in sys.modules if n.split(".")[0] in ("conformance", "reference_gateway"))
    print("OURS:", own, "COLLECTED:", session.testscollected)
"""
INI = "[pytest]\naddopts = -q --strict-markers --strict-config\nmarkers = own: a mark\ntestpaths = tests\n"
OWN_TEST = """
import engine, pytest

@pytest.mark.own
def test_own(request):
    assert engine.OWN
    assert request.config.getoption("--model") == "own"
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of what belongs to the distribution."""
    source = tmp_path_factory.mktemp("source")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "prefixproof_plugin.py", "LICENSE"):
        shutil.copy(ROOT / name, source)
    (source / "README.md").write_text("the long description\n")
    out = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)], cwd=source)
    [built] = out.glob("prefixproof-*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel in it, and the present environment's packages behind it."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    [site] = (folder / "lib").glob("python*/site-packages")
    interpreter = folder / "bin" / "python"
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(interpreter),
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
    ]
    run([*install, str(wheel)], cwd=folder)
    packages = Path(pytest.__file__).parents[1]
    (site / "behind.pth").write_text(f"{packages}\n")
    return interpreter


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Another project: its own ini, conftest, tests, and a module with the name of one of our packages."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "engine.py").write_text("OWN = True\n")
    (tmp_path / "tests" / "test_own.py").write_text(OWN_TEST)
    return tmp_path


def run(command: list[str], cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    result = attempt(command, cwd, **variables)
    assert result.returncode == 0, result.stdout + result.stderr
    return result


def attempt(command: list[str], cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {n: v for n, v in os.environ.items() if not n.startswith(("PYTEST_", "PYTHON", "PREFIXPROOF_"))}
    return subprocess.run(
        command, cwd=cwd, env=clean | variables, capture_output=True, text=True, timeout=120, check=False
    )


def cases(result: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in result.stdout.splitlines() if "::" in line]


def test_the_wheel_holds_every_package_its_data_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    tops = {name.split("/")[0] for name in names}
    assert {name for name in tops if not name.endswith(".dist-info")} == {*PACKAGES, "prefixproof_plugin.py"}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert path.relative_to(ROOT).as_posix() in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_the_projects_own_pytest_is_not_disturbed(python: Path, project: Path) -> None:
    result = run([str(python), "-m", "pytest"], project)
    assert "OURS: [] COLLECTED: 1" in result.stdout
    assert "1 passed" in result.stdout


def test_pytest_with_a_target_is_the_installed_suite_and_nothing_else(python: Path, project: Path) -> None:
    result = run([str(python), "-m", "pytest", "--target", "http://127.0.0.1:9", "--collect-only"], project)
    assert len(cases(result)) == CASES
    assert all("cache_tests" in line or "usage_tests" in line for line in cases(result))
    assert "OURS" not in result.stdout  # the project's conftest had no part in it


def test_a_target_that_is_not_there_is_one_line_and_exit_10(python: Path, project: Path) -> None:
    command = ["--target", "http://127.0.0.1:9", "--prefixproof-model", "x"]
    result = attempt([str(python), "-m", "pytest", *command], project)
    assert result.returncode == 10, result.stdout + result.stderr
    assert "127.0.0.1:9" in result.stdout
    assert "Traceback" not in result.stdout + result.stderr


def test_the_command_works_from_any_folder_and_writes_nothing_there(python: Path, project: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in project.rglob("*")}
    project.chmod(0o500)
    try:
        command = str(python.with_name("prefixproof"))
        assert len(cases(run([command, "--target", "http://127.0.0.1:9", "--collect-only"], project))) == CASES
        assert f"{len(RULES)} of {len(RULES)} rules" in run([command, "--list-rules"], Path("/")).stdout
    finally:
        project.chmod(0o700)
    assert {path: path.stat().st_mtime_ns for path in project.rglob("*")} == before


def test_the_command_uses_its_own_packages_whatever_else_is_on_the_path(python: Path, tmp_path: Path) -> None:
    for name in PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError")
    result = run([str(python.with_name("prefixproof")), "--collect-only"], tmp_path, PYTHONPATH=str(tmp_path))
    assert len(cases(result)) == CASES


def test_the_other_commands_are_there(python: Path) -> None:
    assert {"prefixproof", "prefixproof-engine", "prefixproof-gateway", "prefixproof-forensics"} <= {
        path.name for path in python.parent.iterdir()
    }
