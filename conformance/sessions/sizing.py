"""How large each part of a session's first request is: recorded sizes, scaled ones, or ones that meet a given total."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

import orjson

from .filler import size_for_json
from .profile import ClientProfile, ToolPart, load
from .tool_definitions import SMALLEST_SCHEMA, frame_bytes, tool_definition

Shape = Literal["scaled", "full"]

LONGEST_SALT: Final = 48
"""Bytes; keeps a salt inside every text it has to open."""

_LEAST_DESCRIPTION: Final = 32
_LEAST_SALTED: Final = LONGEST_SALT + 16
_LEAST_INSTRUCTIONS: Final = 256
_LEAST_REMINDER: Final = 64


@dataclass(frozen=True, slots=True)
class ToolSize:
    name: str
    bytes: int
    description_bytes: int
    first_argument: str | None


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of each sized part. `first_message` follows the profile's parts; its last one is the user's prompt."""

    tools: tuple[ToolSize, ...]
    instructions: int
    first_message: tuple[int, ...]

    @property
    def tools_bytes(self) -> int:
        """Compact-JSON size in bytes of the whole tool section; 0 where no tools are sent."""
        return _section([tool.bytes for tool in self.tools])


def plan(
    profile: ClientProfile,
    shape: Shape,
    *,
    tools: int | None = None,
    tools_bytes: int | None = None,
    system_bytes: int | None = None,
    base_bytes: int | None = None,
    fixed_bytes: int = 0,
    closing_bytes: int = 0,
) -> Sizes:
    """Sizes of the first request's parts.

    `tools_bytes` and `system_bytes` (the instructions text) are met exactly; so is `base_bytes`, the sum of all parts
    and `fixed_bytes` (texts the caller adds that do not scale): the parts not given scale alike, as far as their
    floors allow, and the prompt takes what rounding leaves. `closing_bytes` is room the prompt needs at its end.
    Raises ValueError for what cannot be met.
    """
    if shape not in ("scaled", "full"):
        raise ValueError(f'shape must be "scaled" or "full", got {shape!r}')
    recorded = shape == "full"
    count = tools if tools is not None else (len(profile.tools) if recorded else profile.scaled.tools)
    chosen = _chosen(profile, count)
    if system_bytes is not None and system_bytes < _LEAST_INSTRUCTIONS:
        raise ValueError(f"system_bytes must be at least {_LEAST_INSTRUCTIONS}, got {system_bytes}")
    natural_tools = _natural_tools_bytes(profile, chosen, recorded)
    natural_system = profile.system_bytes("instructions") if recorded else profile.scaled.instructions_bytes
    natural_message = (
        tuple(part.bytes for part in profile.first_message) if recorded else profile.scaled.first_message_bytes
    )
    least_prompt = _LEAST_SALTED + closing_bytes
    if base_bytes is None:
        wanted = natural_tools if tools_bytes is None and not recorded else tools_bytes
        return Sizes(
            tools=_tool_sizes(profile, chosen, wanted),
            instructions=natural_system if system_bytes is None else system_bytes,
            first_message=(*natural_message[:-1], max(least_prompt, natural_message[-1])),
        )
    # Shared out in the order of the floors' weight: tools, reminders, instructions; the prompt has what is left.
    reminder_floor = _LEAST_REMINDER * (len(natural_message) - 1)
    text_floor = reminder_floor + (system_bytes or _LEAST_INSTRUCTIONS) + least_prompt
    least_tools = _least_section(profile, chosen) if tools_bytes is None else tools_bytes
    least_base = fixed_bytes + least_tools + text_floor
    if base_bytes < least_base:
        raise ValueError(
            f"base_bytes={base_bytes} is too small for these parts; give at least {least_base}, or fewer tools"
        )
    texts = sum(natural_message) + (natural_system if system_bytes is None else 0)
    left = base_bytes - fixed_bytes - (system_bytes or 0)
    if tools_bytes is None:
        share = natural_tools * left // (texts + natural_tools)
        tools_bytes = max(least_tools, min(share, base_bytes - fixed_bytes - text_floor))
    left -= tools_bytes + least_prompt
    reminders = tuple(max(_LEAST_REMINDER, size * left // texts) for size in natural_message[:-1])
    room = base_bytes - fixed_bytes - tools_bytes - sum(reminders)
    instructions = system_bytes or min(natural_system * left // texts, room - least_prompt)
    return Sizes(_tool_sizes(profile, chosen, tools_bytes), instructions, (*reminders, room - instructions))


@lru_cache(maxsize=64)
def tool_table(seed: str, profile_name: str, sizes: tuple[ToolSize, ...]) -> tuple[dict[str, Any], ...]:
    """The definitions for `sizes`, shared between sessions: callers copy before they change one."""
    dialect = load(profile_name).dialect
    return tuple(
        tool_definition(
            f"{seed}/tool",
            size.name,
            size.bytes,
            size.description_bytes,
            dialect=dialect,
            first_argument=size.first_argument,
        )
        for size in sizes
    )


def copied(value: Any) -> Any:
    """A deep copy of plain JSON data."""
    return orjson.loads(orjson.dumps(value))


def _chosen(profile: ClientProfile, count: int) -> tuple[ToolPart, ...]:
    """The `count` tools a coding session needs most, in the client's own order."""
    if not 0 <= count <= len(profile.tools):
        raise ValueError(f"tools must be between 0 and {len(profile.tools)} for {profile.client}, got {count}")
    others = [tool.name for tool in profile.tools if tool.name not in profile.core_tools]
    wanted = set([*profile.core_tools, *others][:count])
    return tuple(tool for tool in profile.tools if tool.name in wanted)


def _natural_tools_bytes(profile: ClientProfile, chosen: Sequence[ToolPart], recorded: bool) -> int:
    recorded_bytes = _section([tool.bytes for tool in chosen])
    if recorded:
        return recorded_bytes
    core = _section([tool.bytes for tool in profile.tools if tool.name in profile.core_tools])
    return recorded_bytes * profile.scaled.tools_bytes // core


def _section(tool_bytes: Sequence[int]) -> int:
    return sum(tool_bytes) + len(tool_bytes) + 1 if tool_bytes else 0


def _schema(profile: ClientProfile, tool: ToolPart, factor: float = 1.0) -> int:
    """Bytes of the tool's properties: as recorded, or scaled down with a floor; none stays none."""
    recorded = tool.bytes - frame_bytes(tool.name, profile.dialect) - tool.description_bytes
    return min(recorded, max(SMALLEST_SCHEMA, int(recorded * factor)))


def _least_section(profile: ClientProfile, chosen: Sequence[ToolPart]) -> int:
    """The smallest section these tools fit in."""
    floors = _description_floors(chosen)
    return _section(
        [
            frame_bytes(tool.name, profile.dialect) + _schema(profile, tool, 0.0) + floor
            for tool, floor in zip(chosen, floors, strict=True)
        ]
    )


def _description_floors(chosen: Sequence[ToolPart]) -> list[int]:
    return [_LEAST_SALTED if i == 0 else _LEAST_DESCRIPTION for i in range(len(chosen))]


def _tool_sizes(profile: ClientProfile, chosen: Sequence[ToolPart], total: int | None) -> tuple[ToolSize, ...]:
    if total is None:
        return tuple(ToolSize(t.name, t.bytes, t.description_bytes, t.first_argument) for t in chosen)
    if not chosen:
        if total:
            raise ValueError(f"tools_bytes={total} cannot be met without tools; leave it out or ask for tools")
        return ()
    least_total = _least_section(profile, chosen)
    if total < least_total:
        raise ValueError(
            f"tools_bytes={total} is too small for {len(chosen)} tools; give at least {least_total}, or fewer tools"
        )
    factor = min(1.0, total / _section([tool.bytes for tool in chosen]))
    frames = [frame_bytes(tool.name, profile.dialect) for tool in chosen]
    floors = _description_floors(chosen)
    # A tool without properties has nothing that could take up a byte lost to rounding, so its description is fixed.
    fixed = [_schema(profile, tool) == 0 for tool in chosen]
    weights = [0 if f else tool.description_bytes for f, tool in zip(fixed, chosen, strict=True)]
    room = total - len(chosen) - 1 - sum(frames) - sum(floors)
    schemas = _fitting_schemas(profile, chosen, factor, room)
    room -= sum(schemas)
    shares = [room * weight // sum(weights) for weight in weights]
    shares[weights.index(max(weights))] += room - sum(shares)
    sizes: list[ToolSize] = []
    for tool, frame, floor, schema, share in zip(chosen, frames, floors, schemas, shares, strict=True):
        description = floor + share
        sizes.append(ToolSize(tool.name, frame + schema + description, size_for_json(description), tool.first_argument))
    return tuple(sizes)


def _fitting_schemas(profile: ClientProfile, chosen: Sequence[ToolPart], factor: float, room: int) -> list[int]:
    """Scaled property sizes that leave the descriptions their floors."""
    schemas = [_schema(profile, tool, factor) for tool in chosen]
    while sum(schemas) > room:
        factor *= 0.8
        schemas = [_schema(profile, tool, factor) for tool in chosen]
    return schemas
