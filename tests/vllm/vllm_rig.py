"""Real vLLM for tests: a server from a profile, the reference gateway in front of it, the suite and the commands."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.pair import ALIAS
from conformance.servers import serve
from engine.vllm.environment import find
from engine.vllm.launch_profile import load
from engine.vllm.server import VllmServer
from reference_gateway import Channel, GatewayConfig, create_app

ROOT = Path(__file__).resolve().parents[2]
START_S = 1_800.0
"""25 s on an idle machine; a busy one may take many minutes to import vLLM."""

COMMAND_S = 1_800.0
EXTRA = "--kv-transfer-config.kv_connector_extra_config"


@contextmanager
def vllm(profile: str, folder: Path, *flags: str) -> Iterator[VllmServer]:
    """A running vLLM, its log in `folder`."""
    launch = load(profile).overridden(flags)
    server = VllmServer(launch, find(gpu=False), log=folder / f"{profile}.log")
    said: list[str] = []
    try:
        server.start(say=said.append, timeout_s=START_S)
        yield server
    finally:
        server.stop()


@contextmanager
def gateway(upstream: str, model: str, *, fault: str | None = None) -> Iterator[str]:
    """The reference gateway with both switches on; its URL."""
    channel = Channel(
        name="vllm",
        url=f"{upstream}/v1",
        models=(model,),
        aliases={ALIAS: model},
        strip_anthropic_billing_header=True,
        anthropic_messages_exclude_cache=True,
    )
    with serve(create_app(GatewayConfig(channels=(channel,)), fault)) as served:
        yield served.url


@dataclass(frozen=True)
class Judged:
    """One run of the suite."""

    code: int
    output: str
    verdicts: tuple[Mapping[str, Any], ...]
    """One for each rule and entry: `rule` beside the fields of `rules[].verdicts[]` in docs/report-json.md."""

    def status(self, rule: str) -> set[str]:
        """What was said of a rule, on all entries."""
        return {str(v["status"]) for v in self.verdicts if v["rule"] == rule}

    def rules(self, *statuses: str) -> set[str]:
        """Rules of which one of these was said on some entry."""
        return {str(v["rule"]) for v in self.verdicts if v["status"] in statuses}


def suite(target: str, folder: Path, *words: str) -> Judged:
    """Judge `target` in a process of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    done = command("conformance.cli", "--target", target, "--report", str(folder), *words)
    return Judged(done.returncode, done.stdout + done.stderr, verdicts_in(folder))


def verdicts_in(folder: Path) -> tuple[Mapping[str, Any], ...]:
    """What a run's `report.json` says of each rule on each entry; nothing where it wrote none."""
    report = folder / "report.json"
    rules = json.loads(report.read_bytes())["rules"] if report.is_file() else []
    return tuple({"rule": rule["id"], **verdict} for rule in rules for verdict in rule["verdicts"])


def command(module: str, *words: str) -> subprocess.CompletedProcess[str]:
    """One of the project's commands, to its end."""
    return subprocess.run(
        [sys.executable, "-m", module, *words],
        cwd=ROOT, env={**os.environ, "COLUMNS": "140"}, capture_output=True, text=True, timeout=COMMAND_S, check=False,
    )  # fmt: skip


def probe(url: str, *words: str) -> dict[str, tuple[str, str]]:
    """`prefixproof-engine probe`: what it says of each question, and in which words."""
    done = command("engine", "probe", url, "--json", *words)
    assert done.returncode in (0, 1), done.stderr
    return {row["id"]: (row["outcome"], row["said"]) for row in json.loads(done.stdout)}


def outcomes(found: Mapping[str, tuple[str, str]], ids: Sequence[str]) -> list[str]:
    return [found[one][0] for one in ids]


def free_port() -> int:
    with socket.socket() as probing:
        probing.bind(("127.0.0.1", 0))
        port: int = probing.getsockname()[1]
        return port
