"""`prefixproof-engine inspect URL`: what an engine's metrics say of its two tiers, in words."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from engine.metrics import Counters, Reading, between, read, restarted, total
from engine.scrape import MetricsError, fetch
from engine.wording import count, share, size, table

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_command(commands: Commands) -> None:
    """Add `inspect` to the command line."""
    parser = commands.add_parser(
        "inspect",
        help="say what an engine's metrics show of its caches",
        description="Read one or several engines' metrics (URLs or saved scrapes) and say what they show of L1 and L2.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("sources", nargs="+", metavar="URL|FILE", help="an engine's /metrics, or what it answered")
    add("--seconds", type=float, metavar="N", help="read twice, N seconds apart, and show what was counted between")
    add("--json", action="store_true", help="the same as JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    try:
        reading = _read(arguments.sources)
        counters, span = reading.counters, "since the engine's start"
        if arguments.seconds:
            time.sleep(arguments.seconds)
            later = _read(arguments.sources)
            if restarted(reading, later):
                sys.stderr.write("prefixproof-engine: the engine restarted between the two readings\n")
                return 1
            reading, counters = later, between(reading, later) or Counters()
            span = f"in {arguments.seconds:g} s"
    except MetricsError as error:
        sys.stderr.write(f"prefixproof-engine: {error}\n")
        return 2
    if arguments.json:
        sys.stdout.write(json.dumps(as_json(reading, counters), indent=1) + "\n")
    else:
        sys.stdout.write(as_text(reading, counters, span) + "\n")
    return 0


def _read(sources: Sequence[str]) -> Reading:
    return total([read(fetch(source)) for source in sources])


def as_text(reading: Reading, counters: Counters, span: str) -> str:
    """What a person wants to know, a line a subject."""
    rows = [("engine", _engine(reading)), ("pool (L1)", _pool(reading)), ("counted", span)]
    rows.append(
        (
            "L1",
            f"{count(counters.l1_hits)} of {count(counters.l1_queries, 'tokens')} looked up were hits "
            f"({share(counters.l1_hits, counters.l1_queries)})",
        )
    )
    if reading.has_tier:
        rows += _tier(counters, reading)
    else:
        rows.append(("L2", "none: this engine has no series of a host tier"))
    rows.append(("prompts", _prompts(counters)))
    if counters.preemptions:
        rows.append(("preempted", f"{count(counters.preemptions)} times: the pool is full at times"))
    if unknown := _unknown(counters, reading):
        rows.append(("unknown", f"{', '.join(unknown)}: this engine has no such series"))
    return table(rows)


def verdict(counters: Counters, reading: Reading) -> str:
    """One line on whether the host tier is read back."""
    turned = reading.turned_over(counters)
    if counters.write_only and turned is not None and turned < 1:
        return f"stored and not loaded yet, which is no fault: what was computed fills {100 * turned:.0f} % of L1 once"
    if counters.write_only:
        return (
            "WRITE-ONLY: stores and never loads"
            + ("; it was never asked" if counters.lookups == 0 else "")
            + (" and L1 never missed" if counters.l2_queries == 0 else "")
            + (f", while L1 was filled {turned:.1f} times" if turned is not None else "")
            + ". Unless no prompt ever came back: `prefixproof-engine doctor` looks for the cause, `probe` tries"
        )
    if counters.write_only is None or counters.reads_back is None:
        return "cannot be told: bytes or hits are unknown"
    if counters.reads_back:
        return "read back: it loads, and requests hit it"
    if not counters.store_bytes:
        return "nothing was stored yet"
    return "loads without hits: copies for requests that were preempted or aborted"


def as_json(reading: Reading, counters: Counters) -> dict[str, Any]:
    """The same as data; unknown values are null."""
    held = asdict(reading)
    held["counters"] = asdict(counters)
    held["replicas"] = [str(replica) for replica in reading.replicas]
    held["verdict"] = verdict(counters, reading) if reading.has_tier else None
    return held


def _engine(reading: Reading) -> str:
    names = ", ".join(str(replica) for replica in reading.replicas[:4])
    more = f" and {len(reading.replicas) - 4} more" if len(reading.replicas) > 4 else ""
    known = [started for started in reading.started if started is not None]
    since = f", since {datetime.fromtimestamp(min(known), UTC):%Y-%m-%d %H:%M:%S} UTC" if known else ""
    return f"{names}{more}{since}"


def _pool(reading: Reading) -> str:
    words = []
    if reading.block_size and reading.pool_tokens:
        each = reading.pool_tokens // len(reading.replicas)
        words.append(f"{each:,} tokens in blocks of {reading.block_size} a replica")
    if reading.pool_usage is not None:
        words.append(f"{100 * reading.pool_usage:.1f} % held by requests")
    words.append(f"{count(reading.running)} running, {count(reading.waiting)} waiting")
    if reading.prefix_caching is False:
        words.append("PREFIX CACHING IS OFF")
    return "; ".join(words)


def _tier(counters: Counters, reading: Reading) -> list[tuple[str, str]]:
    rows = [
        ("L2 stored", f"{size(counters.store_bytes)} in {count(counters.stores, 'copies')}"),
        ("L2 loaded", f"{size(counters.load_bytes)} in {count(counters.loads, 'copies')}"),
        (
            "L2 hits",
            f"{count(counters.l2_hits)} of {count(counters.l2_queries, 'tokens')} looked up "
            f"({share(counters.l2_hits, counters.l2_queries)}); lookups: {count(counters.lookups)}",
        ),
    ]
    if reading.pinned:
        rows.append(("L2 pinned", f"{100 * reading.pinned:.1f} % by copies in flight"))
    if counters.allocation_failures or counters.stores_skipped:
        rows.append(
            (
                "L2 refused",
                f"{count(counters.allocation_failures)} stores for want of room, "
                f"{count(counters.stores_skipped)} below the reuse threshold",
            )
        )
    rows.append(("L2 is", verdict(counters, reading)))
    return rows


def _prompts(counters: Counters) -> str:
    if counters.computed is None:
        return f"{count(counters.prompt_tokens, 'tokens')}; their sources are unknown"
    whole = counters.computed + (counters.from_l1 or 0) + (counters.from_l2 or 0)
    parts = (("computed", counters.computed), ("from L1", counters.from_l1), ("from L2", counters.from_l2))
    return f"{count(whole, 'tokens')}: " + ", ".join(f"{share(part, whole)} {name}" for name, part in parts)


def _unknown(counters: Counters, reading: Reading) -> list[str]:
    of_tier = {"store_bytes", "load_bytes", "stores", "loads", "lookups", "stores_skipped", "allocation_failures"}
    # Only a tier with a reuse threshold has this series.
    usual = {"stores_skipped"} | (set() if reading.has_tier else of_tier)
    return [name for name in counters.unknown if name not in usual]
