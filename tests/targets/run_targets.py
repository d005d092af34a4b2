"""`make targets`: install, start and judge gateways nobody here wrote, and compare with what they are known to do.

    python tests/targets/run_targets.py [NAME ...] [--budget quick] [--write docs/targets/README.md]

Reports are kept in `reports/targets`: NAME.json is the raw report, NAME/ has the other forms, `details/` and every log.
Exit 0: every cell of `expected.toml` was observed as it says. 1: some differ. 2: some target could not be judged.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expected_verdicts import Difference, Expected, Key, differences, failures_not_listed, load_expected
from gateway_install import install
from gateway_process import ROOT, engine, free_port, running
from gateway_spec import Gateway, Place, TargetsError, load, names
from verdict_table import write_documents

from conformance.recorder import relay

REPORTS = ROOT / "reports" / "targets"
JUDGING_S = 1_200
KEY = "sk-prefixproof-dummy"
"""Not a key of anything: some gateways want to see one."""


@dataclass(frozen=True)
class Judged:
    """One target's report."""

    gateway: Gateway
    report: dict[str, Any]
    seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        expected = load_expected()
        # In the table's order, which puts the most used first.
        gateways = [load(name) for name in options.names or [*expected, *(set(names()) - set(expected))]]
    except TargetsError as error:
        sys.stderr.write(f"targets: {error}\n")
        return 2
    judged: list[Judged] = []
    broken, found = [], {}
    for gateway in gateways:
        try:
            result = judge(gateway, budget=options.budget, client_only=options.client_only, reports=options.reports)
        except (TargetsError, OSError, subprocess.TimeoutExpired) as error:
            _say(gateway.name, f"could not be judged: {error}")
            broken.append(gateway.name)
            continue
        judged.append(result)
        if not options.client_only:
            found[gateway.name] = _compare(result, expected.get(gateway.name, {}))
    differing = [name for name, cells in found.items() if cells]
    _summary(judged, differing, broken, options.reports)
    if broken or differing:
        return 2 if broken else 1
    if options.write:
        write_documents(options.write, [(j.gateway, j.report) for j in judged], expected)
    return 0


def judge(gateway: Gateway, *, budget: str, client_only: bool = False, reports: Path = REPORTS) -> Judged:
    """Install, start, judge, stop. Raises `TargetsError`, `OSError` or `subprocess.TimeoutExpired`."""
    begun = time.monotonic()
    name = gateway.name + ("-client-only" if client_only else "")
    folder = reports / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    installed = install(gateway, lambda text: _say(gateway.name, text))
    (folder / "packages.txt").write_text(installed.packages, encoding="utf-8")
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="prefixproof-", ignore_cleanup_errors=True)))
        log = folder / "engine.log"
        upstream = stack.enter_context(engine(log, messages=gateway.upstream != "chat", folder=home))
        listen = f"127.0.0.1:{free_port()}"
        place = Place(home, free_port(), upstream if client_only else f"http://{listen}")
        _say(gateway.name, "starting ...")
        with ExitStack() as standing_in:
            if gateway.start.needs_upstream and not client_only:
                # The suite's recorder listens only while the suite runs.
                standing_in.enter_context(relay(upstream, listen=listen))
            url = stack.enter_context(running(gateway, installed, place, folder / "gateway.log"))
        _say(gateway.name, "judging ...")
        words = ["--target", url, "--model", gateway.model, "--budget", budget, "--report", str(folder)]
        words += ["--entry", *gateway.entries] if len(gateway.entries) == 1 else []
        words += [] if client_only else ["--engine", upstream, "--upstream-listen", listen]
        report = _suite(words, folder)
    (reports / f"{name}.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return Judged(gateway, report, time.monotonic() - begun)


def _suite(words: list[str], folder: Path) -> dict[str, Any]:
    environment = {**os.environ, "PREFIXPROOF_API_KEY": KEY, "COLUMNS": "110"}
    with (folder / "suite.txt").open("wb") as output:
        done = subprocess.run(
            [sys.executable, "-m", "conformance.cli", *words],
            cwd=ROOT, env=environment, stdout=output, stderr=output, timeout=JUDGING_S, check=False,
        )  # fmt: skip
    path = folder / "report.json"
    report: dict[str, Any] = json.loads(path.read_bytes()) if path.is_file() else {}
    if not report or report["problem"] or done.returncode not in (0, 1, 12):
        why = report.get("problem") or f"exit {done.returncode}, see {folder / 'suite.txt'}"
        raise TargetsError(f"the suite could not judge it: {why}")
    return report


def _compare(judged: Judged, expected: Mapping[Key, Expected]) -> list[Difference]:
    name, report = judged.gateway.name, judged.report
    found = differences(expected, report)
    for difference in found:
        _say(name, f"DIFFERS {difference}")
    for rule, entry in failures_not_listed(expected, report):
        _say(name, f"not in expected.toml, look at it: {rule} {entry} failed")
    _say(name, f"{len(expected) - len(found)} of {len(expected)} listed cells as expected, {judged.seconds:.0f} s")
    return found


def _summary(judged: list[Judged], differing: list[str], broken: list[str], reports: Path) -> None:
    lines = [f"{len(judged)} targets judged, reports in {reports}"]
    lines += [f"not as expected: {', '.join(differing)}"] if differing else []
    lines += [f"not judged: {', '.join(broken)}"] if broken else []
    sys.stdout.write("\n".join(lines) + "\n")


def _say(name: str, text: str) -> None:
    sys.stdout.write(f"{name}: {text}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="run_targets", description="Judge gateways nobody here wrote.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"targets, all by default: {', '.join(names())}")
    parser.add_argument(
        "--budget",
        choices=["quick", "standard", "full"],
        default="standard",
        help="the suite's own (default: standard)",
    )
    parser.add_argument("--client-only", action="store_true", help="without a recorder; nothing is compared")
    parser.add_argument("--reports", type=Path, default=REPORTS, help="where reports and logs go")
    parser.add_argument(
        "--write",
        type=Path,
        metavar="FILE",
        help="rewrite the tables in this document and the pages beside it, if all is as expected",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
