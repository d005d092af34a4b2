"""How large each part of a session's first request is: recorded sizes, scaled ones, or ones that meet a given total."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

import orjson

from .filler import json_size, size_for_json
from .profile import ClientProfile, load
from .profile_parts import ToolPart
from .tool_definitions import SMALLEST_SCHEMA, Dialect, bare_definition, frame_bytes, holds, tool_definition

Shape = Literal["scaled", "full"]

LONGEST_SALT: Final = 48
"""Bytes; keeps a salt inside every text it has to open."""

_LEAST_DESCRIPTION: Final = 32
_LEAST_SALTED: Final = LONGEST_SALT + 16
_LEAST_INSTRUCTIONS: Final = 256
_LEAST_REMINDER: Final = 64
DEFER: Final = "defer_loading"
_DEFER_BYTES: Final = len(f',"{DEFER}":true')


@dataclass(frozen=True, slots=True)
class ToolSize:
    name: str
    bytes: int
    description_bytes: int
    first_argument: str | None
    deferred: bool = False
    bare: bool = False


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
    floors = [min(_LEAST_REMINDER, size) for size in natural_message[:-1]]
    reminder_floor = sum(floors)
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
    shares = [size * left // texts for size in natural_message[:-1]]
    # A text as short as "Ok." is one because the client has nothing more to say there: it does not grow.
    kept = [size < _LEAST_REMINDER for size in natural_message[:-1]]
    reminders = tuple(f if short else max(f, share) for f, share, short in zip(floors, shares, kept, strict=True))
    room = base_bytes - fixed_bytes - tools_bytes - sum(reminders)
    instructions = system_bytes or min(natural_system * left // texts, room - least_prompt)
    return Sizes(_tool_sizes(profile, chosen, tools_bytes), instructions, (*reminders, room - instructions))


@lru_cache(maxsize=64)
def tool_table(seed: str, profile_name: str, sizes: tuple[ToolSize, ...]) -> tuple[dict[str, Any], ...]:
    """The definitions for `sizes`, shared between sessions: callers copy before they change one."""
    dialect = load(profile_name).dialect
    return tuple(_definition(f"{seed}/tool", size, dialect) for size in sizes)


def _definition(seed: str, size: ToolSize, dialect: Dialect) -> dict[str, Any]:
    n_bytes = size.bytes - (_DEFER_BYTES if size.deferred else 0)
    if size.bare:
        plain = bare_definition(seed, size.name, n_bytes)
    else:
        plain = tool_definition(
            seed, size.name, n_bytes, size.description_bytes, dialect=dialect, first_argument=size.first_argument
        )
    return {**plain, DEFER: True} if size.deferred else plain


def deferred_sizes(profile: ClientProfile, sizes: Sizes) -> tuple[ToolSize, ...]:
    """Sizes of the tools that are loaded later, in the proportion of those that are sent from the start."""
    if not profile.deferred:
        return ()
    recorded = _section([tool.bytes for tool in profile.deferred])
    sent = {size.name for size in sizes.tools}
    natural = _section([tool.bytes for tool in profile.tools if tool.name in sent])
    total = max(_least_section(profile, profile.deferred), recorded * sizes.tools_bytes // max(natural, 1))
    return _tool_sizes(profile, profile.deferred, None if sizes.tools_bytes == natural else total)


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
    return recorded_bytes * profile.scaled.tools_bytes // core if core else 0


def _section(tool_bytes: Sequence[int]) -> int:
    return sum(tool_bytes) + len(tool_bytes) + 1 if tool_bytes else 0


def _frame(profile: ClientProfile, tool: ToolPart) -> int:
    return frame_bytes(tool.name, profile.dialect, bare=tool.bare) + (_DEFER_BYTES if tool.deferred else 0)


def _schema(profile: ClientProfile, tool: ToolPart, factor: float = 1.0) -> int:
    """Bytes of the tool's properties: as recorded, or scaled down with a floor; none stays none."""
    if tool.bare:
        return 0
    recorded = tool.bytes - _frame(profile, tool) - tool.description_bytes
    return min(recorded, max(SMALLEST_SCHEMA, int(recorded * factor)))


def _least_section(profile: ClientProfile, chosen: Sequence[ToolPart]) -> int:
    """The smallest section these tools fit in."""
    floors = _description_floors(chosen)
    return _section(
        [
            _frame(profile, tool) + _schema(profile, tool, 0.0) + floor
            for tool, floor in zip(chosen, floors, strict=True)
        ]
    )


def _description_floors(chosen: Sequence[ToolPart]) -> list[int]:
    return [_LEAST_SALTED if i == 0 else _LEAST_DESCRIPTION for i in range(len(chosen))]


def _tool_sizes(profile: ClientProfile, chosen: Sequence[ToolPart], total: int | None) -> tuple[ToolSize, ...]:
    if total is None:
        return tuple(
            ToolSize(t.name, t.bytes, _fitting_description(profile, t), t.first_argument, t.deferred, t.bare)
            for t in chosen
        )
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
    frames = [_frame(profile, tool) for tool in chosen]
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
        text, n_bytes = floor + share, frame + schema + floor + share
        sizes.append(ToolSize(tool.name, n_bytes, size_for_json(text), tool.first_argument, tool.deferred, tool.bare))
    return tuple(sizes)


def _fitting_description(profile: ClientProfile, tool: ToolPart) -> int:
    """The recorded description, or a shorter one where what it leaves is neither nothing nor room for a property."""
    room = tool.bytes - _frame(profile, tool)
    if tool.bare or holds(room - json_size(tool.description_bytes), tool.first_argument):
        return tool.description_bytes
    return size_for_json(room - SMALLEST_SCHEMA)


def _fitting_schemas(profile: ClientProfile, chosen: Sequence[ToolPart], factor: float, room: int) -> list[int]:
    """Scaled property sizes that leave the descriptions their floors."""
    schemas = [_schema(profile, tool, factor) for tool in chosen]
    while sum(schemas) > room:
        factor *= 0.8
        schemas = [_schema(profile, tool, factor) for tool in chosen]
    return schemas


def check_salt(salt: str) -> None:
    """Raises ValueError unless a salt is plain ASCII, of a length that the sizes in bytes leave room for."""
    plain = salt.isascii() and salt.isprintable() and not set(salt) & set('"\\ ')
    if not (plain and 4 <= len(salt) <= LONGEST_SALT):
        raise ValueError(
            f"salt must be 4 to {LONGEST_SALT} printable ASCII characters without space, quote or backslash, "
            f"got {salt!r}"
        )
