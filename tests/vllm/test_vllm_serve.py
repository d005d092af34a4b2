"""`prefixproof-engine serve --backend vllm` with real vLLM: it answers, it says why it does not, nothing is left."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from vllm_rig import ROOT, command

from engine.vllm.processes import session_members

SERVE = ("serve", "--backend", "vllm", "--port", "0")


def test_it_serves_until_a_signal_and_leaves_no_process(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    with subprocess.Popen(
        [sys.executable, "-m", "engine", *SERVE, "--profile", "cpu-mla", "--log", str(log)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        assert process.stdout
        ready = process.stdout.readline()
        found = re.fullmatch(r"prefixproof-engine: tiny at (http://127\.0\.0\.1:\d+)\n", ready)
        assert found, log.read_text(errors="replace")[-2_000:]
        with httpx.Client(trust_env=False, timeout=60) as client:
            assert client.get(f"{found[1]}/v1/models").json()["data"][0]["id"] == "tiny"
        [pid] = [int(one) for one in re.findall(r"Started server process \[(\d+)\]", log.read_text(errors="replace"))]
        assert session_members(pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert session_members(pid) == []


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--num-gpu-blocks-override", "20"), "the pool is too small for the model length"),
        (("--no-such-flag", "1"), "this version of vLLM does not take that flag"),
    ],
    ids=["pool", "flag"],
)
def test_what_keeps_it_from_starting_is_one_line(flags: tuple[str, ...], says: str, tmp_path: Path) -> None:
    done = command("engine", *SERVE, "--profile", "cpu-tiny", "--log", str(tmp_path / "vllm.log"), *flags)
    assert done.returncode == 2, done.stderr
    last = done.stderr.splitlines()[-1]
    assert "vLLM ended at start" in last
    assert says in last
