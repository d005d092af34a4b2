"""An engine's two cache tiers as its `/metrics` tell of them, read over vLLM's names; absent is not zero."""

from __future__ import annotations

import re
import urllib.request
from dataclasses import dataclass
from typing import Any, Final
from urllib.error import URLError

from conformance.wire.endpoint import is_loopback

_LINE: Final = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+\S+)?$")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

_COUNTERS: Final = {
    "l1_queries": ("vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries"),
    "l1_hits": ("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits"),
    "l2_queries": ("vllm:external_prefix_cache_queries",),
    "l2_hits": ("vllm:external_prefix_cache_hits",),
    "prompt_tokens": ("vllm:prompt_tokens",),
    "preemptions": ("vllm:num_preemptions",),
    "lookups": ("vllm:kv_offload_lookup_sync_delay_seconds_count",),
    "stores_skipped": ("vllm:kv_offload_stores_skipped",),
}
_BYTES: Final = {"load_bytes": ("load", "CPU_to_GPU"), "store_bytes": ("store", "GPU_to_CPU")}


@dataclass(frozen=True, slots=True)
class Tiers:
    """One scrape. Tokens unless named otherwise; None = no such series.

    `load_bytes` is 0 where the engine has a store series and no load series: the flat series of a direction does not
    exist before its first transfer.
    """

    l1_queries: float | None = None
    l1_hits: float | None = None
    l2_queries: float | None = None
    l2_hits: float | None = None
    prompt_tokens: float | None = None
    preemptions: float | None = None
    lookups: float | None = None
    stores_skipped: float | None = None
    load_bytes: float | None = None
    store_bytes: float | None = None
    kv_usage: float | None = None
    pool_tokens: int | None = None
    block_size: int | None = None
    started: float | None = None

    @property
    def has_l2(self) -> bool:
        """Whether there is a second tier: its queries are counted."""
        return self.l2_queries is not None and (self.store_bytes is not None or self.lookups is not None)

    def since(self, before: Tiers) -> dict[str, float | None]:
        """What was counted between two scrapes; None where either does not know, or the engine was restarted."""
        names = (*_COUNTERS, *_BYTES)
        if before.started != self.started:
            return dict.fromkeys(names)
        return {name: _difference(getattr(before, name), getattr(self, name)) for name in names}

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


def _difference(before: float | None, after: float | None) -> float | None:
    # A counter that appeared meanwhile began at 0.
    return None if after is None else after - (before or 0.0)


def read_tiers(text: str) -> Tiers:
    """Sum the series of a scrape over all label sets (engines, replicas). Lines that are none are passed over."""
    sums: dict[str, float] = {}
    transfers: dict[str, float] = {}
    pool = block = None
    for line in text.splitlines():
        if not line.startswith(("vllm:", "process_start_time_seconds")):
            continue
        found = _LINE.match(line)
        if found is None:
            continue
        name, labels, value = found[1].removesuffix("_total"), found[2] or "", _number(found[3])
        if value is None:
            continue
        if name == "vllm:kv_offload_total_bytes":
            kind = dict(_LABEL.findall(labels)).get("transfer_type", "")
            transfers[kind] = transfers.get(kind, 0.0) + value
        elif name == "vllm:cache_config_info":
            info = dict(_LABEL.findall(labels))
            size, blocks = info.get("block_size", ""), info.get("num_gpu_blocks", "")
            if size.isdigit() and blocks.isdigit():
                block = int(size)
                # Block 0 is the null block and holds no tokens. The groups of a hybrid model share the others.
                held, shared = (int(blocks) - 1) * block, info.get("kv_cache_size_tokens", "")
                pool = (pool or 0) + (min(held, int(shared)) if shared.isdigit() else held)
        else:
            sums[name] = sums.get(name, 0.0) + value
    counted = {field: next((sums[n] for n in names if n in sums), None) for field, names in _COUNTERS.items()}
    flat = {field: sums.get(f"vllm:kv_offload_{word}_bytes") for field, (word, _) in _BYTES.items()}
    if any(value is not None for value in flat.values()):
        moved: dict[str, float | None] = {field: value or 0.0 for field, value in flat.items()}
    else:
        moved = {field: transfers.get(kind) for field, (_, kind) in _BYTES.items()}
    return Tiers(
        **counted,
        **moved,
        kv_usage=sums.get("vllm:kv_cache_usage_perc"),
        pool_tokens=pool,
        block_size=block,
        started=sums.get("process_start_time_seconds"),
    )


def scrape(url: str, timeout_s: float = 5.0) -> Tiers | None:
    """The tiers of the engine at `url` (with or without `/metrics`), or None when it does not answer."""
    address = url.rstrip("/").removesuffix("/v1")
    address = address if address.endswith("/metrics") else f"{address}/metrics"
    handlers = [urllib.request.ProxyHandler({})] if is_loopback(address) else []
    try:
        with urllib.request.build_opener(*handlers).open(address, timeout=timeout_s) as answer:
            return read_tiers(answer.read(16_000_000).decode("utf-8", "replace"))
    except (URLError, OSError, ValueError):
        return None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value == value else None
