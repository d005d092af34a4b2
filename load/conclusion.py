"""What follows from a run: predictions, the gate, the files, the exit code."""

from __future__ import annotations

import sys
from pathlib import Path

import orjson

from load.affinity import affinity
from load.errors import LoadExit
from load.gate import Held, judge, read_gate
from load.page import page
from load.predicting import predictions
from load.recipe import cause_recipe
from load.record import Record
from load.replaying import ceilings
from load.result import result
from load.second_tier import second_tier
from load.tables import tables


def conclude(record: Record) -> LoadExit:
    """Print, write what was asked for, and say how it ended."""
    options = record.options
    tier = second_tier(record)
    predicted = []
    if record.pool_tokens and record.block_size and record.plan.shape == "evict":
        predicted = predictions(
            record.samples.ordered, block_size=record.block_size, pool_tokens=record.pool_tokens,
            l2_tokens=options.l2_tokens,
        )  # fmt: skip
    if record.plan.shape == "replay":
        record.extra["replay"] = ceilings(record)
    if record.plan.shape == "repeats" and (found := affinity(record.samples.ordered)) is not None:
        record.extra["affinity"] = found.as_dict()
    held = judge(read_gate(options.gate), record, tier) if options.gate else []
    recipe = cause_recipe(tier) if tier is not None and tier.write_only and not tier.reason else []
    code = exit_code(record, held)
    told = result(record, tier, predicted, held, recipe, code)
    sys.stdout.write(tables(record, tier, predicted, held, recipe) + "\n")
    sys.stdout.flush()
    encoded = orjson.dumps(told, option=orjson.OPT_INDENT_2 if len(record.samples.rows) < 500 else 0)
    if options.report:
        folder = Path(options.report)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "result.json").write_bytes(encoded)
        (folder / "report.html").write_text(
            page(record, held=held, recipe=recipe, predicted=predicted), encoding="utf-8"
        )
        sys.stdout.write(f"\nreport: {folder / 'report.html'}, {folder / 'result.json'}\n")
    if options.result:
        Path(options.result).write_bytes(encoded)
    return code


def exit_code(record: Record, held: list[Held]) -> LoadExit:
    """The worst thing that happened. A condition that could not be judged is no pass."""
    if record.target_gone:
        return LoadExit.TARGET
    total = record.samples.total()
    if any(h.holds is False for h in held) or (not held and total.errors):
        return LoadExit.FAILED
    unjudged = any(h.holds is None for h in held) or (not held and total.resent)
    if unjudged or record.early or record.samples.hung or not total.requests:
        return LoadExit.INCOMPLETE
    return LoadExit.GREEN
