"""`prefixproof-load NAME`: one run without Locust's own command line; without `--host` on the embedded pair."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from conformance.wire.endpoint import API_KEY_VARIABLE
from load.embedded import PairOptions, RunningPair, embedded_pair, with_sizes
from load.errors import LoadExit, LoadProblem
from load.options import OPTIONS, LoadOptions, add_options, from_namespace
from load.shapes import SHAPES

ENGINE_FAULTS = (
    "l2-write-only", "l2-partial", "l2-exact-only", "l2-wrong-blocks", "l2-stalls", "l2-slow", "l2-unmetered",
)  # fmt: skip
"""Faults of the embedded engine's second tier; any other `--fault` is one of the gateway."""

RANDOM_ROUTING = "random-routing"
"""The fault that is no more than `--routing random`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; see `LoadExit` for what it returns."""
    parser = _parser()
    given = list(sys.argv[1:] if argv is None else argv)
    # A run that is told to end takes its processes with it; Locust puts its own handler in this one's place later.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        if given[:1] == ["incident"]:
            return _incident(given[1:])
        parsed = parser.parse_args(given)
        return _run(parsed)
    except LoadProblem as problem:
        sys.stderr.write(f"prefixproof-load: {problem}\n")
        return int(problem.code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="prefixproof-load",
        description="Load of agent-shaped sessions on a gateway; without --host on the embedded pair.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "shape", metavar="NAME", choices=(*SHAPES, "replay"), help=", ".join((*SHAPES, "replay", "incident"))
    )
    parser.add_argument("--host", help="the gateway's base URL, as in http://127.0.0.1:3000")
    parser.add_argument("--users", type=int, help="sessions at a time (default 4; replay: 1, in order)")
    parser.add_argument("--json", metavar="FILE", dest="result", help="the same as --result")
    parser.add_argument("--api-key", help=f"the key; default: ${API_KEY_VARIABLE}")
    parser.add_argument("--processes", type=int, help="Locust workers on this machine; default: none, one process")
    parser.add_argument("--web", type=int, metavar="PORT", help="show Locust's web page there while it runs")
    add_options(parser)
    parser.set_defaults(result=None)
    pair = parser.add_argument_group("the embedded pair (without --host)")
    pair.add_argument("--fault", help=f"a fault of the gateway, or of the engine: {', '.join(ENGINE_FAULTS)}")
    pair.add_argument("--block-size", type=int, default=64)
    pair.add_argument("--tokenizer", default="fast", choices=("fast", "deepseek"))
    pair.add_argument("--template", default="tools-first", choices=("tools-first", "system-first"))
    pair.add_argument("--step-interval", type=float, default=0.0, help="seconds an engine step takes")
    pair.add_argument("--batched-tokens", type=int, default=8_192, help="tokens an engine step computes at most")
    pair.add_argument("--replicas", type=int, default=1, help="engines behind the gateway")
    pair.add_argument("--routing", default="session", choices=("session", "random"))
    return parser


def _incident(given: list[str]) -> int:
    import locust  # noqa: F401 - patches the standard library before anything opens a socket

    from load.day.command import ARMS, DayOptions, run_day

    parser = argparse.ArgumentParser(
        prog="prefixproof-load incident", allow_abbrev=False,
        description="The day of the incident on the embedded pair; prints the report's tables from what is measured.",
    )  # fmt: skip
    parser.add_argument("--arms", default=",".join(ARMS), help=f"which of {', '.join(ARMS)}; commas between")
    parser.add_argument("--two-switches", action="store_true", help="also both switches, with a client that compacts")
    parser.add_argument("--part", type=float, default=1.0, help="share of the day's requests (default: all)")
    parser.add_argument("--report", metavar="DIR", help="write usage tables, forensics' words and day.json there")
    parser.add_argument("--capture", action="store_true", help="also captures with hashed parts, for forensics")
    parser.add_argument(
        "--vllm-scheduler", action="store_true", help="also the time vLLM's own scheduler takes, where it is installed"
    )
    parser.add_argument("--tokenizer", default="deepseek", choices=("deepseek", "fast"))
    parsed = parser.parse_args(given)
    arms = tuple(part for part in parsed.arms.split(",") if part)
    return int(run_day(DayOptions(**{**vars(parsed), "arms": arms})))


def _run(parsed: argparse.Namespace) -> int:
    if parsed.api_key:
        os.environ[API_KEY_VARIABLE] = parsed.api_key
    with ExitStack() as stack:
        own: dict[str, object] = {}
        if parsed.host is None:
            pair = stack.enter_context(embedded_pair(_pair_options(parsed)))
            own = _pointed_at(pair, parsed)
        elif parsed.fault:
            raise LoadProblem("--fault only goes with the embedded pair: leave --host out")
        if parsed.users is None:
            own["users"] = 1 if parsed.shape == "replay" else 4
        options = from_namespace(parsed, **own)
        if options.gate:
            from load.gate import read_gate

            read_gate(options.gate)
        return run_locust(options, processes=parsed.processes, web=parsed.web)


def _pair_options(parsed: argparse.Namespace) -> PairOptions:
    engine_fault = parsed.fault if parsed.fault in ENGINE_FAULTS else None
    options = PairOptions(
        block_size=parsed.block_size,
        tokenizer=parsed.tokenizer,
        template=parsed.template,
        step_interval=parsed.step_interval,
        batched_tokens=parsed.batched_tokens,
        fault=None if engine_fault or parsed.fault == RANDOM_ROUTING else parsed.fault,
        engine_fault=engine_fault,
        replicas=parsed.replicas,
        routing="random" if parsed.fault == RANDOM_ROUTING else parsed.routing,
    )
    return with_sizes(options, pool_tokens=parsed.pool_tokens, l2_tokens=parsed.l2_tokens)


def _pointed_at(pair: RunningPair, parsed: argparse.Namespace) -> dict[str, object]:
    from load.processes import PROCESSES

    os.environ[PROCESSES] = " ".join(f"{name}={pid}" for name, pid in pair.processes.items())
    sizes = with_sizes(PairOptions(), pool_tokens=parsed.pool_tokens, l2_tokens=parsed.l2_tokens)
    own: dict[str, object] = {"host": pair.gateway, "l2_tokens": sizes.l2_tokens or None}
    if len(pair.engines) == 1:
        own["engine"] = pair.engines[0]
    return own


def run_locust(options: LoadOptions, *, processes: int | None = None, web: int | None = None) -> int:
    """Locust's own main with these options, in this process."""
    import locust.main

    arguments = ["locust", "-f", str(Path(__file__).with_name("locustfile.py")), "--host", options.host]
    arguments += ["--shape", options.shape, "-u", str(options.users), "-r", str(max(options.users, 1))]
    arguments += ["--stop-timeout", "0", "--skip-log-setup"]
    if web is None:
        arguments += ["--headless", "--only-summary"]
    else:
        arguments += ["--autostart", "--web-host", "127.0.0.1", "--web-port", str(web)]
    if processes is not None:
        arguments += ["--processes", str(processes)]
    given = options.as_dict()
    for option in OPTIONS:
        value = given[option.dest]
        if value not in (None, option.default):
            arguments += [f"--{option.name}", str(value)]
    before = sys.argv
    sys.argv = arguments
    # Without its log set up Locust's summary table stays away; it has no tokens in it.
    try:
        locust.main.main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(LoadExit.FAILED)
    finally:
        sys.argv = before
    return int(LoadExit.GREEN)
