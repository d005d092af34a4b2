"""What a vLLM log says of its host tier. Streamed line by line, rotated and gzipped files included."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from engine.doctor.launch import NON_DEFAULT, Launch, LaunchError, from_log_line

LOW_USAGE = 5.0
"""Per cent of the pool below which a heavy prefill should have found its prefixes somewhere."""

HEAVY = 1_000.0
"""Prompt tokens per second that count as a heavy prefill."""

DISTINCT_RATES = 1_000

_STATS = re.compile(
    r"Avg prompt throughput: ([\d.]+) tokens/s.*?KV cache usage: ([\d.]+)%(?:.*?External prefix cache "
    r"hit rate: ([\d.]+)%)?"
)
_BYTES = re.compile(r"kv_offload_(store|load)_bytes\D{0,40}?(\d[\d.e+]*)")
_OLD_BYTES = re.compile(r"(GPU_to_CPU|CPU_to_GPU)_total_bytes\D{0,8}?(\d[\d.e+]*)")
_OLD = {"GPU_to_CPU": "store", "CPU_to_GPU": "load"}
_LOOKUPS = re.compile(r"lookup_sync_delay_seconds_count\D{0,8}?(\d+)")
_TIME = re.compile(r"(?:\d{4}-)?\d\d-\d\d[ T]\d\d:\d\d:\d\d|\d\d:\d\d:\d\d")
_VERSION = re.compile(r"\u2588\s+version (\d+\.\d+\S*)|LLM engine \(v(\d+\.\d+[^)\s]*)\)")
_DRAFT = re.compile(r"draft attention groups (\[[\d, ]+\]) detected")
_GROUPS = re.compile(r"kv cache group sizes (\([\d, ]+\))")
_WORKER = re.compile(r"\((?:Vllm)?Worker[_ ]?(?:DP\d+_)?(?:PP\d+_)?(?:TP(\d+))?[^ )]* pid=(\d+)\)")
_TELLING = (
    "Avg prompt throughput",
    "kv_offload_",
    "_total_bytes",
    "version ",
    "LLM engine (v",
    NON_DEFAULT,
    "draft attention groups",
    "kv cache group sizes",
    "orker",
)


@dataclass(frozen=True)
class Moment:
    """One interval of the log: prefill from nothing while the tier only stored."""

    at: str
    prompt_rate: float  # tokens/s
    usage: float  # per cent of the pool
    stored: float  # bytes


@dataclass
class LogSummary:
    """Counts over a whole log. Bytes are sums of what was logged; rates are per cent."""

    files: int = 0
    lines: int = 0
    store_lines: int = 0
    load_lines: int = 0
    stored: float = 0.0
    loaded: float = 0.0
    lookups: int = 0
    external_rates: Counter[str] = field(default_factory=Counter)
    worst: Moment | None = None
    version: str | None = None
    launch: Launch | None = None
    draft_groups: str | None = None
    groups: int | None = None
    ranks: set[int] = field(default_factory=set)
    workers: set[str] = field(default_factory=set)

    @property
    def never_hit(self) -> bool:
        """True when hit rates were logged and none was ever above zero."""
        return bool(self.external_rates) and not any(float(rate) for rate in self.external_rates)

    @property
    def write_only(self) -> bool:
        """True when copies were stored and none loaded."""
        return self.stored > 0 and self.loaded == 0


def rotated(path: Path) -> list[Path]:
    """The file and those it was rotated to (`.1`, `.2.gz`, `-20260817`), oldest first. Raises `LaunchError`."""
    if not path.is_file():
        raise LaunchError(f"{path}: no such log")
    others = [
        found
        for found in path.parent.glob(f"{_escaped(path.name)}[.-]*")
        if re.fullmatch(r"[.-][\d.T-]+(?:\.gz)?", found.name[len(path.name) :])
    ]
    return [*sorted(others, key=lambda found: (found.stat().st_mtime, found.name)), path]


def summarise(paths: Iterable[Path]) -> LogSummary:
    """Read logs from beginning to end, in bounded memory. Raises `LaunchError` for a file that cannot be read."""
    summary = LogSummary()
    for path in paths:
        try:
            with _opened(path) as lines:
                _read(lines, summary)
        except (OSError, EOFError) as error:
            raise LaunchError(f"{path}: {error}") from None
        summary.files += 1
    return summary


def _read(lines: Iterable[str], summary: LogSummary) -> None:
    rate = usage = 0.0
    at = ""
    for line in lines:
        summary.lines += 1
        if not any(word in line for word in _TELLING):
            continue
        if stats := _STATS.search(line):
            rate, usage = float(stats[1]), float(stats[2])
            at = found[0] if (found := _TIME.search(line)) else f"line {summary.lines}"
            if stats[3] is not None and (
                stats[3] in summary.external_rates or len(summary.external_rates) < DISTINCT_RATES
            ):
                summary.external_rates[stats[3]] += 1
            continue
        copied = _copied(line)
        if copied:
            _count(copied, summary)
            quiet = usage <= LOW_USAGE and rate >= HEAVY and copied.get("store") and not copied.get("load")
            if quiet and (summary.worst is None or rate > summary.worst.prompt_rate):
                summary.worst = Moment(at, rate, usage, copied["store"])
        if lookups := _LOOKUPS.search(line):
            summary.lookups += int(lookups[1])
        if not copied:
            _facts(line, summary)


def _copied(line: str) -> dict[str, float]:
    found = {direction: float(number) for direction, number in _BYTES.findall(line)}
    if not found:
        found = {_OLD[direction]: float(number) for direction, number in _OLD_BYTES.findall(line)}
    return found


def _count(copied: dict[str, float], summary: LogSummary) -> None:
    if "store" in copied:
        summary.store_lines += 1
        summary.stored += copied["store"]
    if "load" in copied:
        summary.load_lines += 1
        summary.loaded += copied["load"]


def _facts(line: str, summary: LogSummary) -> None:
    if version := _VERSION.search(line):
        summary.version = version[1] or version[2]
    if NON_DEFAULT in line:
        summary.launch = from_log_line(line)
    if draft := _DRAFT.search(line):
        summary.draft_groups = draft[1]
    if groups := _GROUPS.search(line):
        summary.groups = groups[1].count(",") + (0 if groups[1].endswith(",)") else 1)
    if (worker := _WORKER.search(line)) and len(summary.workers) < DISTINCT_RATES:
        summary.workers.add(worker[2])
        if worker[1]:
            summary.ranks.add(int(worker[1]))


def _opened(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", errors="replace")
    return path.open(encoding="utf-8", errors="replace")


def _escaped(name: str) -> str:
    return re.sub(r"([\[\]*?])", r"[\1]", name)


def lines_of(summary: LogSummary) -> Iterator[tuple[str, str]]:
    """The table of counts, as rows."""
    yield "kv_offload_store_bytes", f"logged {summary.store_lines:,} times"
    yield "kv_offload_load_bytes", f"logged {summary.load_lines:,} times"
    total = sum(summary.external_rates.values())
    zero = sum(number for rate, number in summary.external_rates.items() if not float(rate))
    if total:
        yield "External prefix cache hit rate", f"0.0 % {zero:,} times, anything else {total - zero:,} times"
