"""The outer half of the pytest plugin: the options, and the hand-over to a sealed run of the suite.

This module is loaded by every pytest of an environment prefixproof is installed in. So it imports nothing of the suite,
adds only options named `--prefixproof-*` that nobody else can own, and does nothing at all until one is used. Then the
process is replaced by a sealed run (`conformance.cli`): the project whose folder happens to be the current one has its
own settings, conftest and plugins, and none of them may reach the suite. PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import os
import subprocess
import sys
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).resolve().parent
"""Where the suite's packages lie beside this module: `site-packages`, or the checkout."""

SUITE_FOLDERS = (ROOT / "conformance" / "cache_tests", ROOT / "conformance" / "usage_tests")
OWN_MODULES = ("prefixproof_plugin", "conformance", "engine", "reference_gateway", "load")
API_KEY_VARIABLE = "PREFIXPROOF_API_KEY"


@dataclass(frozen=True, slots=True)
class Option:
    """One option of the suite. Without a metavar it is a flag."""

    name: str
    metavar: str | None
    help: str

    @property
    def dest(self) -> str:
        return "prefixproof_" + self.name.replace("-", "_")

    @property
    def short(self) -> str:
        return f"--{self.name}"

    @property
    def prefixed(self) -> str:
        return f"--prefixproof-{self.name}"


OPTIONS = (
    Option("target", "URL", "gateway to judge, e.g. http://gw:3000; without it the suite judges its own embedded pair"),
    Option("model", "NAME", "model name to ask the target for"),
    Option("api-key", "KEY", f"the target's key; safer in the environment as {API_KEY_VARIABLE}; never shown"),
    Option("entry", "NAME,...", "API paths to judge: messages, chat (default: both)"),
    Option("engine", "URL", "the engine behind the target: where the recorder relays to, and the direct control arm"),
    Option("upstream-listen", "HOST:PORT", "listen here as a recording upstream; point a channel of the gateway at it"),
    Option("fault", "NAME", "break the embedded pair in one named way, to see a rule fail"),
    Option("rules", "GLOB,...", "judge only these rules, e.g. 'PFX-*,USE-01'"),
    Option("list-rules", None, "list the rules and the faults that break them, send nothing"),
    Option(
        "budget",
        "SIZE",
        "prompt tokens to send to each entry, about: quick (60 k), standard (300 k, default), full (2 M)",
    ),
    Option("report", "DIR", "write report.json, report.html, junit.xml and details/ into this folder"),
    Option("baseline", "FILE", "known failures, with reasons: shown, but only others fail the run; stale ones fail it"),
    Option("write-baseline", "FILE", "write this run's failures into a baseline file"),
    Option("allow-unjudged", "FAMILY,...", "do not exit 12 when no rule of cache or usage could be judged"),
    Option(
        "allow-disruptive",
        None,
        "allow what changes gateway or engine for others: --restart-command",
    ),
    Option(
        "restart-command",
        "COMMAND",
        "restarts the target: run once, at the end and without a shell, to compare across it (PFX-09, PFX-14); needs "
        "--allow-disruptive and --upstream-listen",
    ),
    Option("load", None, "also put load on the target: the second tier's and the replicas' rules (L2-*, AFF-01)"),
    Option("yes-load", "HOST", "the target's host once more, where it is not this machine"),
    Option("engine-metrics", "URL", "the engine's /metrics, where they are not at --engine"),
    Option("l2-tokens", "N", "tokens the engine's second tier holds: without it a small one looks like a broken one"),
    Option("seed", "N", "seed of the synthetic sessions (default: 0)"),
    Option(
        "client", "NAME,...", "whose requests the sessions are shaped like, e.g. claude-code-2.1.332 (docs/clients.md)"
    ),
    Option("shape", "SHAPE", "size of the sessions: scaled (about 5 k tokens, default) or full (as real clients)"),
    Option("template", "NAME", "prompt template of the embedded engine: tools-first (default) or system-first"),
    Option("block-size", "N", "cache block of the embedded engine, in tokens (default: 64)"),
    Option("tokenizer", "NAME", "tokenizer of the embedded engine: fast (default) or deepseek"),
    Option("pool-tokens", "N", "tokens the engine's cache holds (default: read from the /metrics of --engine)"),
    Option("pool-share", "PERCENT", "the most of a production engine's cache that a run may fill (default: 2)"),
    Option("timeout", "SECONDS", "how long one request may take (default: 120)"),
)

