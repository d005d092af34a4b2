"""Structural profiles of real coding clients, kept as JSON beside this module: sizes, order and forms, no text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from typing import Any, Final

from .profile_parts import (
    Attribution,
    CallPart,
    CompactionPart,
    Forms,
    MessagePart,
    ScaledSizes,
    SidePart,
    SubAgentPart,
    SystemPart,
    ToolPart,
)
from .tool_definitions import Dialect

CLAUDE_CODE: Final = "claude-code-2.1.116-vscode"
OPENCODE: Final = "opencode-1.18.33"
SUB_AGENT: Final = "/sub-agent"
"""Behind a profile's name: the profile of the sub-agents that client starts."""


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
    forms: Forms
    loader: str | None = None
    """Name of the tool by which deferred tools are loaded, and the tools that then appear in the list."""
    deferred: tuple[ToolPart, ...] = ()
    loaded_bytes: int = 0
    """Bytes of the text beside a loader's result."""
    side: tuple[SidePart, ...] = ()
    sub_agent: SubAgentPart | None = None
    compaction: CompactionPart | None = None
    repeats_environment: bool = False
    """On resuming, the environment text is sent once more, before the next question."""

    def system_bytes(self, part: str) -> int:
        """UTF-8 bytes of the system text `part`; KeyError if the client sends none."""
        return {p.part: p.bytes for p in self.system}[part]


def available() -> tuple[str, ...]:
    """Names that `load` knows; `SUB_AGENT` behind one of a client that starts sub-agents gives theirs."""
    folder = resources.files(__package__) / "profiles"
    return tuple(sorted(entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json")))


@lru_cache(maxsize=32)
def load(name: str) -> ClientProfile:
    """The profile `name`. Raises ValueError for a name that is not shipped."""
    main, agent, _ = name.partition(SUB_AGENT)
    if main not in available():
        raise ValueError(f"no client profile {name!r}; shipped are: {', '.join(available())}")
    if agent:
        return _of_sub_agent(load(main))
    raw = json.loads((resources.files(__package__) / "profiles" / f"{name}.json").read_text("utf-8"))
    return _read(raw)


def _read(raw: Mapping[str, Any]) -> ClientProfile:
    scaled = {**raw["scaled"], "first_message_bytes": tuple(raw["scaled"]["first_message_bytes"])}
    forms = {**raw.get("forms", {})}
    if "blocks" in forms:
        forms["blocks"] = tuple(forms["blocks"])
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
        forms=Forms(**forms),
        loader=raw.get("loader"),
        deferred=tuple(ToolPart(**part, deferred=True) for part in raw.get("deferred", ())),
        loaded_bytes=raw.get("loaded_bytes", 0),
        side=tuple(_side(part) for part in raw.get("side", ())),
        sub_agent=_sub_agent(raw.get("sub_agent")),
        compaction=CompactionPart(**raw["compaction"]) if "compaction" in raw else None,
        repeats_environment=raw.get("repeats_environment", False),
    )


def _attribution(raw: Mapping[str, Any] | None) -> Attribution | None:
    if raw is None:
        return None
    constant = raw["cch_is_function_of"] == "nothing"
    return Attribution(form=raw["form"], suffix_hex=raw["suffix_hex"], cch_hex=raw["cch_hex"], constant=constant)


def _side(raw: Mapping[str, Any]) -> SidePart:
    messages = tuple((role, size) for role, size in raw["messages"])
    return SidePart(**{**raw, "system": tuple(raw["system"]), "messages": messages})


def _sub_agent(raw: Mapping[str, Any] | None) -> SubAgentPart | None:
    if raw is None:
        return None
    first = tuple(MessagePart(**part) for part in raw["first_message"])
    return SubAgentPart(**{**raw, "system": tuple(raw["system"]), "first_message": first, "tools": tuple(raw["tools"])})


def _of_sub_agent(parent: ClientProfile) -> ClientProfile:
    """The parent's profile with a sub-agent's own texts and its selection of the parent's tools."""
    agent = parent.sub_agent
    if agent is None:
        raise ValueError(f"{parent.client} {parent.version} starts no sub-agents that were recorded")
    tools = tuple(tool for tool in parent.tools if tool.name in agent.tools)
    own = dict(zip([part.part for part in parent.system if part.part != "attribution"], agent.system, strict=True))
    system = tuple(replace(part, bytes=own.get(part.part, part.bytes)) for part in parent.system)
    attribution = parent.attribution
    if attribution is not None and agent.attribution is not None:
        attribution = replace(attribution, form=agent.attribution)
    prompt = agent.first_message[-1].bytes
    texts = (*(part.bytes for part in agent.first_message[:-1]), max(prompt, 120))
    return replace(
        parent,
        system=system,
        attribution=attribution,
        first_message=agent.first_message,
        tools=tools,
        tools_bytes=sum(tool.bytes for tool in tools) + len(tools) + 1,
        core_tools=tuple(name for name in parent.core_tools if name in agent.tools),
        calls=tuple(call for call in parent.calls if call.tool in agent.tools),
        loader=None,
        deferred=(),
        side=(),
        sub_agent=None,
        scaled=replace(
            parent.scaled,
            tools=min(parent.scaled.tools, len(tools)),
            instructions_bytes=min(parent.scaled.instructions_bytes, own["instructions"]),
            first_message_bytes=tuple(min(size, 900) for size in texts),
        ),
    )
