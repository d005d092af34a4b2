"""How an engine was launched, from whichever source there is: a command line, a profile, or vLLM's own log."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.vllm.environment import VllmError
from engine.vllm.launch_profile import Profile, load, names

NON_DEFAULT = "non-default args: "

_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no")


class LaunchError(Exception):
    """A launch that cannot be read; the message says what to give instead."""


@dataclass(frozen=True)
class Launch:
    """Flags of `vllm serve` by name, with dashes; JSON flags as objects. `source` says where they are from."""

    source: str
    model: str = ""
    flags: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)

    def switch(self, name: str, default: bool | None = None) -> bool | None:
        """A flag that is on or off, in any of its spellings."""
        for spelled, meaning in ((name, True), (f"no-{name}", False)):
            if spelled in self.flags:
                value = str(self.flags[spelled]).lower()
                return meaning if value in _TRUE else not meaning if value in _FALSE else meaning
        return default

    def number(self, name: str) -> int | None:
        """A flag that is a whole number."""
        try:
            return int(str(self.flags[name]).replace("_", ""))
        except (KeyError, ValueError):
            return None

    def json(self, name: str) -> dict[str, Any]:
        """A JSON flag; empty where it is not given."""
        value = self.flags.get(name)
        return value if isinstance(value, dict) else {}

    @property
    def connector(self) -> dict[str, Any]:
        """The KV-transfer configuration."""
        return self.json("kv-transfer-config")

    @property
    def extra(self) -> dict[str, Any]:
        """`kv_connector_extra_config`."""
        held = self.connector.get("kv_connector_extra_config", {})
        return held if isinstance(held, dict) else {}

    @property
    def has_tier(self) -> bool:
        """Whether vLLM's own offload connector is configured, through either of its doors."""
        return "Offloading" in str(self.connector.get("kv_connector", "")) or "kv-offloading-size" in self.flags

    @property
    def tier_bytes(self) -> int | None:
        """Bytes of the host tier, as configured."""
        try:
            if "cpu_bytes_to_use" in self.extra:
                return int(float(self.extra["cpu_bytes_to_use"]))
            return int(float(str(self.flags["kv-offloading-size"])) * 2**30)
        except (KeyError, ValueError, TypeError):
            return None

    @property
    def block_size(self) -> int | None:
        return self.number("block-size")

    @property
    def chunk_tokens(self) -> int | None:
        """Tokens of one L2 chunk: a block, unless the connector is told otherwise."""
        block = self.block_size
        if isinstance(self.extra.get("block_size"), int):
            return int(self.extra["block_size"])
        factor = self.extra.get("blocks_per_chunk", 1)
        return None if block is None or not isinstance(factor, int) else block * factor


def from_text(text: str, source: str) -> Launch:
    """A command line, over several lines or one: everything behind `vllm serve`. Raises `LaunchError`."""
    try:
        words = shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise LaunchError(f"{source}: {error}") from None
    env = {}
    while words and re.fullmatch(r"[A-Za-z_]\w*=.*", words[0], re.DOTALL):
        name, _, value = words.pop(0).partition("=")
        env[name] = value
    if "serve" in words:
        words = words[words.index("serve") + 1 :]
    elif "vllm.entrypoints.openai.api_server" in words:
        words = words[words.index("vllm.entrypoints.openai.api_server") + 1 :]
    elif not words or not words[0].startswith("--"):
        raise LaunchError(f"{source}: no launch of vLLM: give the command line, `vllm serve MODEL --flag ...`")
    try:
        profile = Profile("", "", "cuda", "").overridden(words)
    except VllmError as error:
        raise LaunchError(f"{source}: {error}") from None
    return Launch(source, profile.model, profile.flags, env)


def from_argument(argument: str) -> Launch:
    """What `--config` names: a profile, a file with a launch or a profile, or the command line itself."""
    try:
        if argument in names() or argument.endswith(".toml"):
            profile = load(argument)
            return Launch(f"profile {profile.name}", profile.model, profile.flags, profile.env)
    except VllmError as error:
        raise LaunchError(str(error)) from None
    if " " not in argument.strip():
        try:
            return from_text(Path(argument).read_text(encoding="utf-8"), argument)
        except (OSError, UnicodeDecodeError):
            raise LaunchError(
                f"--config {argument}: neither a file nor a profile ({', '.join(names())}); a command "
                f"line goes in quotes"
            ) from None
    return from_text(argument, "the command line given")


def from_log_line(line: str) -> Launch | None:
    """The launch as vLLM logs it at start, or None where the line does not hold it."""
    _, found, text = line.partition(NON_DEFAULT)
    if not found:
        return None
    held = _literal(text.strip()) or _by_key(text)
    flags = {str(name).replace("_", "-"): value for name, value in held.items()}
    for name, value in flags.items():
        if isinstance(value, str) and value.startswith("{"):
            flags[name] = _json(value)
    return Launch("the log", str(flags.get("model", "")), flags)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _literal(text: str) -> dict[str, Any]:
    """A Python dict's text, in which calls stand for objects: those become dicts of their keywords."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return {}
    value = _plain(tree.body)
    return value if isinstance(value, dict) else {}


def _plain(node: ast.expr) -> Any:
    if isinstance(node, ast.Dict):
        return {_plain(k): _plain(v) for k, v in zip(node.keys, node.values, strict=True) if k is not None}
    if isinstance(node, ast.List | ast.Tuple):
        return [_plain(element) for element in node.elts]
    if isinstance(node, ast.Call):
        return {keyword.arg: _plain(keyword.value) for keyword in node.keywords if keyword.arg}
    if isinstance(node, ast.Constant):
        return node.value
    return ast.unparse(node)


_SIMPLE = re.compile(r"'([a-z_]+)': ('[^']*'|-?[\d.]+|True|False|None)(?=[,}])")
_EXTRA = re.compile(r"kv_connector_extra_config=(\{[^{}]*\})")
_CONNECTOR = re.compile(r"kv_connector='([^']+)'")
_SPECULATIVE = re.compile(r"'speculative_config': (\{[^{}]*\})")


def _by_key(text: str) -> dict[str, Any]:
    """What matters of a dict whose text is no Python (an enumeration inside, or a cut line)."""
    held = {name: ast.literal_eval(value) for name, value in _SIMPLE.findall(text)}
    if found := _SPECULATIVE.search(text):
        held["speculative_config"] = _literal(found[1])
    if found := _CONNECTOR.search(text):
        extra = _EXTRA.search(text)
        held["kv_transfer_config"] = {
            "kv_connector": found[1],
            "kv_connector_extra_config": _literal(extra[1]) if extra else {},
        }
    return held
