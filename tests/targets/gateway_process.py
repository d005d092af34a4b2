"""Starts what a run needs, each in a clean environment on 127.0.0.1, waits until it answers, and ends it by its id."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import httpx
from gateway_install import Installed
from gateway_spec import ENGINE_MODEL, Gateway, Place, TargetsError

ROOT = Path(__file__).resolve().parents[2]
STARTING_S = 180.0
"""LiteLLM imports for ten seconds and more on a small machine."""

ENDING_S = 10.0

NOWHERE = "http://127.0.0.1:9"
"""The discard port: what honours proxy settings cannot reach anything but this machine."""


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def clean_environment(home: Path, extra: Mapping[str, str]) -> dict[str, str]:
    """What a gateway sees: no key and no setting of the user's, and no way out for well-behaved clients."""
    proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), NOWHERE)
    local = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
    words = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8"}
    return words | proxies | local | dict(extra)


@contextlib.contextmanager
def engine(log: Path, *, messages: bool, folder: Path) -> Iterator[str]:
    """The embedded engine; with `messages` behind the reference gateway, so that both entries are there. Its URL."""
    command = [sys.executable, "-m", "engine", "serve", "--port", "0", "--model", ENGINE_MODEL]
    with _announced(command, log) as url:
        if not messages:
            yield url
            return
        channels = folder / "channels.toml"
        channels.write_text(
            f'[[channels]]\nname = "engine"\nurl = "{url}/v1"\ndialect = "openai-chat"\nmodels = ["{ENGINE_MODEL}"]\n'
            "strip_anthropic_billing_header = true\nanthropic_messages_exclude_cache = true\n",
            encoding="utf-8",
        )
        command = [sys.executable, "-m", "reference_gateway", "--config", str(channels), "--port", "0"]
        with _announced(command, log) as both:
            yield both


@contextlib.contextmanager
def _announced(command: Sequence[str], log: Path) -> Iterator[str]:
    """A server of this project that prints one line with its URL when it answers."""
    with log.open("ab") as errors:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        urls = [word for word in words if word.startswith("http://")]
        if not urls:
            raise TargetsError(f"{' '.join(command[1:4])} did not start: see {log}")
        yield urls[0]
    finally:
        _end(process)


@contextlib.contextmanager
def running(gateway: Gateway, installed: Installed, place: Place, log: Path) -> Iterator[str]:
    """The gateway, started and answering; its URL. Raises `TargetsError` when it ends or does not answer in time."""
    for name, text in gateway.start.files.items():
        path = place.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(place.fill(text), encoding="utf-8")
    program, *words = (place.fill(word) for word in gateway.start.command)
    environment = clean_environment(place.home, {k: place.fill(v) for k, v in gateway.start.env.items()})
    with log.open("wb") as output:
        # A session of its own: what the gateway starts can be ended with it.
        process = subprocess.Popen(
            [installed.executable(program), *words],
            cwd=place.home, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
    try:
        _wait_until_it_answers(place.url + gateway.start.ready, process, log)
        yield place.url
    finally:
        _end(process, group=True)


def _wait_until_it_answers(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    limit = time.monotonic() + STARTING_S
    with httpx.Client(trust_env=False, timeout=5) as client:
        while process.poll() is None and time.monotonic() < limit:
            with contextlib.suppress(httpx.HTTPError):
                if client.get(url).is_success:
                    return
            time.sleep(0.25)
    state = f"ended with {process.returncode}" if process.returncode is not None else f"does not answer {url}"
    last = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-12:])
    raise TargetsError(f"the gateway {state}; its log ends:\n{last}")


def _end(process: subprocess.Popen[bytes] | subprocess.Popen[str], *, group: bool = False) -> None:
    """Ask it to end, then make it. `group`: with everything it started in its own session."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if group:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        elif process.poll() is None:
            process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(ENDING_S)
            if not group:
                break
    if process.stdout is not None:
        process.stdout.close()
