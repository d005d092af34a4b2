"""What an engine's counters say of its two cache tiers, in one model over vLLM's versions.

| what | series | since |
|---|---|---|
| device pool (L1) | `prefix_cache_queries`, `prefix_cache_hits`; 0.8 and before `gpu_prefix_cache_*` | 0.9 |
| host tier (L2), tokens | `external_prefix_cache_queries`, `external_prefix_cache_hits` | 0.11 |
| host tier, bytes | `kv_offload_total_bytes` by `transfer_type` | 0.16 |
| the same, flat | `kv_offload_load_bytes`, `kv_offload_store_bytes` | 0.25 |
| lookups | `kv_offload_lookup_sync_delay_seconds` | 0.26 |

The flat and the labelled bytes are the same bytes: only one of them is read, the flat one where it is there. A value is
None where the engine has no such series: unknown, not zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from engine.scrape import Replica, Scrape

T = TypeVar("T")

_COUNTERS: dict[str, tuple[str, ...]] = {
    "l1_queries": ("vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries"),
    "l1_hits": ("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits"),
    "l2_queries": ("vllm:external_prefix_cache_queries",),
    "l2_hits": ("vllm:external_prefix_cache_hits",),
    "prompt_tokens": ("vllm:prompt_tokens",),
    "generation_tokens": ("vllm:generation_tokens",),
    "preemptions": ("vllm:num_preemptions",),
    "stores_skipped": ("vllm:kv_offload_stores_skipped",),
    "allocation_failures": ("vllm:kv_offload_allocation_failure",),
    "lookups": ("vllm:kv_offload_lookup_sync_delay_seconds_count",),
}
_SOURCES = {
    "computed": "local_compute",
    "from_l1": "local_cache_hit",
    "from_l2": "external_kv_transfer",
}
_GAUGES = {
    "pool_usage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
    "pinned": ("vllm:kv_offload_cpu_cache_usage_perc",),
}
_FLAT = {"load": "vllm:kv_offload_load", "store": "vllm:kv_offload_store"}
_DIRECTION = {"load": "CPU_to_GPU", "store": "GPU_to_CPU"}
_OLD_BYTES, _OLD_SIZE = "vllm:kv_offload_total_bytes", "vllm:kv_offload_size_count"
_FLAT_AGE = ("vllm:kv_offload_stores_skipped", "vllm:kv_offload_lookup_sync_delay_seconds")
_TIER_FAMILIES = (*(f"{name}_bytes" for name in _FLAT.values()), _OLD_BYTES, "vllm:kv_offload_size", *_FLAT_AGE)
_INFO = "vllm:cache_config_info"


@dataclass(frozen=True, kw_only=True)
class Counters:
    """Counters since the engine's start, or between two scrapes. Tokens unless named bytes; None is unknown."""

    l1_queries: float | None = None
    l1_hits: float | None = None
    l2_queries: float | None = None
    l2_hits: float | None = None
    store_bytes: float | None = None
    load_bytes: float | None = None
    stores: float | None = None  # transfers, not blocks
    loads: float | None = None
    lookups: float | None = None
    stores_skipped: float | None = None
    allocation_failures: float | None = None
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    computed: float | None = None
    from_l1: float | None = None
    from_l2: float | None = None
    preemptions: float | None = None

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of the values this engine does not report."""
        return tuple(f.name for f in fields(self) if getattr(self, f.name) is None)

    @property
    def l1_hit_rate(self) -> float | None:
        return _share(self.l1_hits, self.l1_queries)

    @property
    def l2_hit_rate(self) -> float | None:
        return _share(self.l2_hits, self.l2_queries)

    @property
    def reads_back(self) -> bool | None:
        """Whether the host tier was read: bytes **and** hits; None where either is unknown.

        Hits count when a request is admitted, before any copy; bytes count copies that may serve a request that was
        preempted. Neither alone is proof.
        """
        if self.load_bytes is None or self.l2_hits is None:
            return None
        return self.load_bytes > 0 and self.l2_hits > 0

    @property
    def write_only(self) -> bool | None:
        """Whether the host tier is written and never read; None where that is unknown."""
        if self.store_bytes is None or self.load_bytes is None:
            return None
        return self.store_bytes > 0 and self.load_bytes == 0


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One replica, or a sum of several, at one moment."""

    replicas: tuple[Replica, ...]
    counters: Counters
    has_tier: bool
    started: tuple[float | None, ...]
    """`process_start_time_seconds` of each server that was read."""
    pool_usage: float | None = None  # share of the pool held by requests, the highest of the replicas
    running: float | None = None
    waiting: float | None = None
    pinned: float | None = None  # share of L2 pinned by copies in flight: 0 is normal
    block_size: int | None = None
    num_blocks: int | None = None  # of one replica
    size_tokens: int | None = None  # tokens one replica's blocks hold at the longest prompt, by vLLM 0.29 and later
    prefix_caching: bool | None = None

    @property
    def pool_tokens(self) -> int | None:
        """Tokens that L1 of all replicas holds. In hybrid models, whose groups share the blocks, vLLM before 0.29 does
        not say how many fewer than blocks times block size that are."""
        if self.size_tokens is not None:
            return self.size_tokens * len(self.replicas)
        if self.block_size is None or self.num_blocks is None:
            return None
        return self.block_size * self.num_blocks * len(self.replicas)

    def turned_over(self, counters: Counters) -> float | None:
        """How often L1 was filled anew by what was computed: below 1 nothing need have left it. None is unknown."""
        computed = counters.computed if counters.computed is not None else counters.prompt_tokens
        return None if computed is None or not self.pool_tokens else computed / self.pool_tokens