_TAKEN = pytest.StashKey[Iterable[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = _group(parser)
    for option in OPTIONS:
        _add(group, option.prefixed, option, argparse.SUPPRESS)
    group.addoption("--prefixproof-sealed", action="store_true", default=False, help=argparse.SUPPRESS)


def add_short_options(config: pytest.Config, parser: pytest.Parser) -> None:
    """Give each option its short name unless somebody else owns that.

    Must run after the other plugins have added theirs: whoever adds a name twice fails, and that must never be an
    innocent plugin or conftest.
    """
    if _TAKEN in config.stash:
        return
    group = _group(parser)
    taken: set[str] = set()
    config.stash[_TAKEN] = taken
    for option in OPTIONS:
        try:
            _add(group, option.short, option, option.help)
        except (ValueError, argparse.ArgumentError):
            taken.add(option.short)


def _group(parser: pytest.Parser) -> pytest.OptionGroup:
    return parser.getgroup("prefixproof", "prefixproof (every option also exists as --prefixproof-NAME)")


def _add(group: pytest.OptionGroup, name: str, option: Option, text: str) -> None:
    if option.metavar is None:
        group.addoption(name, dest=option.dest, action="store_true", default=None, help=text)
    else:
        group.addoption(name, dest=option.dest, metavar=option.metavar, default=None, help=text)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, object, object]:
    if early_config.known_args_namespace.prefixproof_sealed:
        _seal(early_config, parser, args)
        return (yield)
    try:
        result = yield
    except KeyboardInterrupt:
        raise
    except BaseException:
        # A conftest that does not load is that project's affair; it must not stop a run that will not use it.
        _hand_over_if_asked(early_config, _parsed(early_config, parser, args))
        raise
    _hand_over_if_asked(early_config, _parsed(early_config, parser, args))
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    if config.option.prefixproof_sealed:
        from conformance.plugin import list_rules

        return list_rules(config)
    # Only an uninstalled checkout gets here undecided: its conftest loads this plugin after the hook above.
    _hand_over_if_asked(config, config.option)
    return None


def pytest_configure(config: pytest.Config) -> None:
    if config.option.prefixproof_sealed:
        from conformance.plugin import activate

        activate(config)
    elif config.rootpath == ROOT:
        config.addinivalue_line("markers", "rule(id): the rule a case of the suite judges")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.prefixproof_sealed or config.option.collectonly:
        return
    if any(folder in item.path.parents for item in items for folder in SUITE_FOLDERS):
        raise pytest.UsageError(
            "the suite and other tests cannot share a run: `pytest` runs the suite, `pytest tests` the project's own"
        )


def _seal(config: pytest.Config, parser: pytest.Parser, args: list[str]) -> None:
    """Inside a sealed run: all names are ours, and without paths the suite's own folders are collected."""
    parser.prog = "prefixproof"
    parser.extra_info.clear()
    add_short_options(config, parser)
    known, unknown = parser.parse_known_and_unknown_args(args, namespace=copy.copy(config.option))
    if not unknown:  # else a mistyped option's value looks like a path, and pytest names the option itself
        from conformance.plugin import choose_paths

        args.extend(choose_paths(known.file_or_dir, config.invocation_params.dir))


def _parsed(config: pytest.Config, parser: pytest.Parser, args: Sequence[str]) -> argparse.Namespace:
    add_short_options(config, parser)
    return parser.parse_known_args(args, namespace=copy.copy(config.option))


def _hand_over_if_asked(config: pytest.Config, known: argparse.Namespace) -> None:
    if known.help or known.version:
        return
    values = [(option, getattr(known, option.dest)) for option in OPTIONS]
    used = [(option, value) for option, value in values if value is not None]
    if not used and not _means_own_suite(config, known.file_or_dir):
        return
    typed = [str(argument) for argument in config.invocation_params.args]
    for name in sorted(config.stash.get(_TAKEN, ())):
        if any(argument == name or argument.startswith(name + "=") for argument in typed):
            raise pytest.UsageError(
                f"{name} belongs to another plugin or conftest here: "
                f"write --prefixproof-{name[2:]}, or use the `prefixproof` command"
            )
    carried = []
    for option, value in used:
        if option.name == "api-key":
            os.environ[API_KEY_VARIABLE] = value
        else:
            carried.append(option.prefixed if option.metavar is None else f"{option.prefixed}={value}")
    _hand_over([*carried, *typed])


def _means_own_suite(config: pytest.Config, paths: Sequence[str]) -> bool:
    """In the checkout, `pytest` without paths, or with paths inside `conformance/`, is a run of the suite."""
    if config.rootpath != ROOT or config.inipath != ROOT / "pyproject.toml":
        return False
    here = config.invocation_params.dir
    if not paths:
        return here == ROOT
    resolved = [(here / path.split("::")[0]).resolve() for path in paths]
    return all(path == ROOT / "conformance" or ROOT / "conformance" in path.parents for path in resolved)


def _hand_over(arguments: list[str]) -> NoReturn:
    """Replace this process by a sealed run with these arguments.

    `-P` keeps the current folder off the import path, where another project may have an `engine` or `load` of its own.
    """
    command = [sys.executable, "-P", str(Path(__file__).resolve()), *arguments]
    sys.stdout.flush()
    sys.stderr.flush()
    if os.name == "posix":
        os.execv(sys.executable, command)  # noqa: S606 - replaced, so that signals and the exit code are the run's own
    raise SystemExit(subprocess.call(command))  # noqa: S603 - our own file, the user's own arguments


def pin_own_modules() -> None:
    """Import the suite's top-level packages from beside this file, whatever else on the path has their names."""
    for name in OWN_MODULES:
        if name not in sys.modules:
            spec = PathFinder.find_spec(name, [str(ROOT)])
            if spec is None or spec.loader is None:
                raise ImportError(f"prefixproof is incomplete: no {name} beside {Path(__file__).name}")
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)


def main() -> int:
    """The `prefixproof` command; returns its exit code."""
    pin_own_modules()
    from conformance import cli

    return cli.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
