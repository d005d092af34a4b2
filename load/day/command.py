"""`prefixproof-load incident`: the day, one arm after the other, each on a fresh embedded pair."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Final

import orjson

from conformance.sessions.compaction import ContextMeter
from load.day.acts import day
from load.day.arm import ROWS, Arm
from load.day.inputs import Inputs, part_of, read_inputs
from load.day.model import simulate, write_traffic
from load.day.play import play
from load.day.tables import (
    arm_text,
    cold_starts,
    distribution_off,
    distribution_on,
    inputs_line,
    warm_turns,
)
from load.embedded import PairOptions, embedded_pair
from load.errors import LoadExit, LoadProblem
from load.processes import PROCESSES, say
from load.tables import table

ARMS: Final = ("off", "on", "on+l2")
WINDOW: Final = 200_000
"""Tokens; the window Claude Code 2.1.116 believed to have."""

SHARE: Final = 0.9


@dataclass(frozen=True, kw_only=True)
class DayOptions:
    """What to play. `part` is the share of the day's requests; 1 is the whole day."""

    arms: tuple[str, ...] = ("off", "on", "on+l2")
    two_switches: bool = False
    part: float = 1.0
    report: str | None = None
    capture: bool = False
    vllm_scheduler: bool = False
    tokenizer: str = "deepseek"


def run_day(options: DayOptions) -> LoadExit:
    """Play, print the report's tables, feed forensics. Raises `LoadProblem`."""
    unknown = set(options.arms) - set(ARMS)
    if unknown:
        raise LoadProblem(f"--arms {','.join(unknown)}: choose from {', '.join(ARMS)}")
    inputs = part_of(read_inputs(), options.part)
    folder = Path(options.report) if options.report else None
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    sys.stdout.write(inputs_line(inputs) + "\n")
    told: dict[str, Any] = {
        "schema": "prefixproof-load-day/1",
        "inputs": asdict(inputs),
        "part": options.part,
        "arms": {},
    }
    for name in options.arms:
        arm = play_arm(name, inputs, options, folder)
        model = simulate(arm.inputs, strip=arm.strip)
        sys.stdout.write("\n" + arm_text(arm, model) + "\n")
        told["arms"][name] = summary(arm)
        if options.vllm_scheduler:
            sys.stdout.write(f"\nthe same traffic, without HTTP: {vllm_scheduler(arm)}\n")
        if folder is not None:
            log = write_usage(arm, folder / f"usage-{name.replace('+', '-')}.jsonl")
            sys.stdout.write(f"\nforensics on {log.name}: {forensics(log)}\n")
        sys.stdout.flush()
    if options.two_switches:
        rows: list[dict[str, Any]] = []
        for strip, exclude in product((False, True), (False, True)):
            rows.append(four(strip, exclude, inputs, options))
            say(switches_line(rows[-1]))
        told["two_switches"] = rows
        sys.stdout.write("\n" + two_switches_table(rows) + "\n")
    if folder is not None:
        (folder / "day.json").write_bytes(orjson.dumps(told, option=orjson.OPT_INDENT_2))
        sys.stdout.write(f"\nreport: {folder / 'day.json'}\n")
    return LoadExit.GREEN


def play_arm(name: str, inputs: Inputs, options: DayOptions, folder: Path | None) -> Arm:
    """One arm of `ARMS` on a pair of its own."""
    on = name.startswith("on")
    # L2 of four times L1: the report's was far larger than its GPU pool.
    own = replace(inputs, l2_tokens=4 * inputs.pool_tokens if name.endswith("+l2") else 0)
    arm = Arm(name, strip=on, exclude=on, inputs=own)
    capture = folder / f"capture-{name.replace('+', '-')}.jsonl" if folder is not None and options.capture else None
    return _on_a_pair(arm, options, capture=capture)


def _on_a_pair(arm: Arm, options: DayOptions, *, meter: ContextMeter | None = None, capture: Path | None = None) -> Arm:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="prefixproof-day-")))
        pair = stack.enter_context(
            embedded_pair(
                PairOptions(
                    pool_tokens=arm.inputs.pool_tokens, l2_tokens=arm.inputs.l2_tokens,
                    block_size=arm.inputs.block_size, tokenizer=options.tokenizer,
                    strip_header=arm.strip, exclude_cache=arm.exclude,
                    usage_log=folder / "usage.log",
                )
            )
        )  # fmt: skip
        os.environ[PROCESSES] = " ".join(f"{name}={pid}" for name, pid in pair.processes.items())
        say(f"arm {arm.name}: gateway {pair.gateway}, engine {pair.engines[0]}")
        return play(
            arm, pair.gateway, pair.engines[0], acts=day(arm.inputs), meter=meter, usage_log=folder / "usage.log",
            capture=capture,
        )  # fmt: skip


