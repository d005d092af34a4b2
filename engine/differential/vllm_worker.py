"""vLLM's own scheduler, KV-cache manager and offloading scheduler, driven step by step without a model.

Run by path with the Python of an environment that has vLLM; nothing of this project is imported here. Scripts come in
on stdin, one JSON object a line (`engine.differential.scripts` says what is in one), and one trace a line goes out;
the first line says which vLLM answers. No weights are loaded and no bytes are copied: a transfer is acknowledged after
the number of steps the script asks for, and the tokens a model would sample are the script's own.
"""

import contextlib
import inspect
import json
import os
import sys
import tempfile
import time
from hashlib import sha256
from typing import Any

_ENVIRONMENT = {
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
}
"""For vLLM, where the user has not said otherwise; set before it is imported, and in the worker only."""

_HEAD = 64
_TINY = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 1024,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "head_dim": _HEAD,
    "max_position_embeddings": 2_000_000,
}


class Unsupported(Exception):
    """This vLLM refuses the geometry; the message is vLLM's own."""


def load_vllm() -> dict[str, Any]:
    """The classes used, by name; old and new releases keep some in different places."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import torch
    from vllm.config import KVTransferConfig
    from vllm.distributed.kv_transfer.kv_connector.v1.offloading.common import OffloadingWorkerMetadata
    from vllm.engine.arg_utils import EngineArgs
    from vllm.sampling_params import SamplingParams
    from vllm.utils.hashing import sha256
    from vllm.v1 import kv_cache_interface as interface
    from vllm.v1.core import kv_cache_utils as utils
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec
    from vllm.v1.outputs import KVConnectorOutput, ModelRunnerOutput
    from vllm.v1.request import Request, RequestStatus
    from vllm.v1.structured_output import StructuredOutputManager

    utils.init_none_hash(sha256)
    classes = (
        *(CPUOffloadingSpec, EngineArgs, KVConnectorOutput, KVTransferConfig, ModelRunnerOutput, Request),
        *(OffloadingWorkerMetadata, RequestStatus, SamplingParams, Scheduler, StructuredOutputManager),
    )
    modules = {"interface": interface, "sha256": sha256, "torch": torch, "utils": utils}
    return {one.__name__: one for one in classes} | modules


def version() -> str:
    """vLLM's version without a local suffix."""
    with contextlib.suppress(Exception):
        return str(__import__("vllm").__version__).split("+")[0]
    return "unknown"


class InOrder(dict[str, None]):
    """A set that is gone through in the order of its making; vLLM's own set of names has an arbitrary one."""

    def add(self, name: str) -> None:
        self.setdefault(name)


