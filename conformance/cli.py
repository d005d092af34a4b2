"""`prefixproof`: the suite, sealed from the pytest settings, plugins and conftests of the folder it is typed in."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill

import pytest

import prefixproof_plugin
from conformance import RULE_SET, __version__
from conformance.asking import TERMINAL
from conformance.report.wording import EXIT_MEANING
from prefixproof_plugin import OPTIONS

HERE = Path(__file__).resolve().parent
SEALED = ("-c", str(HERE / "suite.ini"), "--rootdir", str(HERE), "--prefixproof-sealed")
"""What makes a run of pytest one of the suite and nothing else; the settings are in `suite.ini`."""

FOREIGN_SETTINGS = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD")
DISTRIBUTING = ("-n", "--numprocesses", "--dist", "--tx")

USAGE = """\
usage: prefixproof --target URL --model NAME [options]
       prefixproof [options]"""
ABOUT = (
    "Does your LLM gateway keep the prompt prefix, and does it count cached tokens honestly? With --target it sends "
    "synthetic sessions to a gateway and gives a verdict per rule; without, it judges its own embedded pair of gateway "
    "and engine, as a demonstration. `pytest` with the same options is the same run."
)
HELP_WIDTH = 100

PYTEST_OPTIONS = (
    ("-k EXPRESSION", "run the cases whose name or rule id matches, e.g. -k 'PFX-02 or STR-01'"),
    ("--collect-only", "list the cases, send nothing"),
    ("--junitxml FILE", "pytest's own JUnit file (--report DIR writes one too)"),
    ("--tb short", "show where the suite itself failed"),
    ("-v", "name each case as it runs"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite and return the exit code. `arguments` default to the command line."""
    typed = list(sys.argv[1:] if arguments is None else arguments)
    if "-h" in typed or "--help" in typed:
        sys.stdout.write(help_text() + "\n")
        return 0
    if "--version" in typed or "-V" in typed:
        sys.stdout.write(f"prefixproof {__version__}, rule set {RULE_SET}\n")
        return 0
    for argument in typed:
        if argument.partition("=")[0] in DISTRIBUTING or (argument.startswith("-n") and argument[2:].isdigit()):
            sys.stderr.write(
                f"ERROR: {argument}: the suite sends each session once and in order, so it runs in one process\n"
            )
            return int(pytest.ExitCode.USAGE_ERROR)
    TERMINAL.note()
    with _without_foreign_settings():
        return int(pytest.main([*SEALED, *typed], plugins=[prefixproof_plugin]))


def help_text() -> str:
    """What `--help` prints: the suite's own options, the few of pytest's that help, and the exit codes."""
    lines = [USAGE, "", fill(ABOUT, HELP_WIDTH), "", "options:"]
    for option in OPTIONS:
        lines += _entry(option.short + (f" {option.metavar}" if option.metavar else ""), option.help)
    lines += ["", "of pytest's own options these are useful here:"]
    for name, text in PYTEST_OPTIONS:
        lines += _entry(name, text)
    lines += ["", "exit codes:"]
    for code, meaning in EXIT_MEANING.items():
        lines += _entry(str(int(code)), meaning, column=6)
    lines += _entry("3-5", "as pytest: internal error, wrong options, no case selected", column=6)
    return "\n".join(lines)


def _entry(name: str, text: str, column: int = 30) -> list[str]:
    head = f"  {name}".ljust(column)
    if len(head) > column:
        return [head, fill(text, HELP_WIDTH, initial_indent=" " * column, subsequent_indent=" " * column)]
    return [fill(text, HELP_WIDTH, initial_indent=head, subsequent_indent=" " * column)]


@contextmanager
def _without_foreign_settings() -> Generator[None]:
    """pytest reads options and plugins from the environment too: those are meant for the user's own tests."""
    kept = {name: os.environ.pop(name) for name in FOREIGN_SETTINGS if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)


if __name__ == "__main__":
    sys.exit(main())
