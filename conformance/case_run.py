"""One case on one entry under pytest, and the session it belongs to: how a verdict becomes a test outcome."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Protocol

import pytest

from conformance import RULE_SET, __version__
from conformance.disclosure import Disclosure
from conformance.errors import RestartFailed, SendingStopped, SuiteProblem, TargetProblem, VantageMissing
from conformance.options import RunOptions
from conformance.redact import public_url
from conformance.report.as_junit import properties
from conformance.report.wording import explain
from conformance.rules import Rule
from conformance.verdicts import Entry, ExitCode, RunReport, Status, Verdict

LONGEST_ERROR = 300


class SuiteRun(Protocol):
    """What the plugin needs of `conformance.run.Run`."""

    @property
    def entries(self) -> tuple[Entry, ...]: ...
    def preflight(self) -> None: ...
    def observed(self, entry: Entry, /) -> Any: ...
    def record(self, verdict: Verdict, /) -> None: ...
    def sent_texts(self) -> Sequence[str]: ...
    def report(self) -> RunReport: ...
    def exit_code(self) -> ExitCode: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a run could not judge its target: the exit code and one line."""

    code: ExitCode
    line: str


@dataclass
class SuiteSession:
    """State of one run of the suite."""

    options: RunOptions
    run: SuiteRun | None = None
    problem: Problem | None = None
    exit_code: ExitCode | None = None
    written: tuple[str, ...] = ()
    baseline_written: int | None = None
    started: datetime = field(default_factory=lambda: datetime.now(UTC))

    @cached_property
    def disclosure(self) -> Disclosure:
        """The gate everything passes that this run writes."""
        return Disclosure((self.options.api_key,), self._sent_texts)

    def _sent_texts(self) -> Sequence[str]:
        options = self.options
        program = options.restart_command[0] if options.restart_command else None
        given = (options.target, options.model, options.engine, options.upstream_listen, program)
        typed = [text or "" for text in given]
        return [*typed, *(self.run.sent_texts() if self.run is not None else ())]

    def stop(self, code: ExitCode, error: BaseException | str) -> None:
        """Note the first problem that ended the run; later ones follow from it."""
        if self.problem is None:
            self.problem = Problem(code, self.one_line(error) if isinstance(error, BaseException) else error)

    def one_line(self, error: BaseException) -> str:
        """An exception as one line without secrets; its type too, and no word nobody knows, unless it was meant."""
        text = self.disclosure.text(" ".join(str(error).split()))
        if not isinstance(error, (SendingStopped, TargetProblem, SuiteProblem, VantageMissing)):
            text = self.disclosure.words(text)
            text = f"{type(error).__name__}: {text}" if text else type(error).__name__
        return text if len(text) <= LONGEST_ERROR else text[: LONGEST_ERROR - 1] + "…"

    def report(self) -> RunReport:
        """The report as it may be written."""
        report = self.run.report() if self.run is not None else self._empty_report()
        if self.problem is not None:
            report = replace(report, problem=self.problem.line)
        return self.disclosure.report(report)

    def _empty_report(self) -> RunReport:
        options = self.options
        return RunReport(
            suite_version=__version__,
            rule_set=RULE_SET,
            target=public_url(options.target) if options.target else "embedded pair",
            model=options.model or "",
            entries=options.entries or tuple(Entry),
            vantages=(),
            fault=options.fault,
            budget=options.budget.value,
            seed=options.seed,
            started=self.started.isoformat(timespec="seconds"),
            seconds=0.0,
            requests_sent=0,
            prompt_tokens_planned=0,
            prompt_tokens_sent=0,
            unjudged_allowed=options.allow_unjudged,
            baseline=options.baseline.state(()) if options.baseline else None,
        )


@dataclass
class CaseRun:
    """One case on one entry: takes its one verdict and turns it into pytest's outcome."""

    rule: Rule
    entry: Entry
    session: SuiteSession
    item: pytest.Item
    verdict: Verdict | None = None

    def observed(self) -> Any:
        """What was observed on this entry; ends the case where there is nothing to judge."""
        run = self._run()
        if self.session.problem is not None:
            self._end(Status.INCONCLUSIVE, f"the run had ended: {self.session.problem.line}")
        if self.entry not in run.entries:
            self._end(Status.NOT_APPLICABLE, f"the target has no {self.entry.path}")
        return run.observed(self.entry)

    def judge(self, verdict: Verdict) -> None:
        """Take the case's verdict: fails the test, skips it, or lets it pass.

        Raises SuiteProblem for a second verdict or one on another rule or entry.
        """
        if (verdict.rule, verdict.entry) != (self.rule.id, self.entry):
            raise SuiteProblem(f"the case of {self.rule.id} on {self.entry} judged {verdict.rule} on {verdict.entry}")
        if self.verdict is not None:
            raise SuiteProblem(f"the case of {self.rule.id} on {self.entry} gave a second verdict")
        if verdict.status is Status.FAIL and not self.rule.is_must:
            verdict = replace(verdict, status=Status.WARN)
        baseline = self.session.options.baseline
        if baseline is not None:
            verdict = baseline.marked(verdict)
        verdict = self._record(verdict)
        if verdict.known is not None:
            pytest.xfail(f"known: {verdict.known}")
        if verdict.status in (Status.FAIL, Status.ERROR):
            pytest.fail(explain(self.rule, verdict), pytrace=False)
        elif verdict.status not in (Status.PASS, Status.WARN):
            pytest.skip(f"{verdict.status}: {verdict.reason}")

    @contextmanager
    def concluding(self) -> Generator[None]:
        """Whatever a case raises becomes a verdict: none is lost, and none is green by accident."""
        try:
            yield
        except SendingStopped as error:
            self._end(Status.INCONCLUSIVE, self.session.one_line(error))
        except VantageMissing as error:
            self._end(Status.NOT_RUN, self.session.one_line(error))
        except TargetProblem as error:
            self.session.stop(ExitCode.TARGET, error)
            self._end(Status.INCONCLUSIVE, self.session.one_line(error))
        except RestartFailed as error:
            self.session.stop(ExitCode.SUITE, error)
            self._end(Status.INCONCLUSIVE, self.session.one_line(error))
        except Exception as error:
            self._record(self._own(Status.ERROR, self.session.one_line(error)))
            raise

    def _end(self, status: Status, reason: str) -> None:
        verdict = self._record(self._own(status, reason))
        pytest.skip(f"{status}: {verdict.reason}")

    def _own(self, status: Status, reason: str) -> Verdict:
        return Verdict(
            rule=self.rule.id, entry=self.entry, status=status, reason=reason, vantage=self.rule.evidence[0], n=0
        )

    def _record(self, verdict: Verdict) -> Verdict:
        """Keep the verdict as it may be shown; returns that."""
        self.verdict = self.session.disclosure.verdict(verdict)
        self._run().record(self.verdict)
        self.item.user_properties += properties(self.rule, self.verdict)
        return self.verdict

    def _run(self) -> SuiteRun:
        if self.session.run is None:
            raise SuiteProblem("a case ran before the preflight")
        return self.session.run
