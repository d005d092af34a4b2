"""vLLM's offload tier on a machine without a GPU: a specification whose worker copies from host memory to host memory.

vLLM's own scheduler, manager, lookup and metrics run unchanged; only the copies are made here, since the worker that
vLLM brings refuses the CPU platform. Imported inside vLLM's processes, by `kv_connector_extra_config`:

    {"spec_name": "HostCopyOffloadingSpec", "spec_module_path": "prefixproof_host_copy", "cpu_bytes_to_use": BYTES}

Faults, all off by default:

    host_copy_load_delay_s, host_copy_store_delay_s   seconds until a copy is reported as done
    host_copy_drop      share of stored chunks, 0..1, that are lost after they were stored: never found again
    host_copy_corrupt   true: what is loaded are zeros, reported as a good copy

Runs with vLLM 0.27 to 0.33. Imports nothing of this project.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch
from vllm.logger import init_logger
from vllm.v1.kv_offload.base import OffloadingWorker, TransferResult
from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec

logger = init_logger("vllm.prefixproof_host_copy")


class HostCopyWorker(OffloadingWorker):
    """Copies pages between the pool's tensors and tensors of its own. Copies are made at once and reported late."""

    def __init__(self, caches: Any, *, blocks_per_chunk: int, chunks: int, options: dict[str, Any]) -> None:
        self._blocks_per_chunk = blocks_per_chunk
        self._references = caches.group_data_refs
        self._pool = [_as_pages(held.tensor, held.page_size_bytes) for held in caches.tensors]
        self._tier = [
            torch.zeros((chunks, blocks_per_chunk, held.page_size_bytes), dtype=torch.int8) for held in caches.tensors
        ]
        self._load_delay = float(options.get("host_copy_load_delay_s", 0))
        self._store_delay = float(options.get("host_copy_store_delay_s", 0))
        self._corrupt = bool(options.get("host_copy_corrupt", False))
        self._due: dict[int, tuple[float, Any]] = {}
        logger.info("host copies: %d tensors, %d groups, %d chunks", len(self._pool), len(self._references), chunks)

    def submit_store(self, job_id: int, src_spec: Any, dst_spec: Any) -> bool:
        """Copy pages of the pool into chunks of the tier."""

        def copy(pool: torch.Tensor, tier: torch.Tensor, block: Any, chunk: Any, part: Any, size: int) -> None:
            tier[chunk, part, :size] = pool[block, :size]

        self._copy(job_id, src_spec, dst_spec, copy, self._store_delay)
        return True

    def submit_load(self, job_id: int, src_spec: Any, dst_spec: Any, expedited: bool = False) -> bool:  # noqa: ARG002
        """Copy chunks of the tier back into pages of the pool."""

        def copy(pool: torch.Tensor, tier: torch.Tensor, block: Any, chunk: Any, part: Any, size: int) -> None:
            found = tier[chunk, part, :size]
            pool[block, :size] = torch.zeros_like(found) if self._corrupt else found

        self._copy(job_id, dst_spec, src_spec, copy, self._load_delay)
        return True

    def get_finished(self) -> list[Any]:
        """Jobs whose delay is over, in the order they were submitted."""
        now = time.monotonic()
        done = [job for job, (due, _) in self._due.items() if due <= now]
        return [self._due.pop(job)[1] for job in done]

    def wait(self, job_ids: set[int]) -> None:
        """Return when these jobs may be reported: a slow copy holds up whoever needs its blocks."""
        pending = [self._due[job][0] for job in job_ids if job in self._due]
        if pending:
            time.sleep(max(0.0, max(pending) - time.monotonic()))

    def _copy(self, job_id: int, pages: Any, chunks: Any, copy: Callable[..., None], delay: float) -> None:
        begun = time.perf_counter()
        size = 0
        for group, block, chunk, part in self._places(pages, chunks):
            for reference in self._references[group]:
                index, width = reference.tensor_idx, reference.page_size_bytes
                copy(self._pool[index], self._tier[index], block, chunk, part, width)
                size += len(block) * width
        took = max(time.perf_counter() - begun, 1e-9)
        result = TransferResult(job_id=job_id, success=True, transfer_size=size, transfer_time=took)
        self._due[job_id] = (time.monotonic() + delay, result)

    def _places(self, pages: Any, chunks: Any) -> Iterator[tuple[int, torch.Tensor, torch.Tensor, torch.Tensor]]:
        """For each group: block numbers, and for each block its chunk and its place in the chunk.

        Pages and chunks come as one list each, group behind group; a group's first block may lie inside its chunk.
        """
        block_ids = torch.as_tensor(pages.block_ids.astype("int64"))
        chunk_ids = torch.as_tensor(chunks.block_ids.astype("int64"))
        block_at = chunk_at = 0
        for group, (count, first) in enumerate(zip(pages.group_sizes, pages.block_indices, strict=True)):
            if not count:
                continue
            inside = first % self._blocks_per_chunk
            place = torch.arange(inside, inside + count)
            of_group = chunk_ids[chunk_at:]
            yield (
                group,
                block_ids[block_at : block_at + count],
                of_group[place // self._blocks_per_chunk],
                place % self._blocks_per_chunk,
            )
            block_at += count
            chunk_at += -(-(inside + count) // self._blocks_per_chunk)
        if (block_at, chunk_at) != (len(block_ids), len(chunk_ids)):
            raise ValueError(f"{len(block_ids)} blocks and {len(chunk_ids)} chunks do not belong together")


class HostCopyOffloadingSpec(CPUOffloadingSpec):
    """vLLM's specification of a host tier, with copies that need no GPU."""

    _worker: Any

    def get_worker(self, kv_caches: Any) -> Any:
        """The worker of this process, made at the first call."""
        if not self._worker:
            # 0.27 to 0.29 count what one copy moves in blocks of its own, later versions in chunks.
            chunks = getattr(self, "num_chunks", None) or self.num_blocks
            per_chunk = getattr(self, "blocks_per_chunk", None) or self.block_size_factor
            self._worker = HostCopyWorker(
                kv_caches, blocks_per_chunk=per_chunk, chunks=chunks, options=self.extra_config
            )
        return self._worker

    def get_manager(self) -> Any:
        """vLLM's manager; with `host_copy_drop`, one that loses a share of what was stored."""
        manager = super().get_manager()
        share = float(self.extra_config.get("host_copy_drop", 0))
        if share and not hasattr(manager, "host_copy_drop"):
            manager.host_copy_drop = share
            stored = manager.complete_store

            def complete_store(keys: Collection[bytes], *rest: Any, **named: Any) -> None:
                lost = [key for key in keys if zlib.crc32(key) < share * 2**32]
                stored([key for key in keys if key not in set(lost)], *rest, **named)
                stored(lost, *rest, **named | {"success": False})

            manager.complete_store = complete_store
        return manager


def _as_pages(tensor: torch.Tensor, page_bytes: int) -> torch.Tensor:
    """A view of one row a page, in bytes; what is not contiguous has such rows already."""
    return tensor.view(torch.int8).view(-1, page_bytes) if tensor.is_contiguous() else tensor
