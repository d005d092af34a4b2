"""The rules that need load, as a user asks for them: whole runs of the suite, and of the child it starts."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from conformance.conclusions import left_open
from conformance.errors import SuiteProblem
from conformance.observe import under_load
from conformance.observe.under_load import LoadRuns, LoadSettings, run_load
from conformance.rules import RULES
from conformance.verdicts import Entry, ExitCode, Status, Vantage, Verdict
from engine.embedded.faults import TIER_FAULTS
from load.cli import ENGINE_FAULTS, RANDOM_ROUTING

ROOT = Path(__file__).parents[2]
NEED_LOAD = sorted(rule.id for rule in RULES.values() if rule.needs_load)


def suite(folder: Path, *words: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, report and what was printed."""
    done = subprocess.run(
        [sys.executable, "-m", "conformance.cli", "--entry", "messages", "--report", str(folder), *words],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=400,
    )  # fmt: skip
    file = folder / "report.json"
    return done.returncode, json.loads(file.read_bytes()) if file.exists() else {}, done.stdout + done.stderr


def statuses(report: dict[str, Any]) -> dict[str, str]:
    return {rule["id"]: rule["status"] for rule in report["rules"]}


def test_with_load_every_such_rule_is_judged_and_a_healthy_pair_is_green(tmp_path: Path) -> None:
    code, report, said = suite(tmp_path, "--load", "--rules", ",".join(NEED_LOAD))
    assert statuses(report) == dict.fromkeys(NEED_LOAD, "pass"), said
    assert code == ExitCode.GREEN
    assert any(fact["name"] == "messages: load" and "evict: " in fact["value"] for fact in report["facts"])


def test_without_load_they_are_not_run_and_nothing_is_green(tmp_path: Path) -> None:
    code, report, said = suite(tmp_path, "--rules", ",".join(NEED_LOAD))
    assert statuses(report) == dict.fromkeys(NEED_LOAD, "not run"), said
    assert code == ExitCode.INCOMPLETE
    assert "needs --load" in said


def test_a_write_only_tier_fails_the_run_by_its_root(tmp_path: Path) -> None:
    code, report, said = suite(tmp_path, "--load", "--fault", "l2-write-only", "--rules", "L2-01,L2-02")
    assert statuses(report) == {"L2-01": "fail", "L2-02": "fail"}, said
    assert code == ExitCode.RED
    verdicts = {rule["id"]: rule["verdicts"][0] for rule in report["rules"]}
    assert verdicts["L2-01"]["root"] == "L2-02"
    assert any("vetoes every lookup" in line for line in verdicts["L2-02"]["ruled_out"])


def settings(**given: Any) -> LoadSettings:
    own: dict[str, Any] = {
        "target": None, "model": "m", "api_key": None, "engine": None, "fault": None, "template": "tools-first",
        "block_size": 64, "seed": 0,
    }  # fmt: skip
    return LoadSettings(**{**own, **given})


def nobody() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_what_is_missing_is_said_and_no_verdict() -> None:
    run = run_load(settings(target=nobody()), "evict", Entry.MESSAGES)
    assert (run.result, run.lacks) == (None, True)
    assert "--pool-tokens" in run.why_not


def test_a_target_that_is_gone_leaves_a_result_that_accuses_nobody() -> None:
    run = run_load(settings(target=nobody()), "repeats", Entry.CHAT)
    assert run.result is not None
    assert run.result["target_gone"]
    assert set(run.result["errors"]) == {"connection refused"}


def test_a_key_is_on_no_command_line() -> None:
    assert "sk-secret" not in " ".join(under_load.arguments(settings(api_key="sk-secret"), "evict", Entry.CHAT))


def test_a_child_that_breaks_is_an_error_of_the_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_load, "_run_child", lambda *_: (1, ["Traceback", "KeyError: 'x'"]))
    with pytest.raises(SuiteProblem, match="ended with 1: KeyError"):
        run_load(settings(), "evict", Entry.CHAT)


def test_a_child_that_does_not_end_is_ended_with_all_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = secrets.token_hex(8)
    monkeypatch.setenv("PREFIXPROOF_TEST_MARK", mark)
    monkeypatch.setattr(under_load, "EXTRA_S", -596.0)  # long before its own bound
    run = run_load(settings(max_seconds=600.0), "soak", Entry.CHAT)
    assert (run.result, run.lacks) == (None, False)
    assert "did not end within 4 s" in run.why_not
    assert marked(mark) == []


def marked(mark: str) -> list[int]:
    """Processes whose environment carries the mark, but this one."""
    found = []
    for process in psutil.process_iter():
        try:
            carries = process.environ().get("PREFIXPROOF_TEST_MARK") == mark
        except psutil.Error:
            continue
        if carries and process.pid != os.getpid():
            found.append(process.pid)
    return found


def test_a_shape_is_put_on_once_and_once_more_to_confirm(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def child(words: list[str], *_: object) -> tuple[int, list[str]]:
        made.append(words[0])
        return 2, ["prefixproof-load: no"]

    monkeypatch.setattr(under_load, "_run_child", child)
    runs = LoadRuns(settings(), Entry.CHAT)
    for again in (False, False, True, True):
        assert runs.of("evict", again=again).why_not == "no"
    assert made == ["evict", "evict"]


def verdict(rule: str, status: Status, code: str = "") -> Verdict:
    return Verdict(rule=rule, entry=Entry.CHAT, status=status, reason="why", vantage=Vantage.LOAD, n=1, code=code)


@pytest.mark.parametrize(
    ("verdicts", "opens"),
    [
        ([verdict("L2-01", Status.PASS), verdict("L2-02", Status.PASS)], False),
        ([verdict("L2-01", Status.INCONCLUSIVE), verdict("L2-02", Status.PASS)], False),
        ([verdict("L2-01", Status.PASS), verdict("L2-02", Status.INCONCLUSIVE)], True),
        ([verdict("L2-02", Status.NOT_RUN), verdict("AFF-01", Status.PASS)], False),
        ([verdict("L2-02", Status.NOT_RUN), verdict("AFF-01", Status.INCONCLUSIVE)], True),
        ([verdict("L2-02", Status.NOT_APPLICABLE), verdict("AFF-01", Status.INCONCLUSIVE)], False),
        ([verdict("L2-01", Status.INCONCLUSIVE, "loads-too-little"), verdict("L2-02", Status.PASS)], True),
    ],
)
def test_load_that_leaves_the_tier_open_is_not_green(verdicts: list[Verdict], opens: bool) -> None:
    found = left_open(
        verdicts,
        verdicts,
        entries=(Entry.CHAT,),
        families=("cache",),
        family_of={rule.id: rule.family for rule in RULES.values()},
        musts=frozenset(rule.id for rule in RULES.values() if rule.is_must),
        states=(),
        stopped=None,
        blind=lambda _: None,
        traffics={},
        load=True,
    )
    assert bool(found) is opens, found


def test_the_suite_the_generator_and_the_engine_name_the_same_faults() -> None:
    assert {*ENGINE_FAULTS, RANDOM_ROUTING} == set(under_load.LOAD_FAULTS)
    assert set(ENGINE_FAULTS) == set(TIER_FAULTS)
    assert {rule for broken in under_load.LOAD_FAULTS.values() for rule in broken} == set(NEED_LOAD)
    columns = [frozenset(f for f, broken in under_load.LOAD_FAULTS.items() if rule in broken) for rule in NEED_LOAD]
    assert len(set(columns)) == len(columns), "two rules that the same faults break are one"
