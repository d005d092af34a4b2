"""Every fault that only load shows against every rule that only load judges, on embedded pairs of their own.

    python -m conformance.load_matrix

As `conformance.matrix` does without load: what fails must be what the fault declares, and nothing else.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from conformance.judgements import under_load as judge
from conformance.judgements.load_looks import Loaded
from conformance.judgements.replicas import sessions_stay_on_one_replica
from conformance.observe.under_load import LOAD_FAULTS, LoadRun, LoadRuns, LoadSettings
from conformance.verdicts import Entry, Status, Verdict

JUDGEMENTS: tuple[Callable[[Loaded], Verdict], ...] = (
    judge.loads_at_least_half,
    judge.is_not_write_only,
    judge.answers_stay_the_same,
    judge.next_turns_load,
    judge.requests_end,
    judge.amplification_is_known,
    judge.loads_are_faster,
    sessions_stay_on_one_replica,
)


class OneEntry:
    """One entry under load: each shape is put on it when a judgement first asks for it."""

    def __init__(self, entry: Entry, settings: LoadSettings) -> None:
        self.entry = entry
        self._runs = LoadRuns(settings, entry)

    def load_run(self, shape: str, *, again: bool = False) -> LoadRun:
        """The run of a shape, or the one that confirms it."""
        return self._runs.of(shape, again=again)


@dataclass(frozen=True)
class LoadCell:
    """One fault on one entry."""

    fault: str | None
    entry: Entry
    verdicts: tuple[Verdict, ...]
    seconds: float

    @property
    def broken(self) -> frozenset[str]:
        """Rules that failed."""
        return frozenset(v.rule for v in self.verdicts if v.status is Status.FAIL)

    @property
    def declared(self) -> frozenset[str]:
        """Rules the fault says it breaks."""
        return LOAD_FAULTS.get(self.fault or "", frozenset())


def run_cell(fault: str | None, entry: Entry, *, seed: int = 0) -> LoadCell:
    """Judge every load rule under one fault."""
    settings = LoadSettings(
        target=None, model="", api_key=None, engine=None, fault=fault, template="tools-first", block_size=64, seed=seed
    )
    began = time.monotonic()
    observed = OneEntry(entry, settings)
    verdicts = tuple(judgement(observed) for judgement in JUDGEMENTS)
    return LoadCell(fault, entry, verdicts, time.monotonic() - began)


def main() -> int:
    """Print every cell; 1 when one differs from what its fault declares, or a clean pair leaves a rule unjudged."""
    parser = argparse.ArgumentParser(prog="python -m conformance.load_matrix", description=__doc__)
    parser.add_argument("--faults", default="", help="only these, commas between; clean is none")
    parser.add_argument("--seed", type=int, default=0)
    parsed = parser.parse_args()
    wanted = [name for name in parsed.faults.split(",") if name] or ["clean", *LOAD_FAULTS]
    wrong = 0
    for name in wanted:
        for entry in Entry:
            cell = run_cell(None if name == "clean" else name, entry, seed=parsed.seed)
            unjudged = [v for v in cell.verdicts if not v.status.judged] if name == "clean" else []
            same = cell.broken == cell.declared and not unjudged
            wrong += not same
            sys.stdout.write(
                f"{name:16} {entry.value:9} {cell.seconds:5.1f} s  breaks {' '.join(sorted(cell.broken)) or '-'}"
                f"{'' if same else '   DECLARED ' + (' '.join(sorted(cell.declared)) or '-')}\n"
            )
            for verdict in cell.verdicts if not same else ():
                sys.stdout.write(f"    {verdict.rule} {verdict.status}: {verdict.reason}\n")
            sys.stdout.flush()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
