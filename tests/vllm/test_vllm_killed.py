"""An engine that dies under the suite: the run ends, says so, and nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from vllm_rig import ROOT, free_port, gateway, verdicts_in, vllm

from conformance.pair import ALIAS
from engine.metrics import read
from engine.scrape import fetch
from engine.vllm.processes import session_members

ENDS_S = 600.0


def test_the_suite_ends_without_a_green_verdict(tmp_path: Path) -> None:
    listen = f"127.0.0.1:{free_port()}"
    with vllm("cpu-tiny", tmp_path) as server, gateway(f"http://{listen}", "tiny") as url:
        words = ("--target", url, "--model", ALIAS, "--engine", server.url, "--upstream-listen", listen)
        with subprocess.Popen(
            [sys.executable, "-m", "conformance.cli", *words, "--report", str(tmp_path / "report")],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        ) as run:  # fmt: skip
            until = time.monotonic() + ENDS_S
            while (read(fetch(server.url)).counters.prompt_tokens or 0) < 20_000 and time.monotonic() < until:
                time.sleep(0.2)
            os.kill(server.pid, signal.SIGKILL)
            output, _ = run.communicate(timeout=ENDS_S)
        server.stop()
    assert run.returncode in (10, 11, 12), output
    said = {verdict["status"] for verdict in verdicts_in(tmp_path / "report")}
    assert said & {"inconclusive", "suite error"}, output
    assert not said & {"fail", "warn"}, "a healthy gateway is not to blame for an engine that is gone\n" + output
    assert session_members(server.pid) == []
