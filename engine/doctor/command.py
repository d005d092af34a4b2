"""`prefixproof-engine doctor`: what is given, read and told."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from engine.doctor.cause import Evidence, removal, walk
from engine.doctor.finding import Finding, Weight
from engine.doctor.groups import Group, groups_of, read_config
from engine.doctor.installation import inspect_installation
from engine.doctor.launch import Launch, LaunchError, from_argument
from engine.doctor.logs import LogSummary, lines_of, rotated, summarise
from engine.doctor.traps import lint
from engine.metrics import Reading, read
from engine.scrape import MetricsError, fetch

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_command(commands: Commands) -> None:
    """Add `doctor` to the command line."""
    parser = commands.add_parser(
        "doctor",
        help="look for known traps, and for the cause when L2 stores and never loads",
        description="Give what there is: metrics, logs, the launch, the model's config.json. Exit 1 "
        "where a trap is found.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--metrics", metavar="URL|FILE", help="the engine's /metrics, or what it answered")
    add("--log", action="append", default=[], type=Path, metavar="FILE", help="vLLM's log, with what it was rotated to")
    add("--config", metavar="LAUNCH", help="the launch: a profile, a file, or the command line in quotes")
    add("--model-config", type=Path, metavar="FILE", help="the model's config.json, or its folder")
    add("--vllm-version", metavar="X.Y.Z", help="where neither log nor engine tells it")
    add("--installation", type=Path, metavar="DIR", help="compare vLLM's scheduler files with its release")
    add("--json", action="store_true", help="the same as JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    try:
        evidence, findings = _gather(arguments)
    except (LaunchError, MetricsError) as error:
        sys.stderr.write(f"prefixproof-engine: {error}\n")
        return 2
    if arguments.json:
        sys.stdout.write(json.dumps(_as_json(evidence, findings), indent=1, default=str) + "\n")
    else:
        sys.stdout.write("\n".join(_lines(evidence, findings)) + "\n")
    never_read = evidence.write_only and evidence.too_early is None
    return 1 if never_read or any(f.weight is Weight.TRAP for f in findings) else 0


def _gather(arguments: argparse.Namespace) -> tuple[Evidence, list[Finding]]:
    if not any((arguments.metrics, arguments.log, arguments.config, arguments.installation)):
        raise LaunchError("doctor: give at least one of --metrics, --log, --config, --installation")
    log = summarise(file for path in arguments.log for file in rotated(path)) if arguments.log else None
    reading = read(fetch(arguments.metrics)) if arguments.metrics else None
    launch = from_argument(arguments.config) if arguments.config else (log.launch if log else None)
    installation = inspect_installation(arguments.installation) if arguments.installation else None
    version = arguments.vllm_version or (log.version if log else None) or _version(arguments.metrics)
    version = version or (installation.version if installation else None)
    groups = _groups(arguments.model_config, launch)
    evidence = Evidence(launch, groups, version, reading, log, installation)
    findings = lint(launch, groups, version) if launch else []
    return evidence, findings + _seen(evidence)


def _groups(path: Path | None, launch: Launch | None) -> tuple[Group, ...]:
    if path is not None:
        return groups_of(read_config(path), launch or Launch("nothing"))
    if launch is not None and (Path(launch.model) / "config.json").is_file():
        return groups_of(read_config(Path(launch.model)), launch)
    return ()


def _version(metrics: str | None) -> str | None:
    """The version a live engine tells."""
    if not metrics or "://" not in metrics:
        return None
    failures = (httpx.HTTPError, ValueError, KeyError, TypeError)
    with contextlib.suppress(*failures), httpx.Client(trust_env=False, timeout=5) as client:
        return str(client.get(httpx.URL(metrics).copy_with(path="/version", query=None)).json()["version"])
    return None


def _seen(evidence: Evidence) -> list[Finding]:
    """Traps that show in a running engine or its log."""
    found = []
    reading, log, launch = evidence.reading, evidence.log, evidence.launch
    if reading and reading.prefix_caching is False and not (launch and launch.switch("enable-prefix-caching") is False):
        found.append(
            Finding(
                "caching-off",
                Weight.TRAP,
                "the engine says that prefix caching is off: neither tier is read",
                "drop --no-enable-prefix-caching",
            )
        )
    if evidence.installation and evidence.installation.changed:
        found.append(
            Finding(
                "patched",
                Weight.DOUBT,
                f"{', '.join(evidence.installation.changed)} "
                f"differ from the release: "
                "what is said by version may not hold",
                "put the released files back for one run",
            )
        )
    wanted = (launch.number("tensor-parallel-size") or 1) if launch else 0
    if log and log.ranks and launch and len(log.ranks) != wanted:
        found.append(
            Finding(
                "ranks",
                Weight.DOUBT,
                f"{len(log.ranks)} tensor-parallel ranks speak in "
                f"the log, the launch has "
                f"{wanted}: a store completes when all of them have answered",
                "look for the worker that is missing, or for two launches in one log",
            )
        )
    if log and launch and log.launch and launch is not log.launch:
        found += _differing(launch, log.launch)
    return found


def _differing(given: Launch, logged: Launch) -> list[Finding]:
    """What the log says of its launch against what was given."""
    watched = ("block-size", "prefix-cache-retention-interval", "tensor-parallel-size")
    return [
        Finding(
            "other-launch",
            Weight.DOUBT,
            f"--{name} is {given.flags.get(name, 'unset')} as given and {logged.flags.get(name, 'unset')} in the log",
            "give the launch that made the log",
        )
        for name in watched
        if str(given.flags.get(name)) != str(logged.flags.get(name))
    ]


def _lines(evidence: Evidence, findings: list[Finding]) -> list[str]:
    lines = [_head(evidence)]
    if evidence.log:
        lines += ["", _log_head(evidence.log)]
        lines += [f"  {name:<31} {value}" for name, value in lines_of(evidence.log)]
    lines.append("")
    for finding in findings:
        refs = f" (vllm-project/vllm {', '.join(map(str, finding.upstream))})" if finding.upstream else ""
        lines.append(f"{finding.weight.value:<6} {finding.id}: {finding.said}{refs}")
        if finding.remedy:
            lines.append(f"       -> {finding.remedy}")
    if not findings:
        lines.append("no known trap in what was given")
    if evidence.write_only:
        early = evidence.too_early
        lines += [
            "",
            f"the tier stores and has not loaded yet, which may be no fault: {early}"
            if early
            else "the tier stores and never loads, unless no prompt ever came back:",
        ]
        lines += [f"  {n}. {step.asked} {step.found}" for n, step in enumerate(walk(evidence))]
        if (freed := removal(evidence)) is not None:
            lines.append(f"  {freed}")
        lines.append("  no remedy: --kv-offloading-size, another door to the same connector")
    return lines


def _head(evidence: Evidence) -> str:
    groups = ", ".join(map(str, evidence.groups)) or "not known"
    launch = evidence.launch.source if evidence.launch else "not given"
    return f"vLLM {evidence.version or 'of unknown version'}; launch: {launch}; KV groups: {groups}"


def _log_head(log: LogSummary) -> str:
    return f"log: {log.lines:,} lines in {log.files} files"


def _as_json(evidence: Evidence, findings: list[Finding]) -> dict[str, Any]:
    reading: Reading | None = evidence.reading
    return {
        "version": evidence.version,
        "launch": evidence.launch.source if evidence.launch else None,
        "groups": [str(group) for group in evidence.groups],
        "findings": [asdict(finding) for finding in findings],
        "counters": asdict(reading.counters) if reading else None,
        "log": dict(lines_of(evidence.log)) if evidence.log else None,
        "write_only": evidence.write_only,
        "too_early": evidence.too_early,
        "steps": [asdict(step) for step in walk(evidence)] if evidence.write_only else [],
    }
