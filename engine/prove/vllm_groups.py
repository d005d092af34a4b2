"""A model's KV groups, made by vLLM's own code from `config.json`: layers on the meta device, without weights.

Run by path with the Python of an environment that has vLLM; nothing of this project is imported here. One JSON object
on stdin (`config`, `block_size`, `speculation`, `hybrid`), one on stdout (`vllm`, `groups`).
"""

import contextlib
import dataclasses
import json
import os
import shutil
import socket
import sys
import tempfile
from typing import Any

os.environ.setdefault("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")


def engine_config(question: dict[str, Any], folder: str) -> Any:
    """vLLM's configuration for a folder that holds nothing but the model's `config.json`."""
    from vllm.engine.arg_utils import EngineArgs

    speculation = dict(question["speculation"])
    draft = speculation.get("model")
    if draft and not os.path.isfile(os.path.join(str(draft), "config.json")):
        # A drafter that is not on this machine: what it adds are layers of the target's kind.
        speculation = {}
    config = EngineArgs(
        model=folder,
        skip_tokenizer_init=True,
        load_format="dummy",
        dtype="bfloat16",
        enforce_eager=True,
        enable_prefix_caching=True,
        async_scheduling=False,
        max_model_len=32_768,
        disable_hybrid_kv_cache_manager=not question["hybrid"],
        speculative_config=speculation or None,
    ).create_engine_config()
    config.cache_config.block_size = question["block_size"]
    return config


def build_layers(config: Any) -> dict[str, Any]:
    """Layer name -> KV cache spec, of the target and then the drafter."""
    import torch
    from vllm.config import set_current_vllm_config
    from vllm.distributed import ensure_model_parallel_initialized, init_distributed_environment
    from vllm.model_executor.model_loader.utils import initialize_model

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with set_current_vllm_config(config):
        init_distributed_environment(1, 0, f"tcp://127.0.0.1:{port}", 0, "gloo")
        ensure_model_parallel_initialized(1, 1)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("meta"):
        initialize_model(vllm_config=config)
        of_target = set(config.compilation_config.static_forward_context)
        speculation = config.speculative_config
        if speculation is not None and speculation.draft_model_config is not None:
            initialize_model(vllm_config=config, model_config=speculation.draft_model_config)
    specs = {}
    for name, layer in config.compilation_config.static_forward_context.items():
        if getattr(layer, "kv_sharing_target_layer_name", None) or not hasattr(layer, "get_kv_cache_spec"):
            continue
        spec = layer.get_kv_cache_spec(config)
        if spec is None:
            continue
        if name not in of_target and hasattr(spec, "is_draft"):
            # Since 0.33 the model runner tells the drafter's layers, which are built here in its place.
            spec = dataclasses.replace(spec, is_draft=True)
        specs[name] = spec
    return specs


def resolve_layout(config: Any, specs: dict[str, Any]) -> None:
    """Choose the cache's layout as the engine core does before it groups layers, which hybrid models need."""
    try:
        from vllm.distributed.kv_transfer.kv_connector.utils import get_current_attn_backends
        from vllm.v1.attention.backends.utils import get_supported_kv_cache_layouts, resolve_kv_cache_layout
    except ImportError:
        return  # 0.27: groups do not depend on a layout
    supported = get_supported_kv_cache_layouts(get_current_attn_backends(config))
    resolve_kv_cache_layout(config, [[layout.name for layout in supported]], list(specs.values()))


def groups_in(config: Any, specs: dict[str, Any]) -> list[Any]:
    """vLLM's own groups of these layers, the drafter's marked; 0.33 groups and marks in a module of its own."""
    groups: list[Any]
    try:
        from vllm.v1.core.kv_cache_planning import get_global_kv_cache_groups

        groups = get_global_kv_cache_groups(config, [specs])
    except ImportError:
        from vllm.v1.core.kv_cache_utils import get_kv_cache_groups

        groups = get_kv_cache_groups(config, specs)
    return groups


def describe(group: Any, interface: Any) -> dict[str, Any]:
    """One group in the project's terms."""
    spec = group.kv_cache_spec
    if isinstance(spec, interface.UniformTypeKVCacheSpecs):
        spec = next(iter(spec.kv_cache_specs.values()))
    window = getattr(spec, "sliding_window", None)
    if isinstance(spec, interface.SlidingWindowSpec):
        kind = "window"
    elif isinstance(spec, interface.MLAAttentionSpec):
        kind, window = "mla", None
    elif isinstance(spec, interface.FullAttentionSpec):
        kind, window = "full", None
    else:
        kind, window = type(spec).__name__, None
    return {
        "kind": kind,
        "block": int(spec.block_size),
        "window": window,
        "draft": bool(group.is_eagle_group),
        "layers": max(1, len(group.layer_names)),
    }


def main() -> int:
    """Answer one question."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what vLLM prints goes to stderr
    question = json.loads(sys.stdin.read())
    with tempfile.TemporaryDirectory(prefix="prefixproof-") as folder:
        shutil.copy(question["config"], os.path.join(folder, "config.json"))
        config = engine_config(question, folder)
        from vllm import __version__
        from vllm.v1 import kv_cache_interface as interface

        specs = build_layers(config)
        resolve_layout(config, specs)
        groups = [describe(group, interface) for group in groups_in(config, specs)]
    answer = {"vllm": __version__, "groups": groups}
    out.write(json.dumps(answer) + "\n")
    out.flush()
    with contextlib.suppress(Exception):
        from vllm.distributed import destroy_distributed_environment, destroy_model_parallel

        destroy_model_parallel()
        destroy_distributed_environment()
    return 0


if __name__ == "__main__":
    sys.exit(main())
