"""The A/A harness: what the client-side judgements say of healthy targets under noise, and of broken ones.

    python -m conformance.aa --runs 200 --write docs/statistics.md

A/A: a healthy target against itself. Every FAIL is a false accusation; there must be none in 200 runs a noise model.
Power: the same targets with a fault of known size.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from conformance.aa.simulated import (
    Disturb,
    Engine,
    Neighbours,
    Replicas,
    SecondSight,
    Server,
    Shape,
    SimulatedLab,
    text,
)
from conformance.aa.thresholds_table import thresholds_table
from conformance.errors import PrefixproofError
from conformance.evidence.thresholds import THRESHOLDS, thresholds_text
from conformance.judgements import hot_pairs, pinned, usage
from conformance.observe.lab import WireLab
from conformance.observe.observed import Observed
from conformance.observe.plan import plan_for
from conformance.options import Budget
from conformance.verdicts import Entry, Status, Verdict

JUDGED: dict[str, Callable[[Observed], Verdict]] = {
    "PFX-01": hot_pairs.prefix_kept,
    "PFX-02": hot_pairs.attribution_kept_out,
    "PFX-09": hot_pairs.tools_keep_their_order,
    "PIN-01": pinned.not_pinned,
    "PIN-02": pinned.fresh_prompts_report_no_hit,
    "PIN-03": pinned.counts_move_with_the_prompt,
    "USE-06": usage.same_total_cold_and_warm,
}
"""The rules that client evidence decides by cached counts."""


WITH_PREAMBLE = Shape()


@dataclass(frozen=True)
class Noise:
    """A kind of healthy target. `server` makes one from a generator of random numbers."""

    name: str
    server: Callable[[random.Random], Server]
    shape: Shape = WITH_PREAMBLE
    budget: Budget = Budget.STANDARD


def _quiet(block: int, pool: int = 400_000) -> Callable[[random.Random], Server]:
    return lambda _rng: Engine(block, pool)


def _replicas(n: int) -> Callable[[random.Random], Server]:
    return lambda rng: Replicas([Engine(64) for _ in range(n)], rng)


def _busy(rng: random.Random, block: int, pool: int, chance: float, burst: int) -> Server:
    return Neighbours(Engine(block, pool), rng, chance=chance, burst=burst, tokens=5_000)


NOISE: dict[str, Noise] = {
    n.name: n
    for n in (
        Noise("quiet, granule 16", _quiet(16)),
        Noise("quiet, granule 64, system first", _quiet(64), Shape(300, system_first=True)),
        Noise("quiet, granule 256", _quiet(256)),
        Noise("quiet, granule 528, no preamble", _quiet(528, 1_000_000), Shape(0), Budget.FULL),
        Noise("quiet, granule 2096", _quiet(2096, 2_000_000), Shape(300), Budget.FULL),
        Noise("long preamble (2,000 tokens)", _quiet(64), Shape(2_000)),
        Noise("draft model drops the last block", lambda _rng: Engine(128, draft=True)),
        Noise("hits from the 3rd send", lambda _rng: SecondSight(64)),
        Noise("neighbours evict now and then", lambda rng: _busy(rng, 64, 60_000, 0.08, 3)),
        Noise("neighbours evict often", lambda rng: _busy(rng, 64, 30_000, 0.3, 2)),
        Noise("neighbours evict all the time", lambda rng: _busy(rng, 64, 24_000, 0.4, 3)),
        Noise("rare bursts", lambda rng: _busy(rng, 64, 100_000, 0.05, 30)),
        Noise("2 replicas, random routing", _replicas(2)),
        Noise("3 replicas, random routing", _replicas(3)),
        Noise("4 replicas, random routing", _replicas(4)),
        Noise(
            "2 replicas and neighbours",
            lambda rng: Neighbours(
                Replicas([Engine(64, 60_000) for _ in range(2)], rng), rng, chance=0.2, burst=3, tokens=5_000
            ),
        ),
    )
}
"""Healthy targets, by name."""


def _varying_behind(share: float, *, only_attribution: bool) -> Disturb:
    """One id that changes with every turn, placed so that the last `share` of the prompt lies behind it."""

    def disturb(sections: list[bytes], attribution: bool, turn: int) -> list[bytes]:
        if only_attribution and not attribution:
            return sections
        prompt = b"".join(sections)
        at = 4 * int(len(prompt) / 4 * (1 - share))
        return [prompt[:at], text(f"turn {turn}", 1), prompt[at:]]

    return disturb


def _attribution_head(sections: list[bytes], attribution: bool, turn: int) -> list[bytes]:
    """The incident: a block that changes with every turn, at the head of the system text behind the tools."""
    if not attribution:
        return sections
    return [*sections[:2], text(f"turn {turn}", 30), *sections[2:]]


@dataclass(frozen=True)
class Breakage:
    """A broken gateway and the rule that should say so."""

    name: str
    disturb: Disturb
    rule: str


BROKEN: tuple[Breakage, ...] = (
    Breakage("attribution block behind the tools", _attribution_head, "PFX-02"),
    Breakage("attribution block behind the tools", _attribution_head, "PIN-01"),
    Breakage("attribution block, 15 % of the prompt behind it", _varying_behind(0.15, only_attribution=True), "PFX-02"),
    Breakage("every turn changes the last 80 %", _varying_behind(0.8, only_attribution=False), "PFX-01"),
    Breakage("every turn changes the last 15 %", _varying_behind(0.15, only_attribution=False), "PFX-01"),
)


def one_run(noise: Noise, seed: int, rules: Sequence[str], disturb: Disturb | None = None) -> dict[str, Status]:
    """Judge one target once: rule id -> what was said of it."""
    rng = random.Random(f"{noise.name}/{seed}")
    plan = replace(plan_for(noise.budget, sees_upstream=False), streamed=False)  # token ids know no streams
    server = noise.server(rng)
    lab = SimulatedLab(server, f"{noise.name}/{seed}", plan.base_bytes, noise.shape, disturb)
    engine = SimulatedLab(server, f"{noise.name}/{seed}/direct", plan.base_bytes, noise.shape)
    observed = Observed(
        entry=Entry.MESSAGES,
        lab=cast(WireLab, lab),  # has what client evidence asks of a lab
        plan=plan,
        thresholds=THRESHOLDS,
        rng=rng,
        dialects=lambda: None,
        engine_lab=lambda: cast(WireLab, engine),
    )
    return {rule: JUDGED[rule](observed).status for rule in rules}


def many_runs(noise_name: str, runs: int, rules: Sequence[str], breakage: Breakage | None = None) -> list[Counter[str]]:
    """`runs` runs; one counter of statuses for each of `rules`."""
    counters: list[Counter[str]] = [Counter() for _ in rules]
    for seed in range(runs):
        said = one_run(NOISE[noise_name], seed, rules, breakage.disturb if breakage else None)
        for counter, rule in zip(counters, rules, strict=True):
            counter[said[rule].value] += 1
    return counters


def _false_fails(args: tuple[str, int]) -> list[Counter[str]]:
    return many_runs(args[0], args[1], tuple(JUDGED))


def _power(args: tuple[str, int, int]) -> Counter[str]:
    breakage = BROKEN[args[2]]
    return many_runs(args[0], args[1], (breakage.rule,), breakage)[0]


POWER_NOISE = (
    "quiet, granule 16",
    "quiet, granule 256",
    "hits from the 3rd send",
    "neighbours evict now and then",
    "2 replicas, random routing",
)


def report(runs: int, power_runs: int, workers: int) -> tuple[str, int]:
    """The tables as Markdown, and the number of false FAILs."""
    rules = tuple(JUDGED)
    with ProcessPoolExecutor(workers) as pool:
        healthy = dict(zip(NOISE, pool.map(_false_fails, [(name, runs) for name in NOISE]), strict=True))
        cells = [(name, power_runs, i) for i in range(len(BROKEN)) for name in POWER_NOISE]
        powers = list(pool.map(_power, cells))
    lines = [f"### Healthy targets: {runs} runs a row", ""]
    lines += ["| noise | " + " | ".join(rules) + " |", "|---|" + "---|" * len(rules)]
    fails = 0
    for name, counters in healthy.items():
        fails += sum(counter[Status.FAIL.value] for counter in counters)
        lines.append(f"| {name} | " + " | ".join(_cell(counter, runs) for counter in counters) + " |")
    lines += ["", f"False FAILs: **{fails}** in {runs * len(NOISE):,} runs of {len(rules)} rules.", ""]
    lines += [f"### Broken targets: share of {power_runs} runs that FAIL", ""]
    lines += ["| what is broken | rule | " + " | ".join(POWER_NOISE) + " |", "|---|---|" + "---|" * len(POWER_NOISE)]
    for i, breakage in enumerate(BROKEN):
        row = powers[i * len(POWER_NOISE) : (i + 1) * len(POWER_NOISE)]
        shares = (
            f"{100 * c[Status.FAIL.value] / power_runs:.1f} % ({100 * c[Status.PASS.value] / power_runs:.1f} %)"
            for c in row
        )
        lines.append(f"| {breakage.name} | {breakage.rule} | " + " | ".join(shares) + " |")
    lines += ["", "In brackets: the share that PASS, each one a missed fault.", ""]
    return "\n".join(lines), fails


def _cell(counter: Counter[str], runs: int) -> str:
    passed, failed = counter[Status.PASS.value], counter[Status.FAIL.value]
    return f"{failed} fail, {100 * passed / runs:.0f} % pass"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the harness. Exit 1 on any false FAIL."""
    parser = argparse.ArgumentParser(prog="python -m conformance.aa", description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="healthy runs a noise model (default 200)")
    parser.add_argument("--power-runs", type=int, default=100, help="broken runs a cell (default 100)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--write", type=Path, help="put the tables into this file, between its markers")
    parser.add_argument("--thresholds-only", action="store_true", help="run nothing, write the thresholds' table only")
    args = parser.parse_args(argv)
    parts = {"thresholds": thresholds_table(thresholds_text())}
    fails = 0
    if not args.thresholds_only:
        parts["measured"], fails = report(args.runs, args.power_runs, args.workers)
    print("\n\n".join(parts.values()))  # noqa: T201
    if args.write is not None:
        page = args.write.read_text(encoding="utf-8")
        for name, tables in parts.items():
            page = put(page, name, tables)
        args.write.write_text(page, encoding="utf-8")
    return 1 if fails else 0


def put(page: str, name: str, tables: str) -> str:
    """The page with `tables` between its markers of that name. Raises PrefixproofError where it has none."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    head, found, rest = page.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise PrefixproofError(f"the page has no {begin} ... {end} to write between")
    return f"{head}{begin}\n\n{tables.strip()}\n\n{end}{tail}"


if __name__ == "__main__":
    sys.exit(main())
