"""Tool definitions: exact sizes and usable JSON Schema in both dialects."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.sessions.filler import json_size
from conformance.sessions.tool_definitions import (
    SMALLEST_SCHEMA,
    Dialect,
    compact,
    frame_bytes,
    tool_definition,
)

DIALECTS: tuple[Dialect, ...] = ("messages", "chat")


def parts(tool: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    inner = tool.get("function", tool)
    return inner["name"], inner["description"], inner.get("input_schema") or inner["parameters"]


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(
    dialect=st.sampled_from(DIALECTS),
    name=st.text("abcdefgXYZ_", min_size=1, max_size=24),
    properties=st.integers(SMALLEST_SCHEMA, 9000),
    description=st.integers(0, 6000),
)
def test_sizes_are_exact(dialect: Dialect, name: str, properties: int, description: int) -> None:
    total = frame_bytes(name, dialect) + properties + json_size(description)
    tool = tool_definition("s", name, total, description, dialect=dialect)
    assert len(compact(tool).encode()) == total
    assert parts(tool)[0] == name
    assert len(parts(tool)[1].encode()) == description


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("spare", [0, SMALLEST_SCHEMA, 300, 2500, 6000])
def test_schema_describes_an_object_and_closes_it(dialect: Dialect, spare: int) -> None:
    total = frame_bytes("tool", dialect) + spare + json_size(100)
    schema = parts(tool_definition("s", "tool", total, 100, dialect=dialect))[2]
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert ("$schema" in schema) == (dialect == "messages")
    assert set(schema.get("required", [])) <= set(schema["properties"])
    assert bool(schema["properties"]) == (spare > 0)
    for value in schema["properties"].values():
        assert value["type"] in {"string", "integer", "boolean", "array"}
        assert value["description"].isprintable()


def test_first_argument_is_a_required_string() -> None:
    schema = parts(tool_definition("s", "Bash", 3000, 1500, first_argument="command"))[2]
    assert next(iter(schema["properties"])) == "command"
    assert schema["properties"]["command"]["type"] == "string"
    assert "command" in schema["required"]


def test_dialects_have_their_own_envelopes() -> None:
    assert list(tool_definition("s", "t", 600, 200)) == ["name", "description", "input_schema"]
    chat = tool_definition("s", "t", 600, 200, dialect="chat")
    assert (list(chat), chat["type"]) == (["type", "function"], "function")
    assert list(chat["function"]) == ["name", "description", "parameters"]


@pytest.mark.parametrize("missing", [-5, 1, 20])
def test_an_impossible_size_says_so(missing: int) -> None:
    total = frame_bytes("tool", "messages") + json_size(100) + missing
    with pytest.raises(ValueError, match="bytes are left for its properties"):
        tool_definition("s", "tool", total, 100)
