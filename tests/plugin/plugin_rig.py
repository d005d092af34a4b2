"""A rig for the plugin: the sealed run as `prefixproof` starts it, with a run that answers by a script."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import prefixproof_plugin
from conformance import RULE_SET, __version__, plugin
from conformance.casebook import Judge
from conformance.cli import SEALED
from conformance.options import RunOptions
from conformance.rules import RULES, select
from conformance.verdicts import Entry, ExitCode, RunReport, Status, Vantage, Verdict, exit_code

Play = Verdict | BaseException | Callable[[Judge], None]
Script = Mapping[tuple[str, Entry], Play]


class Outcomes(NamedTuple):
    """How many tests ended how."""

    passed: int = 0
    skipped: int = 0
    failed: int = 0


def outcomes(result: pytest.RunResult) -> Outcomes:
    """What became of the tests of an in-process run; a quiet run prints no such line."""
    recorder: pytest.HookRecorder = vars(result)["reprec"]
    return Outcomes(*recorder.countoutcomes())


CASE = """
@pytest.mark.rule({rule!r})
def test_{name}(observed, judge):
    observed({rule!r}, judge)
"""


def verdict(rule: str, entry: Entry, status: Status, reason: str = "seen", **more: Any) -> Verdict:
    """A verdict with the fields a test does not care for filled in."""
    fields: dict[str, Any] = {"vantage": Vantage.CLIENT, "n": 3} | more
    return Verdict(rule=rule, entry=entry, status=status, reason=reason, **fields)


@dataclass
class ScriptedRun:
    """Stands for `conformance.run.Run`: every rule passes unless the script says otherwise; counts what it is asked."""

    options: RunOptions
    script: Script = field(default_factory=dict)
    preflight_error: BaseException | None = None
    entries: tuple[Entry, ...] = tuple(Entry)
    verdicts: list[Verdict] = field(default_factory=list)
    preflights: int = 0
    asked: list[Entry] = field(default_factory=list)
    closed: bool = False

    def preflight(self) -> None:
        self.preflights += 1
        if self.preflight_error is not None:
            raise self.preflight_error

    def observed(self, entry: Entry) -> Callable[[str, Judge], None]:
        self.asked.append(entry)
        whole = self.script.get(("*", entry))
        if isinstance(whole, BaseException):
            raise whole

        def play(rule: str, judge: Judge) -> None:
            scene = self.script.get((rule, entry), verdict(rule, entry, Status.PASS))
            if isinstance(scene, BaseException):
                raise scene
            if isinstance(scene, Verdict):
                judge(scene)
            else:
                scene(judge)

        return play

    def record(self, verdict: Verdict) -> None:
        self.verdicts.append(verdict)

    def sent_texts(self) -> tuple[str, ...]:
        return ()

    def report(self) -> RunReport:
        return RunReport(
            suite_version=__version__,
            rule_set=RULE_SET,
            target=self.options.target or "embedded pair",
            model=self.options.model or "m",
            entries=self.entries,
            vantages=(Vantage.CLIENT,),
            fault=self.options.fault,
            budget=self.options.budget.value,
            seed=self.options.seed,
            started="2026-11-29T09:25:22+00:00",
            seconds=1.0,
            requests_sent=9,
            prompt_tokens_planned=1000,
            prompt_tokens_sent=900,
            verdicts=tuple(self.verdicts),
            baseline=self.options.baseline.state(self.verdicts) if self.options.baseline else None,
        )

    def exit_code(self) -> ExitCode:
        return exit_code(
            self.report().results,
            families_of={rule.id: rule.family for rule in RULES.values()},
            musts=frozenset(rule.id for rule in RULES.values() if rule.is_must),
            requested=sorted({rule.family for rule in select(self.options.rules)}),
            allowed_unjudged=self.options.allow_unjudged,
            stale=bool(self.options.baseline and self.options.baseline.state(self.verdicts).stale),
        )

    def close(self) -> None:
        self.closed = True


class Rig:
    """Runs the suite sealed, in this process, on cases that play the script of a `ScriptedRun`."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pytester = pytester
        self.runs: list[ScriptedRun] = []
        self.prototype = ScriptedRun(RunOptions())
        monkeypatch.setenv("COLUMNS", "100")
        monkeypatch.setattr(plugin, "make_run", self._make)
        self.folder = pytester.mkdir("cases")
        monkeypatch.setattr(plugin, "suite_folders", lambda: (self.folder,))
        self.write("".join(CASE.format(rule=rule, name=rule.lower().replace("-", "_")) for rule in RULES))

    def write(self, text: str, name: str = "test_cases.py") -> Path:
        path = self.folder / name
        path.write_text("import pytest\n" + text, encoding="utf-8")
        return path

    def run(self, *arguments: str, script: Script | None = None) -> pytest.RunResult:
        self.prototype = replace(self.prototype, script=script or {})
        plugins = [prefixproof_plugin]
        return self.pytester.runpytest_inprocess(*SEALED, *arguments, plugins=plugins, no_reraise_ctrlc=True)

    @property
    def last(self) -> ScriptedRun:
        """The run the last command made."""
        return self.runs[-1]

    def _make(self, options: RunOptions) -> ScriptedRun:
        fresh = replace(self.prototype, options=options, verdicts=[], asked=[])
        self.runs.append(fresh)
        return fresh
