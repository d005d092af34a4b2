"""`--restart-command`, over real HTTP: gateways are processes, and a command restarts them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from restart_script import ROOT, wait
from restarted_gateway import Rig, gateway_process, script_process
from suite_layers import Asked, Layer
from suite_targets import Target, judge

from conformance import restarts
from conformance.casebook import load_cases
from conformance.errors import RestartFailed
from conformance.observe.restarted import MANY_TOOLS
from conformance.options import Budget, RunOptions
from conformance.pair import ALIAS, MODEL
from conformance.restart_command import Waits
from conformance.rules import ACROSS_RESTART
from conformance.run import Run
from conformance.verdicts import Entry, ExitCode, Status, Verdict

SET_GATEWAY = Path(__file__).parent / "set_gateway.py"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarts, "Waits", partial(Waits, settle=1.0, calm=0.2))


def options(rig: Rig, command: tuple[str, ...] | None, **more: object) -> RunOptions:
    asked = {
        "target": rig.url, "model": ALIAS, "engine": rig.engine, "upstream_listen": rig.listen, "timeout_s": 20.0,
        "budget": Budget.QUICK, "allow_disruptive": True, "restart_command": command, "rules": ACROSS_RESTART, **more,
    }  # fmt: skip
    return RunOptions(**asked)  # type: ignore[arg-type]


class Judged:
    """What a run says of the rules that compare across a restart."""

    def __init__(self, options: RunOptions) -> None:
        self.failed: list[RestartFailed] = []
        run = Run(options)
        try:
            run.preflight()
            self.plan = run.report()
            for rule, case in load_cases(restarts=True).items():
                for entry in run.entries if rule in options.rules else ():
                    try:
                        case.function(observed=run.observed(entry), judge=run.record)
                    except RestartFailed as error:
                        self.failed.append(error)
            self.report = run.report()
            self.code = run.exit_code()
        finally:
            run.close()

    def of(self, rule: str, entry: Entry = Entry.MESSAGES) -> Verdict:
        return next(v for v in self.report.verdicts if (v.rule, v.entry) == (rule, entry))

    def codes(self) -> dict[tuple[str, str], str]:
        return {(v.rule, v.entry.value): v.code for v in self.report.verdicts if v.status is Status.FAIL}

    def fact(self) -> str:
        return next((fact.value for fact in self.report.facts if fact.name == "restart"), "")


@pytest.fixture
def healthy(tmp_path: Path) -> Iterator[Rig]:
    with gateway_process(tmp_path) as rig:
        yield rig


def test_an_order_of_tools_that_every_start_draws_fails_and_is_laid_at_the_restart(tmp_path: Path) -> None:
    with gateway_process(tmp_path, "tools-by-start") as rig:
        within = Judged(options(rig, None))
        judged = Judged(options(rig, rig.command("restart")))
    assert {v.status for v in within.report.verdicts} == {Status.PASS}, "one process shows nothing"
    assert judged.codes() == {
        ("PFX-09", "messages"): "tools-reordered-across-restart",
        ("PFX-09", "chat"): "tools-reordered-across-restart",
        ("PFX-14", "messages"): "bodies-vary-across-restart",
        ("PFX-14", "chat"): "bodies-vary-across-restart",
    }
    assert rig.starts == 2, "one run restarts the gateway once"
    said = judged.of("PFX-09")
    assert "sent again after the target was restarted" in said.reason
    assert said.change is not None
    assert said.change.kind == "tools re-ordered"
    assert [e.title for e in said.excerpts] == ["before the restart", "after the restart"]
    assert judged.of("PFX-14").root == "PFX-09"
    assert judged.code is ExitCode.RED


def test_a_healthy_gateway_passes_and_the_pass_says_by_what_the_restart_showed(healthy: Rig) -> None:
    judged = Judged(options(healthy, healthy.command("restart")))
    assert {(v.status, v.code) for v in judged.report.verdicts} == {(Status.PASS, "")}
    for rule in ACROSS_RESTART:
        for entry in Entry:
            assert "across a restart (" in judged.of(rule, entry).reason
    assert healthy.starts == 2
    assert "is run once, when all other rules are judged" in next(
        f.value for f in judged.plan.facts if f.name == "restart"
    )
    assert "was run once, at the end (" in judged.fact()
    assert str(healthy.folder) not in judged.fact(), "no path of a machine"


@pytest.mark.parametrize(("fault", "code", "kind"), [
    ("instance-note", "bodies-vary-across-restart", "uuid or nonce"),
    ("salt-by-start", "bodies-vary-across-restart", "uuid or nonce"),
])  # fmt: skip
def test_what_a_start_draws_for_the_body_shows_in_pfx_14_alone(
    fault: str, code: str, kind: str, tmp_path: Path
) -> None:
    with gateway_process(tmp_path, fault) as rig:
        judged = Judged(options(rig, rig.command("restart")))
    assert judged.codes() == {("PFX-14", "messages"): code, ("PFX-14", "chat"): code}
    change = judged.of("PFX-14").change
    assert change is not None
    assert change.kind == kind
    assert judged.of("PFX-09").status is Status.PASS


def test_a_set_s_order_of_another_process_is_seen(tmp_path: Path) -> None:
    with script_process(tmp_path, SET_GATEWAY) as rig:
        judged = Judged(options(rig, rig.command("restart"), entries=(Entry.CHAT,), model=MODEL))
    assert judged.codes() == {
        ("PFX-09", "chat"): "tools-reordered-across-restart",
        ("PFX-14", "chat"): "bodies-vary-across-restart",
    }


def test_a_gateway_in_the_foreground_does_not_hang_the_run_and_lives_on(tmp_path: Path) -> None:
    with gateway_process(tmp_path, "tools-by-start") as rig:
        judged = Judged(options(rig, rig.command("foreground")))
        assert set(judged.codes()) == {(rule, entry.value) for rule in ACROSS_RESTART for entry in Entry}
        again = Judged(options(rig, None))
        assert {v.status for v in again.report.verdicts} == {Status.PASS}, "it still answers"
        assert rig.starts == 2


def test_a_command_that_does_nothing_makes_nothing_green(tmp_path: Path) -> None:
    with gateway_process(tmp_path, "tools-by-start") as rig:
        judged = Judged(options(rig, ("true",)))
    assert {(v.status, v.code) for v in judged.report.verdicts} == {(Status.INCONCLUSIVE, "restart-not-seen")}
    assert "nothing showed that the target was restarted" in judged.of("PFX-09").reason
    assert judged.code is ExitCode.INCOMPLETE


def test_a_command_that_fails_accuses_nobody(healthy: Rig) -> None:
    judged = Judged(options(healthy, healthy.command("fails"), rules=("PFX-14",)))
    assert judged.report.verdicts == ()
    assert len(judged.failed) == 2
    assert (healthy.folder / "calls").read_text(encoding="utf-8").split() == ["fails"], "run once, never again"
    said = str(judged.failed[0])
    assert "exit code 3: " in said
    assert "no permission" in said
    for secret in ("sk-abcdefghijk", "Rumpelstilzchen"):
        assert secret not in said


def test_a_gateway_that_stays_away_ends_the_wait(healthy: Rig) -> None:
    judged = Judged(options(healthy, healthy.command("stop"), timeout_s=2.0, rules=("PFX-14",)))
    assert "the target is not back 2 s after" in str(judged.failed[0])
    assert "refused" in str(judged.failed[0])
    assert judged.report.verdicts == ()


def test_a_command_that_never_ends_and_does_nothing_is_stopped(healthy: Rig) -> None:
    judged = Judged(options(healthy, healthy.command("sleeps"), timeout_s=2.0, rules=("PFX-14",)))
    assert "did not end within 2 s, and the target was never away" in str(judged.failed[0])


def test_without_a_recorder_the_command_is_not_run_and_the_report_says_why(healthy: Rig) -> None:
    judged_options = options(healthy, healthy.command("restart"), upstream_listen=None)
    # Without its recorder this gateway has no upstream: the engine is put there by hand.
    config = (healthy.folder / "channels.toml").read_text(encoding="utf-8")
    (healthy.folder / "channels.toml").write_text(
        config.replace(f"http://{healthy.listen}", healthy.engine), encoding="utf-8"
    )
    subprocess.run(healthy.command("restart"), check=True, timeout=60)
    wait(healthy.port, answering=True)
    judged = Judged(judged_options)
    assert "is not run: " in judged.fact()
    assert "needs a recorder: --upstream-listen" in judged.fact()
    assert healthy.starts == 2, "by this test alone"
    assert judged.of("PFX-14").status is Status.NOT_RUN


def prefixproof(rig: Rig, mode: str, *more: str) -> subprocess.CompletedProcess[str]:
    """The command as a user types it."""
    command = " ".join(rig.command(mode))
    return subprocess.run(
        [
            sys.executable, "-m", "conformance.cli", "--target", rig.url, "--model", ALIAS, "--budget", "quick",
            "--engine", rig.engine, "--upstream-listen", rig.listen, "--timeout", "20", "--rules", "PFX-14",
            "--restart-command", command, *more,
        ],
        cwd=ROOT, env={**os.environ, "COLUMNS": "160", "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip


def test_the_command_line_from_plan_to_exit_code(tmp_path: Path) -> None:
    with gateway_process(tmp_path, "tools-by-start") as rig:
        refused = prefixproof(rig, "restart")
        assert refused.returncode == 4
        assert "add --allow-disruptive" in refused.stdout + refused.stderr
        assert rig.starts == 1
        red = prefixproof(rig, "restart", "--allow-disruptive", "--report", str(tmp_path / "report"))
        assert red.returncode == ExitCode.RED, red.stdout
        assert rig.starts == 2
        failed = prefixproof(rig, "fails", "--allow-disruptive")
        assert failed.returncode == ExitCode.SUITE, failed.stdout
    plan, _, result = red.stdout.partition("prefixproof 0.")
    assert "is run once, when all other rules are judged" in " ".join(plan.split())
    assert "after the target was restarted" in " ".join(result.split())
    report = json.loads((tmp_path / "report" / "report.json").read_text(encoding="utf-8"))
    assert "bodies-vary-across-restart" in json.dumps(report)
    told = " ".join(failed.stdout.split())
    assert "ended with exit code 3: " in told
    assert "FAIL" not in told
    for secret in ("sk-abcdefghijk", "Rumpelstilzchen"):
        assert secret not in failed.stdout + failed.stderr


def test_what_does_not_arrive_after_the_restart_is_no_pass(tmp_path: Path) -> None:
    """A channel that is gone after the restart: the engine is asked past the recorder."""
    with gateway_process(tmp_path) as rig:
        asked = options(rig, rig.command("rewired"))
        (tmp_path / "rewired.toml").write_text(
            (tmp_path / "channels.toml").read_text(encoding="utf-8").replace(f"http://{rig.listen}", rig.engine),
            encoding="utf-8",
        )
        judged = Judged(asked)
    assert {(v.status, v.code) for v in judged.report.verdicts} == {(Status.INCONCLUSIVE, "lost-around-restart")}
    assert "3 of 3 requests sent again around a restart" in judged.of("PFX-09").reason
    assert "no such request reached the recorder" in judged.of("PFX-14").reason
    assert judged.code is ExitCode.INCOMPLETE


def test_a_restart_that_nobody_allowed_is_not_made(healthy: Rig) -> None:
    judged = Judged(options(healthy, healthy.command("restart"), allow_disruptive=False, rules=("PFX-14",)))
    assert "is not run: --allow-disruptive is not given" in judged.fact()
    assert healthy.starts == 1
    assert judged.of("PFX-14").status is Status.PASS
    assert "restart" not in judged.of("PFX-14").reason


def test_what_changes_by_itself_before_the_restart_is_not_laid_at_it() -> None:
    """A date in the prompt, and midnight between the early requests and the restart."""
    seen: list[str] = []
    dates = ["2026-11-30"]

    def dated(asked: Asked) -> None:
        request = json.dumps(asked.body)
        if request in seen[:-1] and request != seen[-1]:
            dates.append("2026-12-01")
        seen.append(request)
        asked.body["messages"][0]["content"] += f" Today is {dates[-1]}."

    judged = judge(
        Target(middle=Layer(request=dated)), recorder=True, rules=("PFX-14",), entries=(Entry.CHAT,),
        restart_command=("true",), allow_disruptive=True,
    )  # fmt: skip
    assert len(dates) > 1, "the date changed"
    assert judged.status("PFX-14", Entry.CHAT) is Status.INCONCLUSIVE, judged.said
    assert "another body right before the restart than early in the run" in judged.reason("PFX-14", Entry.CHAT)


def test_a_difference_that_needs_no_restart_is_found_without_one(tmp_path: Path) -> None:
    """Only many tools come in another order each time: one or two of them do not."""
    ran, turn = tmp_path / "ran", iter(range(1_000))

    def turned(asked: Asked) -> None:
        tools = asked.body.get("tools") or []
        if len(tools) >= MANY_TOOLS:
            by = next(turn) % len(tools)
            asked.body["tools"] = tools[by:] + tools[:by]

    judged = judge(
        Target(middle=Layer(request=turned)), recorder=True, rules=("PFX-14",), entries=(Entry.CHAT,),
        restart_command=("touch", str(ran)), allow_disruptive=True,
    )  # fmt: skip
    assert judged.status("PFX-14", Entry.CHAT) is Status.FAIL, judged.said
    assert "sent twice without a restart in between" in judged.reason("PFX-14", Entry.CHAT)
    assert not ran.exists()
