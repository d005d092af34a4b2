"""The fault matrix: every fault of the reference gateway against every rule, over real HTTP.

    python -m conformance.matrix --seeds 20

A cell is one run of all cases on the embedded pair under one fault and one seed. The set of rules that fail must be
the set the fault declares: that proves each rule able to fail, and silent where it should be.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from conformance.casebook import load_cases
from conformance.errors import SendingStopped
from conformance.observe.variety import Kinds, variety_of
from conformance.options import Budget, RunOptions
from conformance.rules import RULES
from conformance.run import Run
from conformance.verdicts import Entry, Status, Verdict
from reference_gateway import FAULTS, Fault

CLEAN = "clean"


@dataclass(frozen=True)
class Cell:
    """One fault, one seed: what the rules said and what it cost. `cpu` in seconds of this process."""

    fault: str
    seed: int
    template: str
    block_size: int
    verdicts: tuple[Verdict, ...]
    cpu: float
    requests: int
    prompt_tokens: int
    restarts: bool = True  # whether the gateway was one that is restarted in between

    @property
    def broken(self) -> frozenset[str]:
        """Rules that failed or warned on any entry."""
        return frozenset(v.rule for v in self.verdicts if v.status in (Status.FAIL, Status.WARN))

    @property
    def errors(self) -> tuple[Verdict, ...]:
        return tuple(v for v in self.verdicts if v.status is Status.ERROR)


def shape_of(seed: int) -> dict[str, object]:
    """What a seed varies: template order, block size and the engine's vocabulary-independent salts. Seed 0 is plain."""
    if seed == 0:
        return {"template": "tools-first", "block_size": 64}
    rng = random.Random(f"matrix/{seed}")
    return {"template": rng.choice(("tools-first", "system-first")), "block_size": rng.choice((16, 32, 64, 128))}


def declared(fault: Fault | None, template: str, kinds: Kinds = (), *, restarts: bool = True) -> frozenset[str]:
    """The rules a fault says it breaks behind an engine with that template, in sessions of these kinds of turns.

    `restarts`: the gateway is restarted in between.
    """
    if fault is None:
        return frozenset()
    more = fault.breaks_if_tools_first if template == "tools-first" else frozenset()
    if restarts:
        more |= fault.breaks_across_restart
    return fault.breaks | more | (fault.breaks_if_parallel if "parallel" in kinds else frozenset())


def run_cell(fault: str | None, seed: int = 0, *, neutralised: str | None = None, **options: object) -> Cell:
    """Run all cases under one fault. Failures of `neutralised` are overlooked: the matrix must notice."""
    shape = shape_of(seed)
    merged = {"budget": Budget.QUICK, "fault": fault, "seed": seed, **shape, **options}
    run = Run(RunOptions(**merged))  # type: ignore[arg-type]
    began = time.process_time()
    try:
        run.preflight()
        for rule_id, case in load_cases(restarts=True).items():
            for entry in RULES[rule_id].entries:
                if entry in run.entries:
                    _judge(run, case.function, rule_id, entry)
        report = run.report()
    finally:
        run.close()
    verdicts = tuple(v for v in report.verdicts if v.rule != neutralised)
    return Cell(
        fault=fault or CLEAN,
        seed=seed,
        template=str(shape["template"]),
        block_size=int(str(shape["block_size"])),
        verdicts=verdicts,
        cpu=time.process_time() - began,
        requests=report.requests_sent,
        prompt_tokens=report.prompt_tokens_sent,
        restarts=any(run.plan(entry).restart for entry in run.entries),
    )


def _judge(run: Run, case: object, rule_id: str, entry: Entry) -> None:
    assert callable(case)
    try:
        case(observed=run.observed(entry), judge=run.record)
    except SendingStopped as error:
        run.record(
            Verdict(
                rule=rule_id,
                entry=entry,
                status=Status.INCONCLUSIVE,
                reason=str(error),
                vantage=RULES[rule_id].evidence[0],
                n=0,
            )
        )


def disagreements(cells: Sequence[Cell]) -> list[str]:
    """Where observed and declared sets differ, and rules with one column; empty when the suite proves itself."""
    lines = []
    for cell in cells:
        expected = declared(FAULTS.get(cell.fault), cell.template, variety_of(cell.seed).kinds, restarts=cell.restarts)
        where = f"{cell.fault}, seed {cell.seed} ({cell.template}, block {cell.block_size})"
        lines += [f"{where}: declares {rule}, which did not fail" for rule in sorted(expected - cell.broken)]
        lines += [f"{where}: breaks {rule}, which it does not declare" for rule in sorted(cell.broken - expected)]
        lines += [f"{where}: {v.rule} {v.entry}: {v.reason}" for v in cell.errors]
    columns: dict[frozenset[str], list[str]] = {}
    for rule_id in (rule.id for rule in RULES.values() if not rule.needs_load):
        column = frozenset(cell.fault for cell in cells if rule_id in cell.broken)
        columns.setdefault(column, []).append(rule_id)
    lines += [f"no two rules may have one column: {', '.join(ids)}" for ids in columns.values() if len(ids) > 1]
    return lines


def table(cells: Sequence[Cell]) -> str:
    """The matrix for reading: a row a fault, a column a rule, X where it failed."""
    rules = list(RULES)
    width = max(len(cell.fault) for cell in cells)
    head = " " * width + "  " + " ".join(rules)
    rows = []
    for cell in cells:
        marks = " ".join(("X" if r in cell.broken else ".").center(len(r)) for r in rules)
        rows.append(f"{cell.fault:<{width}}  {marks}".rstrip())
    return "\n".join([head, *rows])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the matrix and print it. Exit 1 when observed and declared sets differ."""
    parser = argparse.ArgumentParser(prog="python -m conformance.matrix", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds (default 1)")
    parser.add_argument("--fault", action="append", help="only this fault (may be repeated)")
    args = parser.parse_args(argv)
    faults = [None, *FAULTS] if not args.fault else args.fault
    bad: list[str] = []
    for seed in range(args.seeds):
        cells = [run_cell(fault, seed) for fault in faults]
        bad += disagreements(cells) if not args.fault else [d for d in disagreements(cells) if "column" not in d]
        shape = f"{cells[0].template}, block {cells[0].block_size}"
        cpu = [cell.cpu for cell in cells]
        print(f"seed {seed} ({shape}): {sum(cpu) / len(cpu):.2f} s CPU a cell, {max(cpu):.2f} s at most")  # noqa: T201
        print(table(cells))  # noqa: T201
    for line in bad:
        print(f"DISAGREES  {line}")  # noqa: T201
    print("observed = declared" if not bad else f"{len(bad)} disagreements")  # noqa: T201
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
