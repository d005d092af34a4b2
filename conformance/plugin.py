"""The inner half of the pytest plugin: collects the cases, runs them on one target and reports their verdicts.

`prefixproof_plugin` activates it in a sealed run only. All state of a run lives in the config's stash.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from conformance import baseline
from conformance.asking import TERMINAL
from conformance.case_run import CaseRun, SuiteRun, SuiteSession
from conformance.casebook import Judge, running_order
from conformance.errors import SuiteProblem, TargetProblem, UsageProblem
from conformance.listing import rule_listing
from conformance.option_values import read_options
from conformance.options import RunOptions
from conformance.report import folder, terminal
from conformance.rules import RULES, select
from conformance.verdicts import Entry, ExitCode
from prefixproof_plugin import API_KEY_VARIABLE, OPTIONS, SUITE_FOLDERS

SESSION = pytest.StashKey[SuiteSession]()
CASE_RUN = pytest.StashKey[CaseRun]()
SUMMARISED = (0, 1, 2, 4, 5)
"""Exit statuses after which pytest asks for a summary; after an internal error or `pytest.exit` it does not."""

QUIET = -2
"""pytest's verbosity in a sealed run, by `suite.ini`; each -v a user types adds one."""


def make_run(options: RunOptions) -> SuiteRun:
    """The one place a run is made."""
    from conformance.run import Run

    run: SuiteRun = Run(options, ask=TERMINAL.ask)
    return run


def suite_folders() -> tuple[Path, ...]:
    """Where the cases are."""
    return SUITE_FOLDERS


def choose_paths(paths: Sequence[str], here: Path) -> list[str]:
    """Paths to collect besides those typed: the suite's folders when none was.

    Raises pytest.UsageError for a path that is not the suite's own.
    """
    own = [folder.resolve() for folder in suite_folders()]
    for path in paths:
        resolved = (here / path.split("::")[0]).resolve()
        if not any(resolved in (place, place.parent) or place in resolved.parents for place in own):
            raise pytest.UsageError(
                f"{path} is not part of the suite: leave it out, or run it without prefixproof's options"
            )
        if not resolved.exists():
            raise pytest.UsageError(f"{path} does not exist")
    return [] if paths else [str(folder) for folder in own]


def list_rules(config: pytest.Config) -> int | None:
    """Print the catalogue where `--list-rules` asks for it; None lets pytest go on."""
    if not config.option.prefixproof_list_rules:
        return None
    options = _options(config)
    sys.stdout.write(rule_listing(select(options.rules), shutil.get_terminal_size().columns) + "\n")
    return 0


def activate(config: pytest.Config) -> None:
    """Make this pytest a run of the suite. Raises pytest.UsageError for options that make no sense."""
    if getattr(config.option, "numprocesses", None) or hasattr(config, "workerinput"):
        raise pytest.UsageError("-n (pytest-xdist) does not go with the suite: it sends each session once and in order")
    config.stash[SESSION] = SuiteSession(_options(config))
    _keep_tracebacks_short(config)
    if config.option.verbose > QUIET:
        config.option.verbose -= QUIET
    elif config.option.collectonly:
        config.option.verbose = -1  # where pytest lists the cases by name
    config.pluginmanager.register(sys.modules[__name__], __name__)


def _keep_tracebacks_short(config: pytest.Config) -> None:
    """Longer forms print arguments and local variables: answers of the target as they came, and the key."""
    if config.option.tbstyle != "no":
        config.option.tbstyle = "short"
    config.option.showlocals = config.option.fulltrace = False


