"""In somebody else's project: option names, and `pytest` with and without our options, each in a process of its own."""

from __future__ import annotations

import sys

import pytest

from conformance.rules import RULES

CASES = sum(len(rule.entries) for rule in RULES.values())
PROJECT_TEST = """
def test_own():
    import sys
    assert "conformance" not in sys.modules
"""
SCRIPTED = """
import json, os, sys
from conformance import plugin
from conformance.errors import TargetProblem

class Run:
    entries = ()
    def __init__(self, options):
        sys.stdout.write("ASKED " + json.dumps([options.target, options.model, options.api_key, options.seed]) + "\\n")
    def preflight(self):
        raise TargetProblem("scripted")
    def report(self):
        from conformance.case_run import SuiteSession
        from conformance.options import RunOptions
        return SuiteSession(RunOptions()).report()
    def close(self):
        pass

if "prefixproof_plugin" in sys.modules:
    plugin.make_run = Run
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with the plugin in its environment; `-p scripted` would answer for a target."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "prefixproof_plugin")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    import prefixproof_plugin

    monkeypatch.setenv("PYTHONPATH", str(prefixproof_plugin.ROOT))
    pytester.makepyfile(test_own=PROJECT_TEST)
    return pytester


def pytest_in(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return project.run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments)


def test_a_projects_own_pytest_collects_its_tests_and_imports_nothing_of_ours(project: pytest.Pytester) -> None:
    result = pytest_in(project)
    assert result.ret == 0
    result.assert_outcomes(passed=1)
    # Where it is installed, pytest itself lists it among the plugins; nothing else may show.
    assert [line for line in result.outlines if "prefixproof" in line and not line.startswith("plugins: ")] == []


def test_help_shows_each_option_once_by_its_short_name(project: pytest.Pytester) -> None:
    result = pytest_in(project, "--help")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["prefixproof (every option also exists as --prefixproof-NAME):", "  --target=URL *"])
    result.stdout.no_fnmatch_line("  --prefixproof-target*")


@pytest.mark.parametrize("own", ["--target", "--model", "--timeout"])
def test_a_name_a_conftest_owns_is_left_to_it(project: pytest.Pytester, own: str) -> None:
    project.makeconftest(f"def pytest_addoption(parser): parser.addoption({own!r}, dest='own')")
    project.makepyfile(test_own=f"def test_own(request): assert request.config.getoption({own!r}) == '5'")
    pytest_in(project, own, "5").assert_outcomes(passed=1)


def test_a_name_a_plugin_owns_is_left_to_it_whichever_loads_first(project: pytest.Pytester) -> None:
    project.makepyfile(taker="def pytest_addoption(parser): parser.addoption('--target', dest='own')")
    project.makepyfile(test_own="def test_own(request): assert request.config.option.own == 'x'")
    pytest_in(project, "-p", "taker", "--target", "x").assert_outcomes(passed=1)
    pytest_in(project, "-p", "prefixproof_plugin", "-p", "taker", "--target=x").assert_outcomes(passed=1)


def test_the_prefixed_name_works_beside_a_taken_one(project: pytest.Pytester) -> None:
    project.makeconftest("def pytest_addoption(parser): parser.addoption('--list-rules', action='store_true')")
    result = pytest_in(project, "--prefixproof-list-rules")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["rule set *"])


def test_a_taken_name_typed_for_the_suite_is_pointed_out(project: pytest.Pytester) -> None:
    project.makeconftest("def pytest_addoption(parser): parser.addoption('--model')")
    result = pytest_in(project, "--target", "http://127.0.0.1:9", "--model", "x")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --model belongs to another plugin or conftest here: write --prefixproof-model*"]
    )


HOSTILE_PROJECTS = {
    "a conftest that does not load": {"conftest.py": "import no_such_module"},
    "a conftest that exits": {"conftest.py": "raise SystemExit(0)"},
    "a conftest that changes every item": {
        "conftest.py": "def pytest_collection_modifyitems(items): items.clear()\n"
        "def pytest_generate_tests(metafunc): raise RuntimeError"
    },
    "an autouse fixture": {"conftest.py": "import pytest\n@pytest.fixture(autouse=True)\ndef f(): raise RuntimeError"},
    "an ini of its own": {
        "pytest.ini": "[pytest]\npython_files = check_*.py\npython_functions = check_*\nusefixtures = gone\n"
        "addopts = --strict-markers -x -k nothing -m nothing --collect-only tests\nfilterwarnings = error\n"
    },
    "settings in pyproject": {
        "pyproject.toml": "[tool.pytest.ini_options]\ntestpaths = ['tests']\npythonpath = ['.']\n"
    },
    "packages of our names": {
        "conformance/__init__.py": "raise RuntimeError",
        "engine.py": "raise RuntimeError",
        "load.py": "raise RuntimeError",
    },
}


@pytest.mark.parametrize("files", HOSTILE_PROJECTS.values(), ids=HOSTILE_PROJECTS)
def test_nothing_of_the_project_reaches_the_suite(project: pytest.Pytester, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = project.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (project.path / "tests").mkdir()
    (project.path / "tests" / "test_theirs.py").write_text("def test_theirs(): raise RuntimeError")
    result = pytest_in(project, "--target", "http://127.0.0.1:9", "--collect-only")
    assert result.ret == 0, result.stderr.str()
    collected = [line for line in result.outlines if "::" in line]
    assert len(collected) == CASES
    assert all("cache_tests" in line or "usage_tests" in line for line in collected)


def test_what_is_typed_arrives_in_the_sealed_run_and_the_key_is_not_shown(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.makepyfile(scripted=SCRIPTED)
    monkeypatch.setenv("PREFIXPROOF_API_KEY", "sk-from-the-environment")
    result = pytest_in(project, "-p", "scripted", "--target", "http://gw.example/", "--model=m", "--seed", "4")
    assert result.ret == 10
    result.stdout.fnmatch_lines(
        ['ASKED ["http://gw.example", "m", "sk-from-the-environment", 4]', "problem * scripted"]
    )


def test_options_of_the_environment_and_the_ini_count_too(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.makepyfile(scripted=SCRIPTED)
    project.makeini("[pytest]\naddopts = --model from-ini --api-key sk-from-ini")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--target http://gw.example -p no:terminal")
    result = pytest_in(project, "-p", "scripted", "--seed", "1")
    assert result.ret == 10
    result.stdout.fnmatch_lines(['ASKED ["http://gw.example", "from-ini", "sk-from-ini", 1]', "problem * scripted"])


def test_mixing_tests_of_the_project_with_a_target_is_a_usage_error(project: pytest.Pytester) -> None:
    result = pytest_in(project, "--target", "http://127.0.0.1:9", "test_own.py")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: test_own.py is not part of the suite*"])


def test_a_mistyped_option_is_never_a_green_run(project: pytest.Pytester) -> None:
    assert pytest_in(project, "--targt", "http://127.0.0.1:9").ret == pytest.ExitCode.USAGE_ERROR


def test_distributing_is_refused_clearly(project: pytest.Pytester) -> None:
    result = pytest_in(project, "--target", "http://127.0.0.1:9", "-n", "4")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: -n: the suite sends each session once*"])


def test_locusts_pytest_plugin_may_be_there(project: pytest.Pytester) -> None:
    result = pytest_in(project, "-p", "pytest_locust.plugin", "--host", "http://unused", "test_own.py")
    result.assert_outcomes(passed=1)
