"""KV groups out of a model's `config.json`, by the rules vLLM groups layers with. Used where no vLLM is installed.

Covered: full attention, sliding windows (all layers, a pattern, or `layer_types`), latent attention, MTP layers, and
the DeepSeek-V4 geometry. Anything else is refused, not guessed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from engine.embedded.groups import KVGroup
from engine.prove.launch import Launch

_DEFAULT_BLOCK = 16
_WINDOWED_MODELS = ("mistral", "starcoder2", "phi3", "ministral")
_PATTERNS = {"gemma3": 6, "gemma3_text": 6, "cohere2": 4, "gemma2": 2}
_FULL_TYPES = ("full_attention", "attention", "global")
_WINDOW_TYPES = ("sliding_attention", "local", "sliding_window")

# Published for DeepSeek-V4 (upstream issue 51761): latent blocks of 256 tokens beside windows in blocks of 64, 4 and 8.
_DEEPSEEK_V4 = (
    ("mla", 256, None, False),
    ("window", 64, 128, False),
    ("window", 4, 8, False),
    ("window", 8, 128, False),
)
_DEEPSEEK_V4_DRAFT = ("window", 64, 128, True)


class ModelError(ValueError):
    """A model whose groups are not known here; the message says what is needed."""


@dataclass(frozen=True, slots=True)
class ModelGroups:
    """Groups, whether a drafter runs without a group of its own, and remarks on how they were found."""

    groups: tuple[KVGroup, ...]
    unmarked_drafter: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Layer:
    kind: Literal["full", "mla", "window"]
    window: int | None = None


def groups_of(config: Mapping[str, Any], launch: Launch) -> ModelGroups:
    """The KV groups of a model under a launch. Raises `ModelError`."""
    nested = config.get("text_config")
    if isinstance(nested, Mapping):
        config = {**config, **nested}
    kind = str(config.get("model_type", ""))
    if kind.startswith("deepseek_v4"):
        return _deepseek_v4(launch)
    layers = _layers(config, kind)
    block = launch.block_size or _DEFAULT_BLOCK
    notes = [] if launch.block_size else [f"no --block-size in the launch: blocks of {block} tokens, vLLM's usual size"]
    draft_layers: list[_Layer] = []
    if launch.drafts_from_states and launch.method == "mtp":
        draft_layers = _mtp_layers(config, layers)
    unmarked = launch.drafts_from_states and not draft_layers
    if unmarked:
        # The drafter's attention is the target's kind in practice, and joins a group of it.
        draft_layers = []
    groups = _grouped(layers + draft_layers, block, marked=bool(draft_layers), hybrid=launch.hybrid)
    return ModelGroups(groups, unmarked, tuple(notes))


def _deepseek_v4(launch: Launch) -> ModelGroups:
    shapes = list(_DEEPSEEK_V4)
    if launch.drafts_from_states:
        shapes.insert(2, _DEEPSEEK_V4_DRAFT)
    groups = tuple(KVGroup(kind=k, block=b, window=w, draft=d) for k, b, w, d in shapes)  # type: ignore[arg-type]
    return ModelGroups(groups, notes=("DeepSeek-V4's groups as published for blocks of 256 tokens",))


def _layers(config: Mapping[str, Any], kind: str) -> list[_Layer]:
    count = config.get("num_hidden_layers")
    if not isinstance(count, int) or count < 1:
        raise ModelError("config.json has no num_hidden_layers: is it a model's configuration?")
    window = config.get("sliding_window")
    window = int(window) if isinstance(window, int) and window > 0 else None
    if window is not None and kind == "cohere2":
        window += 1  # its layers see the token `sliding_window` places back as well
    types = config.get("layer_types")
    if isinstance(types, list):
        return [_typed(str(name), window) for name in types[:count]]
    if config.get("kv_lora_rank"):
        return [_Layer("mla")] * count
    for name in ("linear_num_key_heads", "mamba_d_state", "ssm_cfg", "state_size", "attention_chunk_size"):
        if config.get(name):
            raise ModelError(
                f"{name} in config.json: state-space and chunked layers are not covered here; "
                "name an environment that has vLLM with --python"
            )
    if window is not None and config.get("use_sliding_window"):
        raise ModelError(
            "use_sliding_window in config.json without layer_types: which layers slide is not told; "
            "name an environment that has vLLM with --python"
        )
    pattern = config.get("sliding_window_pattern") or config.get("_sliding_window_pattern") or _PATTERNS.get(kind)
    if window is not None and isinstance(pattern, int) and kind in _PATTERNS:
        return [_Layer("full") if (place + 1) % pattern == 0 else _Layer("window", window) for place in range(count)]
    if window is not None and kind in _WINDOWED_MODELS:
        return [_Layer("window", window)] * count
    return [_Layer("full")] * count


def _typed(name: str, window: int | None) -> _Layer:
    if name in _FULL_TYPES:
        return _Layer("full")
    if name in _WINDOW_TYPES:
        if window is None:
            raise ModelError("config.json has sliding layers and no sliding_window")
        return _Layer("window", window)
    raise ModelError(f"layer type {name!r} is not covered here; name an environment that has vLLM with --python")


def _mtp_layers(config: Mapping[str, Any], layers: list[_Layer]) -> list[_Layer]:
    count = config.get("num_nextn_predict_layers") or config.get("mtp_num_hidden_layers") or 0
    if not count:
        raise ModelError("the launch speculates with mtp, and config.json has no num_nextn_predict_layers")
    types = config.get("mtp_layer_types")
    window = next((layer.window for layer in layers if layer.window is not None), None)
    if isinstance(types, list):
        return [_typed(str(name), window) for name in types[: int(count)]]
    if isinstance(config.get("layer_types"), list):
        return layers[: int(count)]  # numbered from 0 again, so they follow the first layers' types
    return layers[-1:] * int(count)


def _grouped(layers: list[_Layer], block: int, *, marked: bool, hybrid: bool) -> tuple[KVGroup, ...]:
    """vLLM's split, in vLLM's order: layers of one shape in groups of equal size, dealt out in turn.

    The group of the last layer is the drafter's.
    """
    if not hybrid:
        layers = [_Layer("full") if layer.kind == "window" else layer for layer in layers]
    shapes: dict[_Layer, list[int]] = {}
    for place, layer in enumerate(layers):
        shapes.setdefault(layer, []).append(place)
    fewest, most = min(map(len, shapes.values())), max(map(len, shapes.values()))
    size = most if most < fewest * 1.5 else fewest
    groups: list[KVGroup] = []
    for layer, places in shapes.items():
        parts = -(-len(places) // size)
        for part in range(parts):
            members = places[part::parts]
            draft = marked and len(layers) - 1 in members
            groups.append(KVGroup(kind=layer.kind, block=block, window=layer.window, draft=draft, layers=len(members)))
    return tuple(groups)