def _options(config: pytest.Config) -> RunOptions:
    given = {option.name: getattr(config.option, option.dest) for option in OPTIONS}
    try:
        return read_options(given, environment_key=os.environ.get(API_KEY_VARIABLE) or None)
    except UsageProblem as problem:
        raise pytest.UsageError(str(problem)) from None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    mark = metafunc.definition.get_closest_marker("rule")
    if mark is not None:
        entries = RULES[mark.args[0]].entries
        metafunc.parametrize("entry", entries, ids=[entry.value for entry in entries])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    session = config.stash[SESSION]
    options = session.options
    wanted = {rule.id for rule in select(options.rules)}
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        mark = item.get_closest_marker("rule")
        if mark is None or not isinstance(item, pytest.Function):
            session.stop(ExitCode.SUITE, f"{item.name} has no @rule(...): it judges nothing")
            continue
        rule, entry = RULES[mark.args[0]], Entry(str(item.callspec.params["entry"]))
        item.stash[CASE_RUN] = CaseRun(rule, entry, session, item)
        item.extra_keyword_matches.update((rule.id, rule.family, rule.level))
        asked = rule.id in wanted and (options.entries is None or entry in options.entries)
        (kept if asked else dropped).append(item)
    whole_suite = [Path(argument) for argument in config.args] == [path.resolve() for path in suite_folders()]
    missing = wanted - {item.stash[CASE_RUN].rule.id for item in kept + dropped}
    if whole_suite and missing:
        session.stop(ExitCode.SUITE, f"no case judges {', '.join(sorted(missing))}")
    restarts = options.may_restart
    items[:] = sorted(kept, key=lambda item: running_order(item.stash[CASE_RUN].rule.id, restarts=restarts))
    if dropped:
        config.hook.pytest_deselected(items=dropped)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Preflight: nothing is sent before this, so `--collect-only` sends nothing. True ends the loop before any case."""
    config = session.config
    suite = config.stash[SESSION]
    if config.option.collectonly:
        return None
    if session.testsfailed:
        suite.stop(ExitCode.SUITE, f"{session.testsfailed} file(s) of cases could not be read: see above")
        return None
    if not session.items or suite.problem is not None:
        return None if suite.problem is None else True
    try:
        if suite.options.report_dir is not None:
            folder.prepare(suite.options.report_dir)
        if suite.options.write_baseline is not None:
            baseline.check_writable(suite.options.write_baseline)
        suite.run = make_run(suite.options)
        config.add_cleanup(suite.run.close)
        suite.run.preflight()
    except UsageProblem as problem:
        suite.run = None
        raise pytest.UsageError(str(problem)) from None
    except TargetProblem as problem:
        suite.stop(ExitCode.TARGET, problem)
        return True
    except Exception as problem:
        suite.stop(ExitCode.SUITE, problem)
        if config.option.tbstyle != "no" and not isinstance(problem, SuiteProblem):
            shown = str(pytest.ExceptionInfo.from_exception(problem).getrepr(style="short"))
            _show(config, disclosed_traceback(suite, shown))
        return True
    _show(config, terminal.header(suite.run.report(), load=suite.options.load, **_look(config)))
    return None


@pytest.fixture
def observed(request: pytest.FixtureRequest, entry: Entry) -> Any:
    """What was observed on this entry: its sessions are sent once per run, by the first case that asks."""
    case = request.node.stash[CASE_RUN]
    assert case.entry is entry
    with case.concluding():
        return case.observed()


@pytest.fixture
def judge(request: pytest.FixtureRequest) -> Judge:
    """Takes the case's one verdict."""
    taker: Judge = request.node.stash[CASE_RUN].judge
    return taker


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    case = pyfuncitem.stash[CASE_RUN]
    with case.concluding():
        result = yield
        if case.verdict is None:
            raise SuiteProblem(f"the case of {case.rule.id} on {case.entry} ended without a verdict")
        return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Everything pytest shows or writes of a case by itself passes the gate: the traceback, and no captured output."""
    report = yield
    suite = item.config.stash[SESSION]
    report.sections.clear()
    if isinstance(report.longrepr, tuple):  # a skip: path, line, reason
        path, line, reason = report.longrepr
        report.longrepr = (path, line, suite.disclosure.text(reason))
    elif report.longrepr is not None:
        report.longrepr = disclosed_traceback(suite, str(report.longrepr))
    return report


def disclosed_traceback(suite: SuiteSession, text: str) -> str:
    """A short traceback as it may be shown: messages of exceptions may quote what a target said."""
    return "\n".join(
        f"E {suite.disclosure.words(line[1:])}" if line.startswith("E ") else suite.disclosure.text(line)
        for line in text.splitlines()
    )


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    suite = session.config.stash[SESSION]
    if exitstatus == pytest.ExitCode.INTERRUPTED and suite.problem is None:
        # Ctrl-C and pytest's own stops: the words and the files name the code the process really ends with.
        suite.exit_code = ExitCode.INTERRUPTED
    elif exitstatus == pytest.ExitCode.INTERNAL_ERROR and suite.problem is None:
        suite.stop(ExitCode.SUITE, "pytest itself failed: see above")
        suite.exit_code = ExitCode.SUITE
    elif suite.problem is not None:
        suite.exit_code = suite.problem.code
    elif suite.run is None:
        return
    else:
        suite.exit_code = suite.run.exit_code()
        if exitstatus == pytest.ExitCode.TESTS_FAILED and suite.exit_code is ExitCode.GREEN:
            # A failure no verdict accounts for, e.g. in pytest's own teardown.
            suite.stop(ExitCode.SUITE, "a case failed outside its judgement: --tb=short shows where")
            suite.exit_code = ExitCode.SUITE
    if suite.options.report_dir is not None:
        try:
            suite.written = folder.write(suite.report(), suite.exit_code, suite.options.report_dir)
        except OSError as error:
            suite.stop(ExitCode.SUITE, f"the report could not be written: {error.strerror}")
            suite.exit_code = ExitCode.SUITE
    whole = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and suite.problem is None
    if suite.options.write_baseline is not None and whole and suite.exit_code is not ExitCode.SUITE:
        _write_baseline(suite, suite.options.write_baseline)
    session.exitstatus = suite.exit_code
    if exitstatus not in SUMMARISED:
        pytest_terminal_summary(session.config)


def _write_baseline(suite: SuiteSession, path: Path) -> None:
    """The run's failures as a baseline; not of a run that ended early, whose silence means nothing."""
    report = suite.report()
    found = baseline.failures_of(report.verdicts, suite.options.baseline or baseline.Baseline(), report.started[:10])
    try:
        baseline.write(found, path)
    except OSError as error:
        suite.stop(ExitCode.SUITE, f"the baseline could not be written: {error.strerror}")
        suite.exit_code = ExitCode.SUITE
    else:
        suite.baseline_written = len(found.entries)


def pytest_terminal_summary(config: pytest.Config) -> None:
    suite = config.stash[SESSION]
    if suite.exit_code is None:
        return
    _show(config, terminal.summary(suite.report(), suite.exit_code, **_look(config)))
    if suite.written:
        _show(config, f"report: {', '.join(suite.written)} in {suite.options.report_dir}\n")
    if suite.baseline_written is not None:
        _show(config, f"baseline: {suite.baseline_written} known failures in {suite.options.write_baseline}\n")


def _look(config: pytest.Config) -> terminal.Look:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    colour = reporter is not None and reporter.hasmarkup
    return {"width": shutil.get_terminal_size().columns, "colour": colour}


def _show(config: pytest.Config, text: str) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.ensure_newline()
        try:
            for line in text.splitlines():
                reporter.write_line(line)
        except BrokenPipeError:  # the reader has seen enough: `prefixproof ... | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