def four(strip: bool, exclude: bool, inputs: Inputs, options: DayOptions) -> dict[str, Any]:
    """One of the four settings of the two switches, with a client that compacts by its own count."""
    name = f"strip {_on(strip)}, exclude {_on(exclude)}"
    arm = Arm(name, strip=strip, exclude=exclude, inputs=replace(inputs, l2_tokens=0))
    arm = _on_a_pair(arm, options, meter=ContextMeter(WINDOW, SHARE))
    counted = arm.counts("claude")
    prompt, cached = sum(p for p, _ in counted), sum(c for _, c in counted)
    sizes = [p for s, (p, _) in zip(arm.rows("claude"), counted, strict=True) if s.kind == "compaction"]
    return {
        "strip": strip,
        "exclude": exclude,
        "requests": len(counted),
        "compactions": arm.compactions,
        "mean_size_at_compaction": sum(sizes) / len(sizes) if sizes else None,
        "prompt_tokens": prompt,
        "cold_tokens": prompt - cached,
        "hit_rate": cached / prompt if prompt else None,
    }


def switches_line(row: dict[str, Any]) -> str:
    """One setting, said as soon as it is known: a whole day may be cut short."""
    return (
        f"strip {_on(row['strip'])}, exclude {_on(row['exclude'])}: {row['compactions']} compactions, "
        f"{row['cold_tokens']:,} cold tokens, hit rate {row['hit_rate']:.2%}"
    )


def two_switches_table(rows: Sequence[dict[str, Any]]) -> str:
    """The 2 x 2 as text."""
    lines = []
    for row in rows:
        size = row["mean_size_at_compaction"]
        lines.append((
            f"strip {_on(row['strip'])}, exclude {_on(row['exclude'])}", f"{row['compactions']}",
            "-" if size is None else f"{size:,.0f}", f"{row['prompt_tokens']:,}", f"{row['cold_tokens']:,}",
            f"{row['hit_rate']:.2%}",
        ))  # fmt: skip
    head = ("switches", "compactions", "prompt at compaction", "prompt tokens", "cold tokens", "hit rate")
    return f"both switches, a client that compacts at {SHARE:.0%} of {WINDOW:,} tokens by its own count\n" + table(
        head, lines
    )


def summary(arm: Arm) -> dict[str, Any]:
    """An arm for JSON."""
    rows = {}
    for who in ("claude", "reasonix", "opencode", "neighbour"):
        counted = arm.counts(who)
        prompt, cached = sum(p for p, _ in counted), sum(c for _, c in counted)
        rows[who] = {"requests": len(counted), "prompt": prompt, "cached": cached, "cold": cold_starts(arm, who),
                     "hit_rate": cached / prompt if prompt else None}  # fmt: skip
    bins = distribution_on if arm.strip else distribution_off
    warm = warm_turns(arm)
    tiers = arm.after.since(arm.before) if arm.before is not None and arm.after is not None else None
    return {
        "rows": rows,
        "distribution": bins(arm.counts("claude")),
        "warm_turns": warm.turns,
        "warm_turns_exact": warm.exact,
        "seconds": arm.seconds,
        "cpu_seconds": arm.cpu,
        "requests": len(arm.samples),
        "tiers": tiers,
    }


def write_usage(arm: Arm, path: Path) -> Path:
    """The user's requests as a usage table, as the incident's gateway logged them."""
    with path.open("wb") as file:
        for sample, (prompt, cached), at in zip(arm.samples, arm.truth, arm.moments, strict=True):
            if ROWS[sample.client] == "neighbour":
                continue
            entry = "/v1/messages" if sample.entry == "messages" else "/v1/chat/completions"
            model = "deepseek-v4-flash-0731" if ROWS[sample.client] == "reasonix" else "llm-prime"
            row = {"time": _MIDNIGHT + at, "entry": entry, "model": model, "client": sample.client, "user": "u1",
                   "prompt_tokens": prompt, "cached_tokens": cached}  # fmt: skip
            file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return path


_MIDNIGHT: Final = 1_786_924_800
"""2026-08-17 00:00 UTC."""


def forensics(log: Path) -> str:
    """What `prefixproof-forensics` says of it: its first finding, or that there is none."""
    done = subprocess.run(  # noqa: S603 - our own module
        [sys.executable, "-c", "import sys; from conformance.forensics.cli import main; sys.exit(main())", str(log)],
        capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "120"},
    )  # fmt: skip
    text = done.stdout if done.returncode in (0, 1) else done.stderr
    (log.parent / f"{log.stem}.txt").write_text(text, encoding="utf-8")
    word = {0: "no fault found", 1: "a fault found"}.get(done.returncode, "could not be read")
    return f"{word} (see {log.stem}.txt)"


def vllm_scheduler(arm: Arm) -> str:
    """The time vLLM's own scheduler takes for the arm's traffic, as the cache model shapes it, beside the engine's."""
    with tempfile.TemporaryDirectory(prefix="prefixproof-day-") as folder:
        path = Path(folder) / "day.jsonl"
        write_traffic(arm.inputs, path, strip=arm.strip)
        sizes = ("--pool-tokens", str(arm.inputs.pool_tokens), "--l2-tokens", str(arm.inputs.l2_tokens))
        done = subprocess.run(  # noqa: S603 - our own module
            [sys.executable, "-m", "engine.differential", "--traffic", str(path), *sizes],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    return (done.stdout or done.stderr).strip()


def _on(switch: bool) -> str:
    return "on" if switch else "off"
