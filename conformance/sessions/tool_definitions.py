"""Tool definitions of an exact size, in both dialects' forms."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Final, Literal

from .filler import filler, json_size, size_for_json

Dialect = Literal["messages", "chat"]

SMALLEST_SCHEMA: Final = 96
"""Bytes that always hold one described and required property; a definition has either none or at least this many."""

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_BYTES_PER_PROPERTY: Final = 160
_NAMES: Final = (
    "target", "pattern", "limit", "recursive", "paths", "mode", "content", "offset", "dry_run", "labels",
    "reason", "timeout", "replace_all", "ranges", "format", "owner", "depth", "follow", "filters", "scope",
)  # fmt: skip
_TYPES: Final[tuple[dict[str, Any], ...]] = (
    {"type": "string"},
    {"type": "string"},
    {"type": "integer"},
    {"type": "boolean"},
    {"type": "array", "items": {"type": "string"}},
    {"type": "string", "enum": ["short", "long", "raw"]},
)


def compact(value: Any) -> str:
    """`value` as JSON without white space, the form in which this package counts a definition's bytes."""
    return _encoded(value)


_encoded: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def frame_bytes(name: str, dialect: Dialect, *, bare: bool = False) -> int:
    """Compact-JSON size in bytes of the definition `name` with an empty description and no properties."""
    return len(compact(_bare(name, "") if bare else _definition(name, "", {}, [], dialect)))


def bare_definition(seed: str, name: str, n_bytes: int) -> dict[str, Any]:
    """A Messages tool without properties: its description fills `n_bytes` of compact JSON.

    Raises ValueError below the size of its frame, and where a line break makes the size unreachable.
    """
    size = size_for_json(n_bytes - frame_bytes(name, "messages", bare=True))
    made = _bare(name, filler(f"{seed}/{name}", size))
    if len(compact(made)) != n_bytes:
        raise ValueError(f"tool {name!r} cannot be exactly {n_bytes} bytes long; take one more or less")
    return made


def _bare(name: str, description: str) -> dict[str, Any]:
    return {"name": name, "description": description, "input_schema": {"type": "object", "properties": {}}}


def tool_definition(
    seed: str,
    name: str,
    n_bytes: int,
    description_bytes: int,
    *,
    dialect: Dialect = "messages",
    first_argument: str | None = None,
) -> dict[str, Any]:
    """A tool definition whose compact JSON has exactly `n_bytes` bytes and its description `description_bytes`.

    `messages` gives `{"name", "description", "input_schema"}` with a `$schema` key, as Claude Code sends it; `chat`
    gives `{"type": "function", "function": {...}}`. `first_argument` names the first property, always a required
    string. What description and frame leave over goes to described properties of a JSON Schema object.

    Raises ValueError where the rest is negative, or too small for a first property.
    """
    rest = n_bytes - frame_bytes(name, dialect) - json_size(description_bytes)
    properties, required = _properties(seed, name, rest, first_argument)
    return _definition(name, filler(f"{seed}/{name}", description_bytes), properties, required, dialect)


def _definition(
    name: str, description: str, properties: dict[str, Any], required: list[str], dialect: Dialect
) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    if dialect == "messages":
        return {"name": name, "description": description, "input_schema": {"$schema": _DRAFT, **schema}}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


@lru_cache(maxsize=512)
def _schema_cost(names: tuple[str, ...], required: tuple[str, ...]) -> int:
    """Bytes the properties add to a definition while their descriptions are empty."""
    empty = {name: {"description": "", **_TYPES[i % len(_TYPES)]} for i, name in enumerate(names)}
    return len(compact(empty)) - len("{}") + len(compact({"required": required})) - len("{}") + len(",")


def holds(n_bytes: int, first_argument: str | None) -> bool:
    """True when a definition can have properties of exactly this many bytes."""
    first = (first_argument or _NAMES[0],)
    return n_bytes == 0 or n_bytes >= _schema_cost(first, first)


def _properties(seed: str, tool: str, n_bytes: int, first_argument: str | None) -> tuple[dict[str, Any], list[str]]:
    if n_bytes == 0:
        return {}, []
    first = first_argument or _NAMES[0]
    names = (first, *(name for name in _NAMES if name != first))
    for count in range(min(len(names), 1 + n_bytes // _BYTES_PER_PROPERTY), 0, -1):
        chosen = names[:count]
        required = chosen[: (count + 1) // 2]
        spare = n_bytes - _schema_cost(chosen, required)
        if spare >= 0:
            break
    else:
        raise ValueError(
            f"tool {tool!r}: {n_bytes} bytes are left for its properties, which is neither 0 nor enough for one; "
            f"give the definition about {SMALLEST_SCHEMA - n_bytes} bytes more, or a shorter description"
        )
    share, extra = divmod(spare, count)
    properties: dict[str, Any] = {}
    for i, name in enumerate(chosen):
        size = share + (extra if i == count - 1 else 0)
        # One line a property: a newline would cost a byte more inside JSON than was counted.
        text = filler(f"{seed}/{tool}/{name}", size).replace("\n", " ")
        properties[name] = {"description": text, **json.loads(json.dumps(_TYPES[i % len(_TYPES)]))}
    return properties, list(required)
