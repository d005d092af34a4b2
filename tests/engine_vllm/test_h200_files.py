"""What is prepared for a machine with a GPU, as far as it goes without one: the compose service, the script."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.vllm.launch_profile import load

FILES = Path(__file__).parents[2] / "engine" / "vllm"
SCRIPT = FILES / "h200_check.sh"
COMPOSE = (FILES / "compose.yaml").read_text(encoding="utf-8")

STAND_IN = """#!/bin/sh
# Stands in for the interpreter: notes what it is asked to run, and ends with the code that CODES names for it.
printf '%s\\n' "$*" >> "$CALLS"
case "$1" in
    -c | -) exec "$REAL" "$@" ;;
esac
case "$*" in
    *"engine serve"*) exec "$REAL" -u "$SERVER" ;;
    *reference_gateway*) exec "$REAL" -m http.server --bind 127.0.0.1 "$6" ;;
esac
for pair in $CODES; do
    case "$*" in *"${pair%%=*}"*) exit "${pair##*=}" ;; esac
done
exit 0
"""
SERVER = """
import http.server, signal, sys
class Models(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"data": [{"id": "m"}]}')
    def log_message(self, *words):
        pass
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
server = http.server.HTTPServer(("127.0.0.1", 0), Models)
print(f"prefixproof-engine: m at http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
"""


def check(tmp_path: Path, *words: str, **variables: str) -> tuple[int, list[str], str]:
    """Run the script with a stand-in interpreter: exit code, what it ran, and the summary it left."""
    for name, text in (("python", STAND_IN), ("server.py", SERVER)):
        (tmp_path / name).write_text(text)
    (tmp_path / "python").chmod(0o755)
    calls = tmp_path / "calls.txt"
    environment = {
        **os.environ, "PYTHON": str(tmp_path / "python"), "REAL": sys.executable, "CALLS": str(calls),
        "SERVER": str(tmp_path / "server.py"), "CODES": "", **variables,
    }  # fmt: skip
    done = subprocess.run(
        [str(SCRIPT), str(tmp_path / "report"), *words],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    summary = (tmp_path / "report" / "summary.txt").read_text()
    return done.returncode, calls.read_text().splitlines(), summary


def commands(calls: list[str]) -> list[str]:
    found = [re.match(r"-m (engine \w+|conformance\.cli|reference_gateway)", call) for call in calls]
    return [match[1] for match in found if match]


def test_the_script_starts_probes_asks_judges_and_ends(tmp_path: Path) -> None:
    code, calls, summary = check(tmp_path, "h200-deepseek-v4-flash", "/weights", "--max-model-len", "1000")
    assert code == 0
    assert commands(calls) == [
        *("engine serve", "engine inspect", "engine probe", "engine probe", "engine inspect", "engine doctor"),
        *("reference_gateway", "conformance.cli"),
    ]
    assert calls[0].startswith("-m engine serve --backend vllm --profile h200-deepseek-v4-flash --port 0 --log ")
    assert calls[0].endswith(" /weights --max-model-len 1000")
    assert "vLLM ended: exit 0" in summary
    assert 'models = ["m"]' in (tmp_path / "report" / "channels.toml").read_text()


@pytest.mark.parametrize(
    ("codes", "expected"), [("doctor=1", 1), ("probe=2", 2), ("conformance.cli=12 doctor=1", 2), ("", 0)]
)
def test_the_worst_step_is_its_exit_code(codes: str, expected: int, tmp_path: Path) -> None:
    code, _, summary = check(tmp_path, CODES=codes)
    assert code == expected
    for pair in codes.split():
        assert f"exit {pair.split('=')[1]}" in summary


def test_an_engine_that_runs_already_is_not_started(tmp_path: Path) -> None:
    code, calls, _ = check(tmp_path, URL="http://127.0.0.1:9")
    assert "engine serve" not in commands(calls)
    assert "engine probe" in commands(calls)
    assert code == 0


def test_the_compose_service_is_the_profile() -> None:
    """Flag for flag: variables of the compose file stand at their defaults."""
    shown = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", COMPOSE.partition("command:\n")[2])
    words = [line.strip().removeprefix("- ").strip("'") for line in shown.splitlines() if line.strip()]
    held: dict[str, Any] = {}
    for word in words[1:]:
        name, equals, value = word.removeprefix("--").partition("=")
        if word.startswith("--"):
            held[name] = json.loads(value) if value.startswith("{") else value if equals else []
        else:
            held[next(reversed(held))].append(word)
    expected: dict[str, Any] = {"host": "0.0.0.0", "port": "8000"}  # noqa: S104 - inside the container
    for flag, setting in load("h200-deepseek-v4-flash").flags.items():
        if isinstance(setting, bool):
            expected[flag if setting else f"no-{flag}"] = []
        else:
            expected[flag] = setting if isinstance(setting, list | dict) else str(setting)
    assert held == expected
