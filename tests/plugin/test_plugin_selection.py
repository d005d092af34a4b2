"""Which cases run: --entry, --rules, paths and pytest's own -k, -m and --collect-only."""

from __future__ import annotations

import pytest
from plugin_rig import Rig

from conformance.rules import RULES
from conformance.verdicts import Entry


@pytest.fixture
def rig(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(pytester, monkeypatch)


def judged(rig: Rig) -> set[tuple[str, str]]:
    return {(v.rule, v.entry.value) for v in rig.last.verdicts}


def test_an_entry_the_user_did_not_ask_for_is_left_out(rig: Rig) -> None:
    rig.run("--entry", "chat")
    assert judged(rig) == {(r.id, "chat") for r in RULES.values() if Entry.CHAT in r.entries}
    assert rig.last.options.entries == (Entry.CHAT,)
    assert set(rig.last.asked) == {Entry.CHAT}


def test_rules_are_selected_by_globs(rig: Rig) -> None:
    rig.run("--rules", "PIN-0[12],STR-01")
    assert {rule for rule, _ in judged(rig)} == {"PIN-01", "PIN-02", "STR-01"}
    assert rig.last.options.rules == ("PIN-0[12]", "STR-01")


@pytest.mark.parametrize(
    ("arguments", "rules"),
    [
        (["-k", "PFX-02 or str_04"], {"PFX-02", "STR-04"}),
        (
            ["-k", "usage and messages"],
            {r.id for r in RULES.values() if r.family == "usage" and Entry.MESSAGES in r.entries},
        ),
        (["-m", "rule"], set(RULES)),
        (["cases/test_cases.py::test_use_01"], {"USE-01"}),
        (["cases/test_cases.py::test_use_06[chat]"], {"USE-06"}),
    ],
)
def test_pytests_own_selection_works(rig: Rig, arguments: list[str], rules: set[str]) -> None:
    rig.run(*arguments)
    assert {rule for rule, _ in judged(rig)} == rules


def test_collect_only_lists_the_cases_by_name_and_makes_no_run(rig: Rig) -> None:
    result = rig.run("--collect-only", "--target", "http://127.0.0.1:9", "--model", "x")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*test_pfx_02[[]messages[]]", "*test_use_07[[]chat[]]"])
    assert rig.runs == []


def test_cases_are_named_one_by_one_with_v(rig: Rig) -> None:
    rig.run("-v", "--rules", "USE-06").stdout.fnmatch_lines(["*test_use_06[[]messages[]] PASSED*"])


def test_the_prefixed_names_mean_the_same(rig: Rig) -> None:
    rig.run("--prefixproof-entry=messages", "--prefixproof-rules", "USE-*", "--prefixproof-seed", "3")
    assert {rule for rule, _ in judged(rig)} == {
        r.id for r in RULES.values() if r.family == "usage" and r.id.startswith("USE-") and Entry.MESSAGES in r.entries
    }
    assert rig.last.options.seed == 3


def test_distributing_the_run_is_refused(rig: Rig) -> None:
    class Workers:
        """What pytest-xdist adds to the options."""

        @staticmethod
        def pytest_addoption(parser: pytest.Parser) -> None:
            parser.getgroup("xdist").addoption("--numprocesses", type=int, default=None)

    import prefixproof_plugin
    from conformance.cli import SEALED

    result = rig.pytester.runpytest_inprocess(*SEALED, "--numprocesses=2", plugins=[prefixproof_plugin, Workers()])
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: -n (pytest-xdist) does not go with the suite*"])
