"""Which faults can be seen from where: the client alone, a recorder behind the gateway, the engine's own metrics.

    python -m conformance.visibility --write docs/visibility.md

(or `make visibility`) runs every fault of the reference gateway three times and writes the page. By the client and by
the recorder a fault is seen when a rule fails or warns; by the engine when a fixed day of growing sessions hits clearly
less than it does through the right gateway. Engine metrics say that the cache is not used, never why.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import httpx
import orjson
from prometheus_client.parser import text_string_to_metric_families

from conformance.errors import TargetProblem
from conformance.matrix import run_cell
from conformance.option_values import known_faults
from conformance.options import Budget
from conformance.pair import ALIAS, embedded_pair, engine_config
from conformance.sessions import CLIENTS, Turn
from conformance.verdicts import Status

SEEN_POINTS = 0.10
"""An engine's hit rate that is lower than the clean one by this share shows a fault to whoever watches it."""

DAY = ("claude-code-2.1.116-vscode", "opencode-1.18.33")
SCRIPT = (Turn(0), *(Turn(1500) for _ in range(7)))

HEAD = """\
# Which faults can be seen from where

Measured: every fault of the reference gateway, once from the client alone (`--budget standard`), once with a recorder
between gateway and engine and a restart of the gateway at the end, and once by the engine's metrics over a fixed day of
two growing sessions. A fault is seen where a rule fails (*withheld*: none fails, but what cached counts should decide
stays undecided, so the run is not green; *refused*: the first requests are answered with errors, and the run ends with
exit code 10); by the engine, where the hit rate falls by more than {points:.0%} of all prompt tokens. The clean pair
hits {clean:.1%}. `make visibility` measures everything anew and writes this page.

| fault | client alone | recorder | engine's hit rate |
|---|---|---|---|
"""

TAIL = """
{client} of {all} faults show to the client alone, {recorder} to a recorder, {engine} in the engine's metrics.
The client sees what its own answers say: counts, streams, and prefixes that are lost. What is dropped, added or worded
otherwise without moving a count needs the recorder, and so does all that only a scripted upstream brings about: usage
of odd shapes, streams that break off, errors. The engine sees lost prefixes only, and cannot name a cause; usage faults
are outside its view altogether. CNT-01 beside wrong totals is the client's word alone: a count that is right differs
from a total that is wrong, and a recorder knows which is which.
"""


@dataclass(frozen=True)
class Seen:
    """One fault: rules that fail by each kind of evidence, and the engine's hit rate under it."""

    fault: str
    client: tuple[str, ...]
    recorder: tuple[str, ...]
    hit_rate: float
    withheld: bool = False
    refused: bool = False


def look(fault: str | None) -> Seen:
    """Measure one fault; None is the clean pair."""
    recorder = _rules(run_cell(fault).broken)
    try:
        client = run_cell(fault, budget=Budget.STANDARD, recorder=False)
    except TargetProblem:
        return Seen(fault or "clean", (), recorder, hit_rate(fault), refused=True)
    withheld = not client.broken and any(v.status is Status.INCONCLUSIVE for v in client.verdicts)
    return Seen(fault or "clean", _rules(client.broken), recorder, hit_rate(fault), withheld)


def _rules(broken: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(broken))


def hit_rate(fault: str | None) -> float:
    """Cached tokens by queried tokens in the engine's own counters, over a fixed day through the gateway."""
    engine = engine_config(template="tools-first", block_size=64, tokenizer="fast")
    with embedded_pair(engine=engine, fault=fault, recorder=False) as pair, httpx.Client(trust_env=False) as http:
        for name in DAY:
            for request in CLIENTS[name].play(
                seed="visibility", salt=f"visible-{name[:6]}", script=SCRIPT, model=ALIAS
            ):
                http.post(f"{pair.gateway_url}{request.path}", content=orjson.dumps(request.body), timeout=60.0)
        text = http.get(f"{pair.engine_url}/metrics").text
    counts = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name in ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total")
    }
    queries = counts.get("vllm:prefix_cache_queries_total", 0.0)
    return counts.get("vllm:prefix_cache_hits_total", 0.0) / queries if queries else 0.0


def page(clean: Seen, seen: Sequence[Seen]) -> str:
    """The page as Markdown."""
    rows = [_row(clean, s) for s in seen]
    return (
        HEAD.format(points=SEEN_POINTS, clean=clean.hit_rate)
        + "\n".join(rows)
        + "\n"
        + TAIL.format(
            all=len(seen),
            client=sum(bool(s.client) or s.refused for s in seen),
            recorder=sum(bool(s.recorder) for s in seen),
            engine=sum(_by_engine(clean, s) for s in seen),
        )
    )


def _row(clean: Seen, seen: Seen) -> str:
    client = ", ".join(seen.client) or ("withheld" if seen.withheld else "refused" if seen.refused else "-")
    engine = f"{seen.hit_rate:.1%}{', seen' if _by_engine(clean, seen) else ''}"
    return f"| `{seen.fault}` | {client} | {', '.join(seen.recorder) or '-'} | {engine} |"


def _by_engine(clean: Seen, seen: Seen) -> bool:
    return seen.hit_rate < clean.hit_rate - SEEN_POINTS


def main(argv: Sequence[str] | None = None) -> int:
    """Measure everything, on all cores, and write the page. Exit code 1 where the clean pair is accused."""
    parser = argparse.ArgumentParser(
        description="Which faults can be seen from where: measured, as docs/visibility.md."
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page there instead of printing it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="faults measured at a time")
    args = parser.parse_args(argv)
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        clean, *seen = pool.map(look, [None, *known_faults()])
    if clean.client or clean.recorder or clean.withheld or clean.refused:
        print(f"the clean pair is accused, or not judged: {clean}", file=sys.stderr)  # noqa: T201
        return 1
    text = page(clean, seen)
    if args.write is None:
        print(text, end="")  # noqa: T201
    else:
        args.write.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
