"""Sizes asked for are met exactly, whatever is asked for together."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.sessions import ChatCodingSession, ClaudeCodeSession, Session
from conformance.sessions.tool_definitions import compact

CLIENTS = (ClaudeCodeSession, ChatCodingSession)


def tool_section(s: Session) -> int:
    return len(compact(s.body()["tools"]).encode())


@settings(max_examples=120, deadline=None, derandomize=True, database=None)
@given(
    client=st.sampled_from(CLIENTS),
    shape=st.sampled_from(["scaled", "full"]),
    tools=st.integers(1, 10),
    tools_bytes=st.integers(4000, 120_000),
)
def test_tool_section_is_exact(client: Any, shape: Any, tools: int, tools_bytes: int) -> None:
    s = client(seed="sizes", salt="pp-sizes", shape=shape, tools=tools, tools_bytes=tools_bytes)
    assert tool_section(s) == s.sizes.tools_bytes == tools_bytes
    assert len(s.body()["tools"]) == tools


@pytest.mark.parametrize("tools_bytes", [*range(7400, 8500, 7), 20_000, 74_000, 74_027, 150_001])
def test_all_23_tools_take_any_total(tools_bytes: int) -> None:
    s = ClaudeCodeSession(seed="sizes", salt="pp-sizes", tools=23, tools_bytes=tools_bytes)
    assert tool_section(s) == tools_bytes


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(client=st.sampled_from(CLIENTS), shape=st.sampled_from(["scaled", "full"]), base=st.integers(12_000, 300_000))
def test_base_bytes_is_exact(client: Any, shape: Any, base: int) -> None:
    s = client(seed="sizes", salt="pp-sizes", shape=shape, base_bytes=base)
    assert s.prompt_bytes == base


@pytest.mark.parametrize(
    "options", [{}, {"attribution": False}, {"string_system": True}, {"tools": 0, "kinds": ["text"]}]
)
def test_base_bytes_is_exact_in_every_form(options: dict[str, Any]) -> None:
    s = ClaudeCodeSession(seed="sizes", salt="pp-sizes", base_bytes=16_001, **options)
    assert s.prompt_bytes == 16_001


def test_given_parts_stay_as_given_under_a_given_base() -> None:
    s = ClaudeCodeSession(seed="sizes", salt="pp-sizes", base_bytes=30_000, tools_bytes=9000, system_bytes=12_345)
    assert s.prompt_bytes == 30_000
    assert tool_section(s) == 9000
    assert len(s.body()["system"][2]["text"]) == 12_345


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    "options", [{}, {"shape": "full"}, {"tools": 2}, {"system_bytes": 700}, {"tools_bytes": 4001}, {"ask": "?" * 2000}]
)
def test_a_base_too_small_names_the_least_one(client: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="too small for these parts") as refused:
        client(seed="sizes", salt="pp-sizes", base_bytes=500, **options)
    named = re.search(r"at least (\d+)", str(refused.value))
    assert named is not None
    least = int(named.group(1))
    for base in range(least, least + 200, 13):
        assert client(seed="sizes", salt="pp-sizes", base_bytes=base, **options).prompt_bytes == base
    with pytest.raises(ValueError, match="too small for these parts"):
        client(seed="sizes", salt="pp-sizes", base_bytes=least - 1, **options)


def test_a_larger_base_enlarges_every_part() -> None:
    small, large = (
        ClaudeCodeSession(seed="sizes", salt="pp-sizes", base_bytes=size).sizes for size in (16_000, 64_000)
    )
    assert large.tools_bytes > 3 * small.tools_bytes
    assert large.instructions > 3 * small.instructions
    assert all(b > a for a, b in zip(small.first_message, large.first_message, strict=True))


@pytest.mark.parametrize("client", CLIENTS)
def test_tool_count_keeps_the_tools_the_calls_need(client: Any) -> None:
    for shape in ("scaled", "full"):
        for count in range(1, len(client(seed="sizes", salt="pp-sizes", shape="full").body()["tools"]) + 1):
            body = client(seed="sizes", salt="pp-sizes", shape=shape, tools=count).body()
            sent = [(tool.get("function") or tool)["name"].lower() for tool in body["tools"]]
            assert len(sent) == count
            assert set(["bash", "read"][:count]) <= set(sent)
