"""Starts and stops a gateway process, and is the command that restarts it: `python restart_script.py FOLDER MODE`.

Its folder holds state.json (the gateway's command and port), starts (the process id of each start) and calls. It knows
the standard library only, to be quick.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
LONGEST_S = 30.0


def wait(port: int, *, answering: bool) -> None:
    until = time.monotonic() + LONGEST_S
    while time.monotonic() < until:
        with socket.socket() as sock:
            if (sock.connect_ex(("127.0.0.1", port)) == 0) is answering:
                return
        time.sleep(0.02)
    raise TimeoutError(f"port {port} did not {'come' if answering else 'go'}")


def start(folder: Path) -> None:
    command = json.loads((folder / "state.json").read_text(encoding="utf-8"))["command"]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    _note(folder, process.pid)
    process.returncode = 0  # whoever started it ends before it, and need not be told


def _note(folder: Path, pid: int) -> None:
    with (folder / "starts").open("a", encoding="utf-8") as starts:
        starts.write(f"{pid}\n")


def stop(folder: Path) -> None:
    state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    if not (folder / "starts").exists():
        return
    pid = int((folder / "starts").read_text(encoding="utf-8").split()[-1])
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    wait(state["port"], answering=False)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def main(folder: Path, mode: str) -> int:
    """The restart command: stop the gateway and start it in the background or the foreground, or only one of these."""
    with (folder / "calls").open("a", encoding="utf-8") as calls:
        calls.write(f"{mode}\n")
    if mode == "fails":
        sys.stderr.write("starting\nno permission: key sk-abcdefghijk and Rumpelstilzchen in the mail\n")
        return 3
    if mode == "sleeps":
        time.sleep(600)
    stop(folder)
    if mode == "rewired":
        (folder / "rewired.toml").replace(folder / "channels.toml")
    if mode in ("restart", "rewired"):
        time.sleep(0.2)
        start(folder)
    if mode == "foreground":
        _note(folder, os.getpid())
        command = json.loads((folder / "state.json").read_text(encoding="utf-8"))["command"]
        os.chdir(ROOT)
        os.execve(command[0], command, {**os.environ, "PYTHONPATH": str(ROOT)})  # noqa: S606 - it is meant
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
