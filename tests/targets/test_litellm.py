"""The suite against a real LiteLLM proxy in front of the embedded engine, as docs/targets/litellm.md describes it.

Opt-in: LiteLLM is a large install and no dependency of this project. The verdicts are those of LiteLLM 1.108.7.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from expected_verdicts import load_expected

from conformance.verdicts import Status

LITELLM = os.environ.get("PREFIXPROOF_LITELLM")
ROOT = Path(__file__).resolve().parents[2]
MODEL = "llm-prime"
"""Goes through the recorder."""

DIRECT = "llm-direct"
"""Goes straight to the engine."""

ENGINE_MODEL = "deepseek-v4-flash"
KEY = "sk-prefixproof-test"
STARTING_S = 180.0
"""LiteLLM imports for ten seconds and more on a small machine."""

pytestmark = pytest.mark.skipif(
    not LITELLM,
    reason="PREFIXPROOF_LITELLM names no litellm executable (pip install 'litellm[proxy]==1.108.7' in its own venv)",
)


@dataclass(frozen=True)
class Setup:
    """LiteLLM's URL, the engine behind it, and the address its channel sends to, where the suite shall listen."""

    url: str
    engine: str
    listen: str


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    folder = tmp_path_factory.mktemp("litellm")
    listen, port = f"127.0.0.1:{_free_port()}", _free_port()
    with ExitStack() as stack:
        engine = stack.enter_context(_engine())
        channels = {MODEL: f"http://{listen}/v1", DIRECT: f"{engine}/v1"}
        url = stack.enter_context(_litellm(folder, port, channels))
        yield Setup(url, engine, listen)


def test_what_is_known_of_it_is_found_with_a_recorder_behind_it(setup: Setup, tmp_path: Path) -> None:
    recorder = ("--engine", setup.engine, "--upstream-listen", setup.listen)
    words = ("--budget", "quick", "--report", str(tmp_path))
    code, output = _run(setup.url, "--model", MODEL, "--api-key", KEY, *recorder, *words)
    assert code == 1, output
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["run"]["vantages"] == ["client", "upstream"]
    seen = _verdicts(report)
    assert seen["PFX-02", "messages"]["status"] == "fail"
    assert seen["USE-01", "messages"]["status"] == "pass"
    assert seen["STR-02", "messages"]["status"] == "pass"
    for entry in ("messages", "chat"):
        assert seen["CON-01", entry]["status"] == "fail"
        assert "parameters.additionalProperties dropped" in seen["CON-01", entry]["reason"]
    known = load_expected()["litellm-1.108.7"]
    accused = {key: cell.root for key, cell in known.items() if cell.verdict in (Status.FAIL, Status.WARN)}
    assert {key: verdict["root"] for key, verdict in seen.items() if verdict["status"] in ("fail", "warn")} == accused
    assert "is_error" in seen["CON-02", "messages"]["reason"]
    assert "parallel_tool_calls" in seen["CON-03", "messages"]["reason"]
    assert "tool inserted" in seen["PFX-16", "messages"]["reason"]


def test_without_a_recorder_cached_counts_show_the_attribution_block(setup: Setup, tmp_path: Path) -> None:
    words = ("--entry", "messages", "--rules", "PFX-*,PIN-*", "--report", str(tmp_path))
    code, output = _run(setup.url, "--model", DIRECT, "--api-key", KEY, *words)
    assert code == 1, output
    seen = _verdicts(json.loads((tmp_path / "report.json").read_text(encoding="utf-8")))
    assert seen["PFX-01", "messages"]["status"] == "pass"
    assert (seen["PFX-02", "messages"]["status"], seen["PFX-02", "messages"]["vantage"]) == ("fail", "client")


@pytest.mark.parametrize(
    ("target", "model", "key", "says"),
    [
        ("{litellm}", "no-such-model", KEY, "knows no model 'no-such-model'"),
        ("{litellm}", MODEL, "sk-wrong-key", "rejects the API key"),
        ("{nobody}", MODEL, KEY, "does not answer (connection refused)"),
        ("{engine}/metrics", MODEL, KEY, "is this the base URL of an LLM gateway?"),
    ],
    ids=["model", "key", "url", "protocol"],
)
def test_what_cannot_be_judged_is_said_in_one_line(setup: Setup, target: str, model: str, key: str, says: str) -> None:
    url = target.format(litellm=setup.url, engine=setup.engine, nobody=f"http://127.0.0.1:{_free_port()}")
    code, output = _run(url, "--model", model, "--api-key", key)
    assert code == 10, output
    assert says in output
    assert key not in output


def _run(url: str, *words: str) -> tuple[int, str]:
    """Exit code and output of `pytest --target URL ...`, its lines joined so that no phrase is broken over two."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--target", url, *words],
        cwd=ROOT, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def _verdicts(report: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(rule["id"], v["entry"]): v for rule in report["rules"] for v in rule["verdicts"]}


@contextmanager
def _engine() -> Iterator[str]:
    command = [sys.executable, "-m", "engine", "serve", "--port", "0", "--model", ENGINE_MODEL]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


@contextmanager
def _litellm(folder: Path, port: int, channels: Mapping[str, str]) -> Iterator[str]:
    config = {
        "model_list": [
            {
                "model_name": name,
                "litellm_params": {
                    "model": f"hosted_vllm/{ENGINE_MODEL}",
                    "api_base": upstream,
                    "api_key": "sk-dummy",
                },
            }
            for name, upstream in channels.items()
        ],
        "litellm_settings": {"num_retries": 0, "telemetry": False},
        "router_settings": {"num_retries": 0, "disable_cooldowns": True},
        "general_settings": {"master_key": KEY},
    }
    path = folder / "config.yaml"
    path.write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_TELEMETRY": "False",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    }
    command = [str(LITELLM), "--config", str(path), "--host", "127.0.0.1", "--port", str(port)]
    url, log = f"http://127.0.0.1:{port}", folder / "litellm.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output) as process,
    ):
        try:
            _wait_for(f"{url}/health/liveliness", process, log)
            yield url
        finally:
            process.terminate()


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    limit = time.monotonic() + STARTING_S
    with httpx.Client(trust_env=False, timeout=5) as client:
        while process.poll() is None and time.monotonic() < limit:
            try:
                if client.get(url).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.5)
    pytest.fail(f"LiteLLM does not answer {url}:\n{log.read_text(encoding='utf-8', errors='replace')[-2000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
