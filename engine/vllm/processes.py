"""Ends a server with everything it started: on Linux, all processes of its session."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1
POLL_S = 0.1


def die_with_parent() -> None:
    """For a child between fork and exec: ask the kernel to end it when the process that started it is gone."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def session_members(session: int) -> list[int]:
    """Ids of the processes of a session that are not yet dead; empty where there is no /proc."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # The name in brackets may hold anything; state, parent, group and session follow it.
            state, _, _, of = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(of) == session and state not in "ZX":
            found.append(int(entry.name))
    return found


def end_session(process: subprocess.Popen[bytes], *, grace_s: float) -> bool:
    """Ask the leader of a session to end, then make all of it end. True when nobody had to be killed.

    Returns when no process of the session is left.
    """
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
    if _empty(process, min(grace_s, 5.0)):
        return True
    for number in (signal.SIGTERM, signal.SIGKILL):
        for member in session_members(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(member, number)
        if _empty(process, 5.0):
            break
    return False


def _empty(process: subprocess.Popen[bytes], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while True:
        process.poll()
        if process.returncode is not None and not session_members(process.pid):
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(POLL_S)
