"""Traces recorded from vLLM's code, shipped as data, so that the core is checked where no vLLM is installed.

One gzipped file a release: a line that names the release, then a line for each script with what vLLM did. Scripts are
not stored: their group set and seed are, and `generate` makes them again. Traces are stored as digests of each step.
"""

import gzip
import json
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from engine.differential.compare import Trace
from engine.differential.generate import GROUP_SETS, random_script
from engine.differential.scripts import Script
from engine.differential.vllm_child import VllmChild, VllmError

VECTORS = Path(__file__).with_name("vectors")
SEEDS = (*range(24), 27, 31, 35, 39)  # the last ones are about preemption


def record(path: Path, child: VllmChild, seeds: tuple[int, ...] = SEEDS) -> int:
    """Have vLLM play scripts of every group set and write their traces; how many.

    Traces of the same release and the same scripts that the file has already are kept.
    """
    lines = [json.dumps({"vllm": child.version})]
    known = _known(path, child.version)
    for kind in GROUP_SETS:
        for seed in seeds:
            script = random_script(kind, seed)
            if (kind.name, seed, _digest(script)) in known:
                lines.append(known[kind.name, seed, _digest(script)])
                continue
            trace = child.play(script)
            if "error" in trace:
                raise VllmError(f"vLLM raised {trace['error']} over {script.name}")
            if "unsupported" in trace:
                continue
            lines.append(json.dumps([kind.name, seed, _digest(script), *condensed(trace)], separators=(",", ":")))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as out:
        out.write(("\n".join(lines) + "\n").encode())
    return len(lines) - 1


def _known(path: Path, version: str) -> dict[tuple[str, int, str], str]:
    if not path.exists():
        return {}
    first, *lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    if json.loads(first)["vllm"] != version:
        return {}
    return {tuple(json.loads(line)[:3]): line for line in lines}


def condensed(trace: Trace) -> list[Any]:
    """Requests of a trace, eight hexadecimal digits for each step in one string, and what happened how often."""
    steps = trimmed(trace["steps"])
    marks = "".join(step_mark(step) for step in steps)
    totals = [sum(len(step[name]) for step in steps) for name in ("loads", "stores", "evicted_l1", "evicted_l2")]
    return [
        {name: [r["local"], r["external"], r["preemptions"], r["outputs"]] for name, r in trace["requests"].items()},
        marks,
        totals,
    ]


def trimmed(steps: list[Trace]) -> list[Trace]:
    """Without the idle steps at the end."""
    end = len(steps)
    while end and not (steps[end - 1]["scheduled"] or steps[end - 1]["loads"] or steps[end - 1]["stores"]):
        end -= 1
    return steps[:end]


def step_mark(step: Trace) -> str:
    """Eight hexadecimal digits for everything a step did and left behind."""
    told = {name: value for name, value in step.items() if name != "detail"}
    return sha256(json.dumps(told, separators=(",", ":"), sort_keys=True).encode()).hexdigest()[:8]


def _digest(script: Script) -> str:
    return sha256(script.dump().encode()).hexdigest()[:8]


def read(path: Path) -> tuple[str, Iterator[tuple[Script, Trace]]]:
    """The release of a file of vectors, and its scripts with what vLLM did."""
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    return json.loads(lines[0])["vllm"], _traces(lines[1:])


def _traces(lines: Iterable[str]) -> Iterator[tuple[Script, Trace]]:
    kinds = {kind.name: kind for kind in GROUP_SETS}
    for line in lines:
        name, seed, mark, *trace = json.loads(line)
        script = random_script(kinds[name], seed)
        if _digest(script) != mark:
            raise ValueError(f"{name}/{seed} is not the script that was recorded: record the vectors again")
        yield script, {"condensed": trace}
