"""Why vLLM ended, read off its log: the one line a person needs, out of the tracebacks of several processes."""

from __future__ import annotations

import re
from collections import deque
from pathlib import Path

TAIL_LINES = 400

_PREFIX = re.compile(r"^(?:\([^)]*\) ?)*(?:[A-Z]+ \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\] ?)?")
_ERROR = re.compile(r"^(?:[\w.]*(?:Error|Exception|Exit))\b: ?(.*)$")
_USAGE = re.compile(r"^(?:vllm serve|api_server\.py|vllm): error: (.*)$")
_SECONDARY = re.compile(
    r"Engine core initialization failed|Failed core proc|WorkerProc initialization "
    r"failed|see root cause",
    re.IGNORECASE,
)

_KNOWN: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"max seq len|larger than the (?:maximum number|available) .*KV cache|needed.*KV "
            r"cache",
            re.IGNORECASE,
        ),
        "the pool is too small for the model length: lower --max-model-len, raise --num-gpu-blocks-override, or give "
        "more memory (VLLM_CPU_KVCACHE_SPACE on CPU, --gpu-memory-utilization on a GPU)",
    ),
    (re.compile(r"Address already in use", re.IGNORECASE), "the port is taken: choose another --port, or 0"),
    (
        re.compile(r"unrecognized arguments|invalid choice|expected one argument", re.IGNORECASE),
        "this version of vLLM does not take that flag",
    ),
    (
        re.compile(
            r"does not appear to have a file named|is not a valid model identifier|couldn't "
            r"connect|LocalEntryNotFound|not found.*config\.json",
            re.IGNORECASE,
        ),
        "the model is not there: name a folder or a model that can be fetched",
    ),
    (re.compile(r"out of memory|Cannot allocate memory", re.IGNORECASE), "there is not enough memory"),
    (
        re.compile(r"only supported on CUDA-alike", re.IGNORECASE),
        "vLLM's own offload tier needs a GPU: the cpu-l2 profile has one that does not",
    ),
)


def why_it_ended(log: Path) -> str:
    """One line: what vLLM says went wrong, with what to do about it where that is known."""
    said = last_error(log)
    if said is None:
        return "its log names no error"
    for pattern, advice in _KNOWN:
        if pattern.search(said):
            return f"{said} - {advice}"
    return said


def last_error(log: Path) -> str | None:
    """The first of the last errors that is not merely "another process failed", or None."""
    try:
        with log.open(encoding="utf-8", errors="replace") as lines:
            tail = deque(lines, maxlen=TAIL_LINES)
    except OSError:
        return None
    found: list[str] = []
    for line in tail:
        text = _PREFIX.sub("", line.strip()).strip()
        if usage := _USAGE.match(text):
            found.append(usage[1])
        elif _ERROR.match(text):
            found.append(text)
    primary = [text for text in found if not _SECONDARY.search(text)]
    chosen = (primary or found)[-1:] if found else []
    return chosen[0][:400] if chosen else None