class Engine:
    """One configuration, made once; `open` builds a fresh scheduler of any geometry from it."""

    def __init__(self) -> None:
        self.v = load_vllm()
        self._folder = tempfile.TemporaryDirectory(prefix="prefixproof-")
        with open(os.path.join(self._folder.name, "config.json"), "w") as out:
            json.dump(_TINY, out)
        known = inspect.signature(self.v["EngineArgs"]).parameters
        wanted = {
            "model": self._folder.name,
            "skip_tokenizer_init": True,
            "load_format": "dummy",
            "dtype": "bfloat16",
            "max_model_len": 1_000_000,
            "block_size": 16,
            "enforce_eager": True,
            "enable_prefix_caching": True,
            "async_scheduling": False,
            "disable_hybrid_kv_cache_manager": False,
            "kv_transfer_config": self.v["KVTransferConfig"](
                kv_connector="OffloadingConnector",
                kv_role="kv_both",
                kv_connector_extra_config={"cpu_bytes_to_use": 1 << 30},
            ),
        }
        self.config = self.v["EngineArgs"](**{k: w for k, w in wanted.items() if k in known}).create_engine_config()
        self._structured = self.v["StructuredOutputManager"](self.config)

    def groups(self, groups: list[dict[str, Any]]) -> list[Any]:
        """vLLM's group specs for `[{kind, block, window?, draft}]`."""
        interface, torch = self.v["interface"], self.v["torch"]
        made = []
        for number, group in enumerate(groups):
            common = {"block_size": group["block"], "num_kv_heads": 1, "dtype": torch.bfloat16}
            if group["kind"] == "window":
                spec = interface.SlidingWindowSpec(head_size=_HEAD, sliding_window=group["window"], **common)
            elif group["kind"] == "mla":
                spec = interface.MLAAttentionSpec(head_size=576, **common)
            else:
                spec = interface.FullAttentionSpec(head_size=_HEAD, **common)
            made.append(interface.KVCacheGroupSpec([f"layer.{number}"], spec, is_eagle_group=group["draft"]))
        return made

    def open(self, script: dict[str, Any]) -> "Run":
        """A scheduler of the script's geometry and sizes."""
        v, config = self.v, self.config
        groups = self.groups(script["groups"])
        blocks, per_chunk, chunks = script["num_blocks"], script["chunk_blocks"], script["l2_chunks"]
        page = groups[0].kv_cache_spec.page_size_bytes
        names = [f"layer.{number}" for number in range(len(groups))]
        tensor = v["interface"].KVCacheTensor
        values = {"layers": names, "shared_by": names, "size": page * blocks}
        need = {n for n, p in inspect.signature(tensor).parameters.items() if p.default is p.empty}
        cache = v["interface"].KVCacheConfig(
            num_blocks=blocks,
            kv_cache_tensors=[tensor(**{name: values.get(name, 0) for name in need})],
            kv_cache_groups=groups,
        )
        if "prefix_cache_retention_interval" in vars(cache):
            cache.prefix_cache_retention_interval = script["retention"]
        else:  # 0.27 and 0.28 read it from the environment
            os.environ.pop("VLLM_PREFIX_CACHE_RETENTION_INTERVAL", None)
            if script["retention"] is not None:
                os.environ["VLLM_PREFIX_CACHE_RETENTION_INTERVAL"] = str(script["retention"])
        with contextlib.suppress(AttributeError):
            config.cache_config.prefix_cache_retention_interval = script["retention"]
        config.cache_config.block_size = script["groups"][0]["block"]
        config.cache_config.num_gpu_blocks = blocks
        config.model_config.max_model_len = script["max_model_len"]
        sched = config.scheduler_config
        sched.max_num_batched_tokens = script["budget"]
        sched.max_num_scheduled_tokens = script["budget"]
        sched.max_num_seqs = script["seats"]
        sched.long_prefill_token_threshold = 0
        align = int(getattr(v["CPUOffloadingSpec"], "BLOCK_SIZE_ALIGNMENT", 1))
        size = -(-page * per_chunk // align) * align
        config.kv_transfer_config.kv_connector_extra_config = {
            "cpu_bytes_to_use": max(1, size * chunks),
            "blocks_per_chunk": per_chunk,
            "offload_prompt_only": script["prompt_only"],
        }
        try:
            scheduler_block, hash_block = v["utils"].resolve_kv_cache_block_sizes(cache, config)
            with contextlib.suppress(AttributeError):
                cache.hash_block_size = hash_block
            scheduler = v["Scheduler"](
                config,
                cache,
                self._structured,
                block_size=scheduler_block,
                hash_block_size=hash_block,
                log_stats=True,
            )
        except (ValueError, AssertionError) as error:
            raise Unsupported(str(error)) from error
        return Run(v, scheduler, hash_block, script)


class Run:
    """One script on one scheduler."""

    def __init__(self, v: dict[str, Any], scheduler: Any, hash_block: int, script: dict[str, Any]) -> None:
        self.v, self.scheduler, self.script = v, scheduler, script
        self.hasher = v["utils"].get_request_block_hasher(hash_block, v["sha256"])
        self.pool = scheduler.kv_cache_manager.block_pool
        self.offload = scheduler.connector.connector_scheduler
        self.manager = self.offload.manager
        capacity = getattr(self.manager, "_num_chunks", None)
        self.capacity = self.manager._num_blocks if capacity is None else capacity
        self.requests: dict[str, Any] = {}
        self.labels: dict[bytes, int] = {}
        self.pending: dict[int, tuple[int, str | None]] = {}  # job -> (due step, request whose load it is)
        self.stats: dict[str, Any] = {}

    def request(self, number: int, spec: dict[str, Any]) -> Any:
        """vLLM's request for entry `number` of the script."""
        return self.v["Request"](
            str(number),
            list(spec["prompt"]),
            self.v["SamplingParams"](max_tokens=len(spec["outputs"]), temperature=0, ignore_eos=True),
            None,
            arrival_time=0.0,
            cache_salt=spec["salt"],
            block_hasher=self.hasher,
        )

    def label(self, number: int, spec: dict[str, Any]) -> None:
        """Number the hashes of a request's whole text in order of first sight, so that two engines can be compared."""
        whole = self.request(number, {**spec, "prompt": spec["prompt"] + spec["outputs"]})
        for key in whole.block_hashes:
            self.labels.setdefault(bytes(key), len(self.labels))

    def key(self, full: bytes) -> list[int]:
        """`[group, label]` of a hash that carries its group in its last four bytes."""
        return [int.from_bytes(full[-4:], "big"), self.labels[bytes(full[:-4])]]

    def l1(self) -> dict[int, list[int]]:
        """Block id -> key, of every block that carries a hash."""
        return {b.block_id: self.key(b.block_hash) for b in self.pool.blocks if b.block_hash is not None}

    def l2(self) -> dict[Any, bool]:
        """Key -> readable, of every chunk in the tier."""
        policy = self.manager._policy
        chunks = policy.chunks if hasattr(policy, "chunks") else policy.blocks
        return {tuple(self.key(key)): bool(chunk.is_ready) for key, chunk in chunks.items()}

    def step(self, now: int) -> dict[str, Any]:
        """Schedule, acknowledge what is due, take the sampled tokens in; what happened."""
        v, scheduler = self.v, self.scheduler
        output = scheduler.schedule()
        scheduler.finished_req_ids = InOrder(scheduler.finished_req_ids)
        meta = output.kv_connector_metadata
        delay = self.script["copy_steps"]
        stores, loads = [], []
        for job, transfer in meta.load_jobs.items():
            loads.append([transfer.req_id, self._blocks(transfer.dst_spec), self._keys(job)])
            self.pending[job] = (now + delay, transfer.req_id)
        for job, transfer in meta.store_jobs.items():
            stores.append([transfer.req_id, self._blocks(transfer.src_spec), self._keys(job)])
            self.pending[job] = (now + delay, None)
        worker, received = v["OffloadingWorkerMetadata"](), set()
        flush = getattr(meta, "jobs_to_flush", None) or ()
        for job in sorted(self.pending):
            due, loader = self.pending[job]
            if due <= now or job in flush:
                del self.pending[job]
                # A set again: older releases make chunks evictable in its arbitrary order.
                status = self.offload._jobs[job]
                if not self.script.get("quiet"):
                    status.keys = sorted(status.keys, key=self.key)
                worker.mark_completed(job)
                if loader is not None:
                    received.add(loader)
        transfers = v["KVConnectorOutput"](
            finished_recving=received or None,
            kv_connector_worker_meta=worker if worker.completed_jobs else None,
        )
        ids = list(output.num_scheduled_tokens)
        sampled = []
        for name in ids:
            request = scheduler.requests[name]
            done = request.num_computed_tokens >= request.num_tokens
            outputs = self.script["requests"][int(name)]["outputs"]
            sampled.append([outputs[request.num_output_tokens]] if done else [])
        scheduler.update_from_output(
            output,
            v["ModelRunnerOutput"](
                ids,
                {name: place for place, name in enumerate(ids)},
                sampled_token_ids=sampled,
                kv_connector_output=transfers,
            ),
        )
        return {
            "scheduled": [[name, output.num_scheduled_tokens[name]] for name in ids],
            "sampled": [name for name, tokens in zip(ids, sampled, strict=True) if tokens],
            "stores": stores,
            "loads": loads,
        }

    def _keys(self, job: int) -> list[list[int]]:
        if self.script.get("quiet") or job not in self.offload._jobs:
            return []
        return sorted(self.key(key) for key in self.offload._jobs[job].keys)

    @staticmethod
    def _blocks(spec: Any) -> list[int]:
        return [int(block) for block in spec.block_ids]

    def reset(self, external: bool) -> bool:
        """As `POST /reset_prefix_cache` does."""
        done = bool(self.scheduler.reset_prefix_cache(reset_connector=external))
        if external:
            self.pending.clear()
        return done

    def play(self) -> dict[str, Any]:
        """The whole script; the trace of every step."""
        script = self.script
        for number, spec in enumerate(() if script.get("quiet") else script["requests"]):
            self.label(number, spec)
        events = sorted(script["events"], key=lambda event: event[0])
        trace: list[dict[str, Any]] = []
        place, now = 0, 0
        before_l1: dict[int, list[int]] = {}
        before_l2: dict[Any, bool] = {}
        while place < len(events) or self.scheduler.has_requests() or self.pending:
            resets = []
            while place < len(events) and events[place][0] <= now:
                _at, what, argument = events[place]
                place += 1
                if what == "add":
                    spec = script["requests"][argument]
                    request = self.requests[str(argument)] = self.request(argument, spec)
                    self.stats[str(argument)] = request.prefill_stats
                    self.scheduler.add_request(request)
                elif what == "abort":
                    self.scheduler.finish_requests(str(argument), self.v["RequestStatus"].FINISHED_ABORTED)
                else:
                    resets.append(self.reset(argument))
            seen = self.step(now)
            now += 1
            if script.get("quiet"):
                if now > script["max_steps"]:
                    break
                continue
            after_l1, after_l2 = self.l1(), self.l2()
            seen["evicted_l1"] = (
                sorted(key for block, key in before_l1.items() if after_l1.get(block) != key) if not resets else []
            )
            seen["evicted_l2"] = sorted(list(k) for k in before_l2.keys() - after_l2.keys()) if not resets else []
            if resets:
                seen["resets"] = resets
            state = {
                "l1": sorted([block, *key] for block, key in after_l1.items()),
                "l2": sorted([*key, int(ready)] for key, ready in after_l2.items()),
                "free": [block.block_id for block in self.pool.free_block_queue.get_all_free_blocks()],
            }
            seen.update(state if script["detail"] else {"state": digest(state)})
            trace.append(seen)
            before_l1, before_l2 = after_l1, after_l2
            if now > script["max_steps"]:
                break
        return {
            "steps": trace,
            "requests": {
                name: {
                    "local": self._stat(name, "num_local_cached_tokens"),
                    "external": self._stat(name, "num_external_cached_tokens"),
                    "preemptions": request.num_preemptions,
                    "outputs": request.num_output_tokens,
                }
                for name, request in self.requests.items()
            },
            "finished": now <= script["max_steps"],
        }

    def serve(self) -> dict[str, Any]:
        """Prompts given by their blocks, each to its end before the next; what each finds, and the seconds in all.

        The script's `served` holds `[length, ids]` a prompt; making its tokens is not counted in.
        """
        size = self.script["groups"][0]["block"]
        outputs = self.script["requests"][0]["outputs"]
        found, seconds, now = [], 0.0, 0
        for length, ids in self.script["served"]:
            spec = {"prompt": tokens(length, ids, size), "outputs": outputs, "salt": None}
            began = time.perf_counter()
            request = self.request(0, spec)
            stats = request.prefill_stats
            self.scheduler.add_request(request)
            while self.scheduler.has_requests() or self.pending:
                self.step(now)
                now += 1
            seconds += time.perf_counter() - began
            self.stats["0"] = stats
            found.append([self._stat("0", "num_local_cached_tokens"), self._stat("0", "num_external_cached_tokens")])
        return {"found": found, "seconds": seconds}

    def _stat(self, name: str, field: str) -> int:
        stats = self.stats[name]
        if field == "num_local_cached_tokens" and not hasattr(stats, field):
            return int(stats.num_cached_tokens - stats.num_external_cached_tokens)
        return int(getattr(stats, field))


def tokens(length: int, ids: list[int], size: int) -> list[int]:
    """A prompt of blocks that begin with their ids, and an end of its own."""
    rest = list(range(1, size))
    made: list[int] = []
    for one in ids[: length // size]:
        made += (one, *rest)
    return made + [0] * (length - len(made))


def digest(state: dict[str, Any]) -> str:
    """A short name of everything that L1, L2 and the free queue hold."""
    return sha256(json.dumps(state, separators=(",", ":"), sort_keys=True).encode()).hexdigest()[:16]


def main() -> int:
    """Read scripts, write traces, until stdin ends. A `quiet` script has no trace, only what its requests found."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what vLLM prints goes to stderr
    engine = Engine()
    out.write(json.dumps({"vllm": version(), "python": sys.version.split()[0]}) + "\n")
    out.flush()
    for line in sys.stdin:
        script = json.loads(line)
        started = time.perf_counter()
        try:
            run = engine.open(script)
            answer = run.serve() if "served" in script else run.play()
            answer["capacity"] = run.capacity
        except Unsupported as error:
            answer = {"unsupported": str(error)}
        except Exception as error:
            import traceback

            answer = {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        answer.setdefault("seconds", time.perf_counter() - started)
        out.write(json.dumps(answer, separators=(",", ":")) + "\n")
        out.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
