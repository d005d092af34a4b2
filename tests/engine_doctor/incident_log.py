"""A log like the incident's, in vLLM's own lines: stores all day, no load, a hit rate of 0.0 % and never another."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

LAUNCH = (
    "(APIServer pid=1) INFO 08-06 00:00:01 [api_utils.py:286] non-default args: {'model_tag': '/models/ds', "
    "'enable_prompt_tokens_details': True, 'model': '/models/ds', 'max_model_len': 262144, 'block_size': 256, "
    "'tensor_parallel_size': 8, 'served_model_name': ['deepseek-v4-flash-0731', 'llm-prime'], "
    "'enable_cumem_allocator': True, 'speculative_config': {'method': 'dspark', 'num_speculative_tokens': 7}, "
    "'kv_transfer_config': KVTransferConfig(kv_connector='OffloadingConnector', engine_id='x', kv_role='kv_both', "
    "kv_connector_extra_config={'cpu_bytes_to_use': 960000000000}), 'disable_hybrid_kv_cache_manager': False}"
)
VERSION = "(EngineCore pid=2) INFO 08-06 00:00:05 [core.py:133] Initializing a V1 LLM engine (v0.26.0) with config: x"
WORKER = "(Worker_TP{rank} pid={pid}) INFO 08-06 00:00:06 [gpu_worker.py:1] loading"
STATS = (
    "(APIServer pid=1) INFO 08-17 {at} [loggers.py:335] Engine 000: Avg prompt throughput: {prompt:.1f} tokens/s, Avg "
    "generation throughput: 12.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: {usage:.1f}%, Prefix "
    "cache hit rate: 14.3%, External prefix cache hit rate: {external:.1f}%"
)
COPIES = (
    "(APIServer pid=1) INFO 08-17 {at} [metrics.py:103] KV Transfer metrics: "
    "vllm:kv_offload_lookup_sync_delay_seconds_count=2, vllm:kv_offload_store_bytes={stored}, "
    "vllm:kv_offload_store_time=0.09, vllm:kv_offload_store_size_count=2, vllm:kv_offload_store_size_sum={stored}"
)
NOISE = '(APIServer pid=1) INFO:     10.0.0.1:5 - "POST /v1/chat/completions HTTP/1.1" 200 OK'


def lines(stats: int, stores: int, *, workers: int = 8) -> Iterator[str]:
    """`stats` lines of hit rates, of which the first `stores` are followed by a line of copies."""
    yield LAUNCH
    yield VERSION
    for rank in range(workers):
        yield WORKER.format(rank=rank, pid=100 + rank)
    for n in range(stats):
        at = f"{9 + n // 3_600 % 12:02d}:{n // 60 % 60:02d}:{n % 60:02d}"
        heavy = n == stats // 2
        yield STATS.format(at="09:25:22" if heavy else at, prompt=34_844 if heavy else 900.0,
                           usage=0.5 if heavy else 31.0, external=0.0)  # fmt: skip
        if n < stores or heavy:
            yield COPIES.format(at="09:25:22" if heavy else at, stored=20_600_000_000 if heavy else 1_000_000)
        yield NOISE


def write(folder: Path, *, stats: int = 4_000, stores: int = 1_900) -> Path:
    """The log with two files it was rotated to, the older one gzipped; the name of the present one."""
    held = list(lines(stats, stores))
    third = len(held) // 3
    parts = (held[:third], held[third : 2 * third], held[2 * third :])
    with gzip.open(folder / "vllm.log.2.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(parts[0]) + "\n")
    for name, part in (("vllm.log.1", parts[1]), ("vllm.log", parts[2])):
        (folder / name).write_text("\n".join(part) + "\n", encoding="utf-8")
    (folder / "vllm.log.notes").write_text("kv_offload_load_bytes=1\n", encoding="utf-8")  # not a rotated file
    return folder / "vllm.log"
