"""The CPU time of a run's processes, and what a run says while it runs."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from typing import Final

import psutil

KEPT_BYTES: Final = 128 * 1024 * 1024
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_MOST_FROM_HEAP: Final = 32 * 1024 * 1024
"""The largest value glibc takes."""

PROCESSES: Final = "PREFIXPROOF_LOAD_PROCESSES"
"""Names and ids of the processes whose CPU time is counted: `gateway=12 engine=13`."""


def process_cpu() -> dict[str, float]:
    """CPU seconds so far of this process and of those of the embedded pair."""
    found = {"client": own_cpu()}
    for part in os.environ.get(PROCESSES, "").split():
        name, _, number = part.partition("=")
        try:
            times = psutil.Process(int(number)).cpu_times()
        except (psutil.Error, ValueError):
            continue
        found[name] = found.get(name, 0.0) + times.user + times.system
    return found


def own_cpu() -> float:
    return time.process_time()


def keep_freed_memory() -> None:
    """Tell the C library to keep what is freed: bodies of hundreds of kilobytes come and go with every turn, and memory
    that is given back to the system and taken anew costs more than what is written into it. Where it cannot be told,
    nothing changes."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
    mallopt(_M_MMAP_THRESHOLD, _MOST_FROM_HEAP)


_said = 0.0


def say(text: str, end: str = "\n", every: float = 0.0) -> None:
    """To stderr, at most once in `every` seconds."""
    global _said
    now = time.monotonic()
    if every and now - _said < (1.0 if sys.stderr.isatty() else every):
        return
    _said = now if every else _said
    sys.stderr.write(text + end)
    sys.stderr.flush()
