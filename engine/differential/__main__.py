"""`python -m engine.differential --python VENV/bin/python`: compare the embedded core with an installed vLLM."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.differential.mutants import MUTANTS
from engine.differential.run import compare_all, first_catch, scripts
from engine.differential.speed import side_by_side
from engine.differential.traffic import TrafficError, beside
from engine.differential.traffic import read as read_traffic
from engine.differential.vectors import VECTORS, read, record
from engine.differential.vllm_child import VllmError, workers
from engine.vllm.environment import VllmError as NotInstalled
from engine.vllm.environment import find


def main(argv: Sequence[str] | None = None) -> int:
    """0: no difference and every mutant caught; 1: otherwise; 2: vLLM could not be used."""
    parser = argparse.ArgumentParser(
        prog="python -m engine.differential",
        description="Drive vLLM's real scheduler and the embedded core with the same random scripts and compare.",
    )
    add = parser.add_argument
    add(
        "--python",
        default=None,
        help="interpreter of an environment that has vLLM (default: what the engine would use)",
    )
    add("--wheel", default=None, metavar="DIR", help="an unpacked wheel of another release, to be used instead")
    add("--scripts", type=int, default=500, help="scripts of each group set (default 500)")
    add("--first", type=int, default=0, help="first seed (default 0)")
    add("--workers", type=int, default=2, help="vLLM processes side by side (default 2)")
    add("--speed", action="store_true", help="time both engines on the same traffic and stop")
    add("--traffic", type=Path, default=None, metavar="FILE", help="serve a file of requests on both, and stop")
    add("--pool-tokens", type=int, default=450_000, help="--traffic: tokens L1 holds (default 450000)")
    add("--l2-tokens", type=int, default=0, help="--traffic: tokens L2 holds (default 0: no L2)")
    add("--record", type=Path, default=None, metavar="FILE", help="write this release's vectors and stop")
    arguments = parser.parse_args(argv)
    try:
        python = arguments.python or find(gpu=False).python
    except NotInstalled as error:
        sys.stderr.write(f"{error}\n")
        return 2
    alone = arguments.speed or arguments.record or arguments.traffic
    try:
        traffic = read_traffic(arguments.traffic) if arguments.traffic else None
        with workers(python, arguments.wheel, 1 if alone else arguments.workers) as children:
            if traffic is not None:
                told = beside(traffic, arguments.pool_tokens, arguments.l2_tokens, children[0])
                sys.stdout.write(told.line() + "\n")
                return 1 if told.differing else 0
            if arguments.record is not None:
                count = record(arguments.record, children[0])
                sys.stdout.write(f"{count} traces of vLLM {children[0].version} in {arguments.record}\n")
                return 0
            if arguments.speed:
                for speed in side_by_side(children[0]):
                    sys.stdout.write(speed.line() + "\n")
                return 0
            outcome = compare_all(scripts(arguments.scripts, arguments.first), children)
    except (VllmError, TrafficError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write("\n".join(outcome.lines()) + "\n")
    missed = _mutants()
    return 1 if outcome.differing or missed else 0


def _mutants() -> int:
    missed = 0
    for mutant in MUTANTS:
        for path in sorted(VECTORS.glob("*.jsonl.gz")):
            version, traces = read(path)
            caught = first_catch(mutant, traces, version)
            if caught is not None:
                sys.stdout.write(f"mutant {mutant.__name__} is caught by {caught[0].name} of vLLM {version}\n")
                break
        else:
            missed += 1
            sys.stdout.write(f"mutant {mutant.__name__} is caught by nothing\n")
    return missed


if __name__ == "__main__":
    sys.exit(main())
