"""A run as one JSON object: what was asked, sent, measured, predicted and judged."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from conformance import __version__
from conformance.wire.endpoint import is_loopback
from load.errors import LoadExit
from load.gate import Held
from load.predicting import Prediction
from load.record import Record
from load.samples import COLUMNS
from load.second_tier import SecondTier

SCHEMA: Final = "prefixproof-load/1"


def result(
    record: Record,
    tier: SecondTier | None,
    predicted: list[Prediction],
    held: list[Held],
    recipe: list[str],
    code: LoadExit,
) -> dict[str, Any]:
    """Everything; `requests` holds the first rows only, the sums count all."""
    samples, total = record.samples, record.samples.total()
    return {
        "schema": SCHEMA,
        "version": __version__,
        "exit_code": int(code),
        "shape": record.plan.shape,
        "options": {**record.options.as_dict(), "host": _shown(record.options.host)},
        "began": record.began,
        "seconds": record.seconds,
        "stopped": record.stopped,
        "target_gone": record.target_gone,
        "workers": record.workers,
        "planned_requests": record.plan.requests,
        "pool_tokens": record.pool_tokens,
        "block_size": record.block_size,
        "total": total.as_dict(),
        "errors": samples.errors,
        "by_phase": {phase: samples.total(phase=phase).as_dict() for phase in samples.values(0)},
        "by_entry": {entry: samples.total(entry=entry).as_dict() for entry in samples.values(1)},
        "by_client": {client: samples.total(client=client).as_dict() for client in samples.values(2)},
        "by_kind": {kind: samples.total(kind=kind).as_dict() for kind in samples.values(3)},
        "tiers": {
            "first": record.first.as_dict() if record.first is not None else None,
            "last": record.last.as_dict() if record.last is not None else None,
            "phases": {name: delta or None for name, delta in record.counted.items()},
        },
        "second_tier": tier.as_dict() if tier is not None else None,
        "predicted": [asdict(row) for row in predicted],
        "gate": [{"name": h.name, "holds": h.holds, "reason": h.reason, "rule": h.rule} for h in held],
        "recipe": recipe,
        "cpu_seconds": record.cpu,
        "extra": record.extra,
        "columns": list(COLUMNS),
        "requests": [sample.row() for sample in samples.ordered],
        "rows_left_out": total.requests - len(samples.rows),
    }


def _shown(host: str) -> str:
    return "loopback" if is_loopback(host) else host