def read(scrape: Scrape, replica: Replica | None = None) -> Reading:
    """One replica of a scrape, or all of them together."""
    if replica is None:
        return total([read(scrape, one) for one in scrape.replicas() or (Replica("", "0"),)])
    counters = _counters(scrape, replica)
    return Reading(
        replicas=(replica,),
        counters=counters,
        # Other connectors than vLLM's own have no series of bytes.
        has_tier=any(scrape.is_declared(name) for name in _TIER_FAMILIES) or bool(counters.l2_queries),
        started=(scrape.value("process_start_time_seconds"),),
        block_size=_whole(scrape.label(_INFO, "block_size", replica)),
        num_blocks=_whole(scrape.label(_INFO, "num_gpu_blocks", replica)),
        size_tokens=_whole(scrape.label(_INFO, "kv_cache_size_tokens", replica)),
        prefix_caching=_truth(scrape.label(_INFO, "enable_prefix_caching", replica)),
        **{name: _first(scrape, series, replica) for name, series in _GAUGES.items()},
    )


def total(readings: Sequence[Reading]) -> Reading:
    """Several replicas as one. A value that one of them does not know is unknown of all."""
    first = readings[0]
    if len(readings) == 1:
        return first
    summed = {f.name: _sum(getattr(r.counters, f.name) for r in readings) for f in fields(Counters)}
    return replace(
        first,
        replicas=tuple(one for reading in readings for one in reading.replicas),
        counters=Counters(**summed),
        has_tier=any(reading.has_tier for reading in readings),
        started=tuple(dict.fromkeys(started for reading in readings for started in reading.started)),
        pool_usage=_highest(reading.pool_usage for reading in readings),
        running=_sum(reading.running for reading in readings),
        waiting=_sum(reading.waiting for reading in readings),
        pinned=_highest(reading.pinned for reading in readings),
        block_size=_common(reading.block_size for reading in readings),
        num_blocks=_common(reading.num_blocks for reading in readings),
        size_tokens=_common(reading.size_tokens for reading in readings),
        prefix_caching=_common(reading.prefix_caching for reading in readings),
    )


def restarted(before: Reading, after: Reading) -> bool:
    """True when counters of the two cannot be subtracted: another process, other replicas, or a counter that fell."""
    if before.started != after.started or before.replicas != after.replicas:
        return True
    pairs = [(getattr(before.counters, f.name), getattr(after.counters, f.name)) for f in fields(Counters)]
    return any(a is not None and b is not None and b < a for a, b in pairs)


def between(before: Reading, after: Reading) -> Counters | None:
    """What was counted between two readings; None after a restart, since nothing can be said then."""
    if restarted(before, after):
        return None
    values: dict[str, float | None] = {}
    for f in fields(Counters):
        a, b = getattr(before.counters, f.name), getattr(after.counters, f.name)
        values[f.name] = None if a is None or b is None else b - a
    return Counters(**values)


def _counters(scrape: Scrape, replica: Replica) -> Counters:
    values = {name: _first(scrape, series, replica) for name, series in _COUNTERS.items()}
    for name, source in _SOURCES.items():
        values[name] = scrape.value("vllm:prompt_tokens_by_source", replica, source=source)
    for direction in _FLAT:
        values[f"{direction}_bytes"], values[f"{direction}s"] = _transfers(scrape, replica, direction)
    return Counters(**values)


def _transfers(scrape: Scrape, replica: Replica, direction: str) -> tuple[float | None, float | None]:
    """Bytes and number of copies in one direction, from one family only."""
    flat, old = _FLAT[direction], _DIRECTION[direction]
    if scrape.is_declared(f"{flat}_bytes"):
        return (
            scrape.value(f"{flat}_bytes", replica) or 0.0,
            scrape.value(f"{flat}_size_count", replica) or (0.0 if scrape.is_declared(f"{flat}_size") else None),
        )
    if not scrape.is_declared(_OLD_BYTES):
        # The embedded engine, and scrapes that a filter passed, declare a flat series with its first sample: beside
        # others of its age, a missing one has not counted.
        beside = (*_FLAT_AGE, *(f"{name}_bytes" for name in _FLAT.values()))
        return (0.0, None) if any(map(scrape.is_declared, beside)) else (None, None)
    return (
        scrape.value(_OLD_BYTES, replica, transfer_type=old) or 0.0,
        scrape.value(_OLD_SIZE, replica, transfer_type=old),
    )


def _first(scrape: Scrape, series: Iterable[str], replica: Replica) -> float | None:
    """The first of several names an engine may have; declared and without a sample is zero."""
    for name in series:
        found = scrape.value(name, replica)
        if found is not None:
            return found
    family = [name.removesuffix("_count") for name in series]
    return 0.0 if any(scrape.is_declared(name) for name in family) else None


def _sum(values: Iterable[float | None]) -> float | None:
    held = list(values)
    return None if any(value is None for value in held) else sum(value for value in held if value is not None)


def _highest(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known, default=None)


def _common(values: Iterable[T]) -> T | None:
    held = list(dict.fromkeys(values))
    return held[0] if len(held) == 1 else None


def _share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _truth(text: str | None) -> bool | None:
    return {"true": True, "false": False}.get((text or "").lower())
