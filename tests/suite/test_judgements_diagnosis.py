"""Divergence and content differences, against tables and naive versions of themselves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.diagnosis.content import content_differences
from conformance.diagnosis.divergence import first_difference, prefix_change
from conformance.diagnosis.prompt import UpstreamPrompt, parse_prompt
from conformance.judgements.content import _and_more

# Divergence

TEXT = st.text("ab", max_size=12)


@given(TEXT, TEXT)
def test_the_first_difference(a: str, b: str) -> None:
    naive = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)
    if naive is None and a != b:
        naive = min(len(a), len(b))
    assert first_difference(a, b) == naive


def prompt_of(messages: list[tuple[str, str]], tools: list[str] | None = None) -> UpstreamPrompt:
    body: dict[str, Any] = {"messages": [{"role": role, "content": text} for role, text in messages]}
    body["tools"] = [{"type": "function", "function": {"name": name, "description": name}} for name in tools or []]
    found = parse_prompt("/v1/chat/completions", body)
    assert found is not None
    return found


MESSAGE = st.tuples(st.sampled_from(["system", "user", "assistant"]), st.sampled_from(["a", "b", "ab", "a b"]))


@given(st.lists(MESSAGE, max_size=5), st.lists(MESSAGE, max_size=5), st.permutations(["x", "y"]))
def test_a_prompt_is_a_prefix_or_a_change_is_named(
    a: list[tuple[str, str]], b: list[tuple[str, str]], tools: list[str]
) -> None:
    change = prefix_change(prompt_of(a, ["x", "y"]), prompt_of(b, tools), lambda _: True)
    is_prefix = b[: len(a)] == a and tools == ["x", "y"]
    assert (change is None) is is_prefix
    if change is None:
        return
    if tools != ["x", "y"]:
        assert (change.part, change.kind) == ("tool 0", "tools re-ordered")
        return
    at = next(i for i in range(len(a)) if b[i : i + 1] != a[i : i + 1])
    assert change.part == f"message {at} ({a[at][0]})"
    if at < len(b) and a[at][0] == b[at][0]:
        assert change.offset == first_difference(a[at][1], b[at][1])


# Content


def client(system: list[str], *messages: tuple[str, Any], tools: list[dict[str, Any]] | None = None) -> UpstreamPrompt:
    body = {
        "system": [{"type": "text", "text": text} for text in system],
        "messages": [{"role": role, "content": content} for role, content in messages],
        "tools": tools or [],
    }
    found = parse_prompt("/v1/messages", body, join=False)
    assert found is not None
    return found


def upstream(*messages: dict[str, Any], tools: list[dict[str, Any]] | None = None) -> UpstreamPrompt:
    found = parse_prompt("/v1/chat/completions", {"messages": list(messages), "tools": tools or []})
    assert found is not None
    return found


def says(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


CALL = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"b": 1, "a": "é"}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "done"}]}
UPSTREAM_CALL = {"id": "t1", "type": "function", "function": {"name": "Bash", "arguments": '{ "b":1, "a":"\\u00e9" }'}}
SENT = client(
    ["one.", "two."], ("user", "go"), ("assistant", [CALL]), ("user", [RESULT, {"type": "text", "text": "on"}])
)


@pytest.mark.parametrize("join", ["", "\n", "\n\n", " ", "\n---\n"])
@pytest.mark.parametrize("merged", [False, True])
def test_everything_that_arrives_in_another_form_has_arrived(join: str, merged: bool) -> None:
    tail = [says("tool", "done", tool_call_id="t1"), says("user", "on")]
    if merged:
        tail = [says("user", f"done{join}on")]
    system = says("developer", [{"type": "text", "text": "one."}, {"type": "text", "text": join + "two."}])
    got = upstream(system, says("user", "go"), says("assistant", None, tool_calls=[UPSTREAM_CALL]), *tail)
    assert content_differences(SENT, got) == []


@pytest.mark.parametrize(
    ("drop", "where"),
    [(0, "system[0]"), (1, "message 0 (user)"), (3, "message 2 (user), tool result"), (4, "message 2 (user), block 1")],
)
def test_what_is_dropped_is_named(drop: int, where: str) -> None:
    call = says("assistant", None, tool_calls=[UPSTREAM_CALL])
    whole = [says("system", "one.two."), says("user", "go"), call, says("tool", "done"), says("user", "on")]
    found = content_differences(SENT, upstream(*whole[:drop], *whole[drop + 1 :]))
    assert {d.code for d in found} == {"text-dropped"}
    assert where in {d.where for d in found}
    assert content_differences(SENT, upstream(*whole)) == []


@pytest.mark.parametrize(
    ("others", "words"), [(0, ""), (1, " (and 1 more difference)"), (2, " (and 2 more differences)")]
)
def test_more_differences_are_counted_in_words(others: int, words: str) -> None:
    assert _and_more(others) == words


def test_a_text_is_looked_for_once_for_each_time_it_was_sent() -> None:
    twice = client([], ("user", "go"), ("assistant", "yes"), ("user", "go"))
    once = upstream(says("user", "go"), says("assistant", "yes"))
    assert [d.code for d in content_differences(twice, once)] == ["text-dropped"]


@pytest.mark.parametrize(
    "extra", [says("system", "I add this."), says("user", "go go"), says("assistant", "", tool_calls=[UPSTREAM_CALL])]
)
def test_what_is_added_is_named(extra: dict[str, Any]) -> None:
    found = content_differences(client([], ("user", "go")), upstream(says("user", "go"), extra))
    assert [d.code for d in found] == ["text-added"]


TOOL = {
    "name": "Bash",
    "description": "Runs.",
    "input_schema": {"type": "object", "properties": {"n": {"enum": [1, True]}}},
}


def function(**change: Any) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": "Bash", "description": "Runs.", "parameters": TOOL["input_schema"], **change},
    }


@pytest.mark.parametrize(
    ("tools", "code", "text"),
    [
        ([function()], None, ""),
        ([function(strict=False)], None, ""),
        ([], "tool-dropped", ""),
        ([function(), function(name="Other")], "tool-added", ""),
        ([function(description="Runs")], "schema-changed", "description changed"),
        ([function(parameters={"type": "object"})], "schema-changed", "parameters.properties dropped"),
        ([function(parameters={**TOOL["input_schema"], "x": 1})], "schema-changed", "parameters.x added"),  # type: ignore[dict-item]
        (
            [function(parameters={"type": "object", "properties": {"n": {"enum": [1, 1]}}})],
            "schema-changed",
            "parameters.properties.n.enum[1] changed",
        ),
    ],
)
def test_tools_are_compared_by_value(tools: list[dict[str, Any]], code: str | None, text: str) -> None:
    found = content_differences(client([], ("user", "go"), tools=[TOOL]), upstream(says("user", "go"), tools=tools))
    assert [(d.code, d.text) for d in found] == ([] if code is None else [(code, text)])
