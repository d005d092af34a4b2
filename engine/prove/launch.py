"""What a `vllm serve` command says about prefixes, groups and the second tier. Everything else in it is left alone."""

import json
import shlex
from dataclasses import dataclass, field
from typing import Any

_JSON_FLAGS = {
    "--kv-transfer-config": "kv_transfer",
    "--speculative-config": "speculation",
    "-sc": "speculation",
}
_DRAFTERS = ("eagle", "eagle3", "mtp", "dflash", "dspark")


class LaunchError(ValueError):
    """A command that cannot be read; the message names the part."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch. Sizes in tokens; `retention` is "unset" where the command does not say."""

    model: str | None = None
    block_size: int | None = None
    retention: int | str | None = "unset"
    speculation: dict[str, Any] = field(default_factory=dict)
    kv_transfer: dict[str, Any] = field(default_factory=dict)
    offloading_size: float = 0.0
    budget: int = 8_192
    prefix_caching: bool = True
    hybrid: bool = True
    arguments: tuple[str, ...] = ()

    @property
    def connector(self) -> str | None:
        """The KV connector; `--kv-offloading-size` is another way to the same one."""
        name = self.kv_transfer.get("kv_connector")
        if name is None and self.offloading_size:
            return "OffloadingConnector"
        return None if name is None else str(name)

    @property
    def extra(self) -> dict[str, Any]:
        """The connector's own settings."""
        found = self.kv_transfer.get("kv_connector_extra_config")
        return found if isinstance(found, dict) else {}

    @property
    def method(self) -> str | None:
        """How tokens are speculated. vLLM calls all kinds of multi-token prediction `mtp`."""
        if not self.speculation:
            return None
        name = str(self.speculation.get("method") or "draft_model")
        return "mtp" if name.endswith("_mtp") else name

    @property
    def drafts_from_states(self) -> bool:
        """Whether a drafter reads the target's hidden states, so that its last block is given up after a hit."""
        return self.method in _DRAFTERS and not self.speculation.get("disable_eagle_block_drop")

    def chunk_blocks(self, block: int) -> int:
        """Blocks a chunk. Raises `LaunchError` for a chunk that is no multiple of a block, as vLLM does."""
        per, tokens = self.extra.get("blocks_per_chunk"), self.extra.get("block_size")
        if per is not None and tokens is not None:
            raise LaunchError("give blocks_per_chunk or block_size in kv_connector_extra_config, not both")
        if tokens is not None:
            count, rest = divmod(int(tokens), block)
            if rest or not count:
                raise LaunchError(
                    f"block_size={tokens} in kv_connector_extra_config is no multiple of the KV block of {block} tokens"
                )
            return count
        count = 1 if per is None else int(per)
        if count < 1:
            raise LaunchError(f"blocks_per_chunk={per}: give a whole number of at least 1")
        return count


def read_launch(command: str) -> Launch:
    """The launch in `command`: `vllm serve MODEL --flag value ...`, environment assignments before it allowed.

    Raises `LaunchError`.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise LaunchError(f"the launch command cannot be split into words: {error}") from None
    while words and "=" in words[0] and not words[0].startswith("-"):
        words.pop(0)
    for start in (["vllm", "serve"], ["serve"]):
        if words[: len(start)] == start or (
            len(start) == 2 and words[:1] and words[0].endswith("/vllm") and words[1:2] == ["serve"]
        ):
            words = words[len(start) :]
            break
    model = words.pop(0) if words and not words[0].startswith("-") else None
    return _from_flags(model, _flags(words), tuple(words))


def _flags(words: list[str]) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        if not word.startswith("-"):
            continue
        name, equals, value = word.partition("=")
        if not equals and place < len(words) and not _is_flag(words[place]):
            value, equals = words[place], "="
            place += 1
        found.append((name.replace("_", "-") if name.startswith("--") else name, value if equals else None))
    return found


def _is_flag(word: str) -> bool:
    return word.startswith("-") and not word.lstrip("-").replace(".", "").isdigit()


def _from_flags(model: str | None, flags: list[tuple[str, str | None]], words: tuple[str, ...]) -> Launch:
    values: dict[str, Any] = {"model": model, "arguments": words}
    groups: dict[str, dict[str, Any]] = {"kv_transfer": {}, "speculation": {}}
    for name, value in flags:
        base, dot, path = name.partition(".")
        if base in _JSON_FLAGS:
            target = groups[_JSON_FLAGS[base]]
            if dot:
                _put(target, path.replace("-", "_").split("."), _value(value))
            else:
                target.update(_object(name, value))
        elif name == "--model":
            values["model"] = value
        elif name == "--block-size":
            values["block_size"] = _whole(name, value)
        elif name == "--max-num-batched-tokens":
            values["budget"] = _whole(name, value)
        elif name == "--prefix-cache-retention-interval":
            values["retention"] = None if value in ("None", "null") else _whole(name, value)
        elif name == "--kv-offloading-size":
            values["offloading_size"] = _number(name, value)
        elif name == "--no-enable-prefix-caching":
            values["prefix_caching"] = False
        elif name == "--enable-prefix-caching":
            values["prefix_caching"] = value not in ("false", "False")
        elif name == "--disable-hybrid-kv-cache-manager":
            values["hybrid"] = value in ("false", "False")
    return Launch(**{**values, **groups})


def _put(target: dict[str, Any], path: list[str], value: Any) -> None:
    for part in path[:-1]:
        target = target.setdefault(part, {})
    target[path[-1]] = value


def _value(text: str | None) -> Any:
    if text is None:
        return True
    try:
        return json.loads(text)
    except ValueError:
        return text


def _object(name: str, text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "")
    except ValueError:
        raise LaunchError(f"{name} needs a JSON object, got {text!r}") from None
    if not isinstance(found, dict):
        raise LaunchError(f"{name} needs a JSON object, got {text!r}")
    return found


def _whole(name: str, text: str | None) -> int:
    """vLLM's own spelling: 8192, 8k (thousands), 8K (1024s)."""
    scales = {"k": 1_000, "K": 1_024, "m": 1_000_000, "M": 1_048_576}
    digits, scale = (text or "", 1) if not text or text[-1] not in scales else (text[:-1], scales[text[-1]])
    try:
        return int(float(digits) * scale)
    except ValueError:
        raise LaunchError(f"{name} needs a whole number, got {text!r}") from None


def _number(name: str, text: str | None) -> float:
    try:
        return float(text or "")
    except ValueError:
        raise LaunchError(f"{name} needs a number, got {text!r}") from None
