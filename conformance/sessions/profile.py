"""Structural profiles of real coding clients, kept as JSON beside this module: sizes, order and forms, no text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, Final

from .tool_definitions import Dialect

CLAUDE_CODE: Final = "claude-code-2.1.116-vscode"
OPENCODE: Final = "opencode-1.18.33"


@dataclass(frozen=True, slots=True)
class SystemPart:
    """One system text: `part` is attribution, identity or instructions; `varies` says when its text changes."""

    part: str
    bytes: int
    cache_control: bool
    varies: str


@dataclass(frozen=True, slots=True)
class MessagePart:
    """One text of the first user message: a reminder (inside `tag`) or the user's prompt; `day` if it holds a date."""

    part: str
    tag: str | None
    bytes: int
    varies: str
    day: bool = False


@dataclass(frozen=True, slots=True)
class ToolPart:
    """One tool: compact-JSON bytes of the whole definition, UTF-8 bytes of its description."""

    name: str
    bytes: int
    description_bytes: int
    first_argument: str | None = None


@dataclass(frozen=True, slots=True)
class CallPart:
    """How a tool's result comes back: recorded sizes (least, most), its form, and its `is_error` if one is sent."""

    tool: str
    recorded_result_bytes: tuple[int, int]
    result_form: str
    is_error: bool | None


@dataclass(frozen=True, slots=True)
class Attribution:
    """The attribution block's format and the number of hex digits of its two derived fields."""

    form: str
    suffix_hex: int
    cch_hex: int


@dataclass(frozen=True, slots=True)
class ScaledSizes:
    """This project's own smaller sizes for the same parts in the same order."""

    tools: int
    tools_bytes: int
    instructions_bytes: int
    first_message_bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClientProfile:
    """What one client version sends. `model` is None where the user chooses it; `client_fields` are request fields
    beyond model, messages, system, tools, metadata and max_tokens; `instructions_end` names the lines that close the
    instructions text and change with the session's surroundings."""

    client: str
    version: str
    entrypoint: str | None
    dialect: Dialect
    model: str | None
    body_keys: tuple[str, ...]
    max_tokens: int
    client_fields: Mapping[str, Any]
    user_id_keys: tuple[str, ...]
    headers: Mapping[str, str]
    session_headers: tuple[str, ...]
    attribution: Attribution | None
    system: tuple[SystemPart, ...]
    instructions_end: tuple[str, ...]
    first_message: tuple[MessagePart, ...]
    tools_bytes: int
    tools: tuple[ToolPart, ...]
    core_tools: tuple[str, ...]
    calls: tuple[CallPart, ...]
    scaled: ScaledSizes

    def system_bytes(self, part: str) -> int:
        """UTF-8 bytes of the system text `part`; KeyError if the client sends none."""
        return {p.part: p.bytes for p in self.system}[part]


def available() -> tuple[str, ...]:
    """Names that `load` knows."""
    folder = resources.files(__package__) / "profiles"
    return tuple(sorted(entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json")))


@lru_cache(maxsize=16)
def load(name: str) -> ClientProfile:
    """The profile `name`. Raises ValueError for a name that is not shipped."""
    if name not in available():
        raise ValueError(f"no client profile {name!r}; shipped are: {', '.join(available())}")
    raw = json.loads((resources.files(__package__) / "profiles" / f"{name}.json").read_text("utf-8"))
    scaled = dict(raw["scaled"])
    scaled["first_message_bytes"] = tuple(scaled["first_message_bytes"])
    return ClientProfile(
        client=raw["client"],
        version=raw["version"],
        entrypoint=raw["entrypoint"],
        dialect=raw["dialect"],
        model=raw["model"],
        body_keys=tuple(raw["body_keys"]),
        max_tokens=raw["max_tokens"],
        client_fields=raw["client_fields"],
        user_id_keys=tuple(raw["user_id_keys"]),
        headers=raw["headers"],
        session_headers=tuple(raw["session_headers"]),
        attribution=_attribution(raw["attribution"]),
        system=tuple(SystemPart(**part) for part in raw["system"]),
        instructions_end=tuple(raw["instructions_end"]),
        first_message=tuple(MessagePart(**part) for part in raw["first_message"]),
        tools_bytes=raw["tools_bytes"],
        tools=tuple(ToolPart(**part) for part in raw["tools"]),
        core_tools=tuple(raw["core_tools"]),
        calls=tuple(
            CallPart(**{**part, "recorded_result_bytes": tuple(part["recorded_result_bytes"])}) for part in raw["calls"]
        ),
        scaled=ScaledSizes(**scaled),
    )


def _attribution(raw: Mapping[str, Any] | None) -> Attribution | None:
    if raw is None:
        return None
    return Attribution(form=raw["form"], suffix_hex=raw["suffix_hex"], cch_hex=raw["cch_hex"])
