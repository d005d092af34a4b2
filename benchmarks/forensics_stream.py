"""What forensics over a long log costs: CPU against merely parsing it, and memory against a tenth of it.

    .venv/bin/python benchmarks/forensics_stream.py [LINES]

CPU seconds and peak resident memory of a process of its own for each figure, the best of two; Linux only.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

LINES = 1_000_000
USERS = 60

MEASURE = """
import re, resource, sys
{imports}
before = resource.getrusage(resource.RUSAGE_SELF)
{work}
after = resource.getrusage(resource.RUSAGE_SELF)
cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
# The peak of this program's own memory: `ru_maxrss` has that of the process it was started from, too.
peak = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]
sys.stderr.write(f"{{cpu}} {{int(peak) / 1024}}")
"""
PARSE_JSON = ("import orjson", "for line in open(sys.argv[1], 'rb'): orjson.loads(line)")
PARSE_CSV = ("import csv", "for row in csv.DictReader(open(sys.argv[1], newline='')): pass")
FORENSICS = ("from conformance.forensics.cli import main", "main([sys.argv[1]])")


def requests(lines: int) -> Iterator[tuple[float, str, str, str, str, int, int, int]]:
    """Sessions of sixty users at once, most of them healthy; every sixth is pinned."""
    rng = Random(5)
    prompts = [30_000 + rng.randrange(4_000) for _ in range(USERS)]
    hits = [0] * USERS
    for i in range(lines):
        user = rng.randrange(USERS)
        cached = min(17_920, hits[user]) if user % 6 == 0 else hits[user]
        entry = "/v1/messages" if user % 2 else "/v1/chat/completions"
        answer = rng.randrange(40, 800)
        yield 1.78e9 + i / 2, entry, "llm-prime", "claude-cli/2.1.116", f"user-{user}", prompts[user], cached, answer
        hits[user] = prompts[user] // 256 * 256
        prompts[user] += answer + rng.randrange(100, 1_500)
        if prompts[user] > 180_000:
            prompts[user], hits[user] = 30_000 + rng.randrange(4_000), 17_920


COLUMNS = ("time", "entry", "model", "client", "user", "prompt_tokens", "cached_tokens", "completion_tokens")


def write_json(path: Path, lines: int, *, newest_first: bool = False) -> Path:
    rows = [json.dumps(dict(zip(COLUMNS, row, strict=True))) for row in requests(lines)]
    path.write_text("\n".join(reversed(rows) if newest_first else rows) + "\n")
    return path


def write_csv(path: Path, lines: int) -> Path:
    with path.open("w") as file:
        file.write(",".join(COLUMNS) + "\n")
        file.writelines(",".join(map(str, row)) + "\n" for row in requests(lines))
    return path


def measure(what: tuple[str, str], path: Path) -> tuple[float, float]:
    """(CPU seconds, peak MiB) of a process that does it; of two, the one that neighbours disturbed less."""
    return min(_measure(what, path) for _ in range(2))


def _measure(what: tuple[str, str], path: Path) -> tuple[float, float]:
    script = MEASURE.format(imports=what[0], work=what[1])
    run = subprocess.run(  # noqa: S603  # this file's own lines
        [sys.executable, "-c", script, str(path)],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    cpu, peak = map(float, run.stderr.split())
    return cpu, peak


def main() -> int:
    lines = int(sys.argv[1]) if len(sys.argv) > 1 else LINES
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tenth = write_json(folder / "tenth.jsonl", lines // 10)
        whole = write_json(folder / "whole.jsonl", lines)
        backwards = write_json(folder / "backwards.jsonl", lines, newest_first=True)
        table = write_csv(folder / "whole.csv", lines)
        small = measure(FORENSICS, tenth)
        full = measure(FORENSICS, whole)
        turned = measure(FORENSICS, backwards)
        csv_full = measure(FORENSICS, table)
        rows = (
            ("CPU, JSON lines / orjson.loads of each line", full[0] / measure(PARSE_JSON, whole)[0]),
            ("CPU, CSV / csv.DictReader over it", csv_full[0] / measure(PARSE_CSV, table)[0]),
            ("CPU, newest first / in order", turned[0] / full[0]),
            ("peak memory, all lines / a tenth of them", full[1] / small[1]),
            ("peak memory, newest first / in order", turned[1] / full[1]),
        )
    print(  # noqa: T201
        f"{lines:,} lines: {full[0]:.0f} s of CPU here, {lines / full[0]:,.0f} lines per CPU second; peak memory "
        f"{full[1]:.0f} MiB in order, {turned[1]:.0f} MiB newest first"
    )
    for label, ratio in rows:
        print(f"{ratio:6.2f}  {label}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
