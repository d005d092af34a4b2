"""A whole run against targets that repeat the key and somebody's text everywhere: neither is in anything written."""

from __future__ import annotations

import html
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from leaking_target import MARKS, Injecting, Leaking, encodings

from conformance.servers import serve
from engine.embedded import EngineConfig
from engine.embedded import create_app as engine_app

ROOT = Path(__file__).parents[2]
KEY = 'Zq9"K/vx+7Lm\\nOpq=3rTuW'
"""Printable, as a header must be, and with all that JSON, HTML, URLs and base64 write in ways of their own."""

LOUD = ("-v", "-rA", "--tb=long", "--showlocals", "--full-trace", "--show-capture=all")
"""What makes pytest say more."""


def run(target: str, folder: Path, *more: str) -> tuple[int, dict[str, str]]:
    """Judge a target; the exit code, and everything written: both outputs and each file."""
    environment = {**os.environ, "PREFIXPROOF_API_KEY": KEY, "ANTHROPIC_LOG": "debug", "OPENAI_LOG": "debug"}
    done = subprocess.run(
        [
            sys.executable, "-m", "conformance.cli", "--target", target, "--model", "llm-prime", "--budget", "quick",
            "--report", str(folder / "report"), "--junitxml", str(folder / "pytest.xml"), "--timeout", "20",
            *LOUD, *more,
        ],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    written = {"stdout": done.stdout, "stderr": done.stderr}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        written[path.relative_to(folder).as_posix()] = path.read_text(encoding="utf-8")
    return done.returncode, written


def leaks(written: dict[str, str]) -> list[str]:
    """Where a form of the key, or a word of the foreign text, can be read."""
    found = []
    for name, text in written.items():
        for reading in (text, html.unescape(text), text.replace("\\\\", "\\").replace('\\"', '"')):
            lower = reading.lower()
            found += [f"{name}: the key as {form}" for form in encodings(KEY) if form.rstrip("=") in reading]
            found += [f"{name}: the key" for form in (KEY, KEY[:12], KEY[-12:]) if form.lower() in lower]
            found += [
                f"{name}: {mark}: ...{lower[max(0, lower.index(mark) - 60) :][:90]}" for mark in MARKS if mark in lower
            ]
    return sorted(set(found))


@pytest.mark.parametrize("mode", ["answers", "errors", "stream errors", "garbage", "refuses"])
def test_what_a_gateway_repeats_is_nowhere_written(mode: str, tmp_path: Path) -> None:
    with serve(Leaking(mode).app()) as target:
        code, written = run(target.url, tmp_path)
    assert code == (10 if mode == "refuses" else code)
    assert code != 0
    assert {"report/report.json", "report/report.html", "report/junit.xml", "pytest.xml"} <= set(written)
    assert leaks(written) == []


def test_what_a_gateway_puts_into_upstream_prompts_is_nowhere_written(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    config = EngineConfig(model="llm-prime")
    with serve(engine_app(config)) as engine, serve(Injecting(f"http://{listen}").app()) as target:
        more = ("--upstream-listen", listen, "--engine", engine.url, "--entry", "chat")
        code, written = run(target.url, tmp_path, *more)
    assert code == 1
    details = [name for name in written if name.startswith("report/details/CON-01")]
    assert details, "the failure is shown, with what was sent and what arrived"
    assert leaks(written) == []


def test_the_search_itself_finds_what_it_looks_for() -> None:
    for form in encodings(KEY):
        assert leaks({"x": f"some {form} text"})
    assert leaks({"x": f"ends in {KEY[:12]}…"})
    assert leaks({"x": "for ZANZIBARIAN eyes"})
