"""opencode's conversation: parts, order, growth, salts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conformance.sessions import ChatCodingSession
from conformance.sessions.tool_definitions import compact

SALT = "pp-5f3a9c21"
GROWTH = (900, 128, 2500, 700, 1300)


def session(**options: Any) -> ChatCodingSession:
    return ChatCodingSession(**{"seed": "oc", "salt": SALT, **options})


def grown(turns: int = 6, **options: Any) -> ChatCodingSession:
    s = session(**options)
    for size in GROWTH[: turns - 1]:
        s.grow(size)
    return s


def test_body_has_the_client_s_keys_in_its_order_and_no_stream() -> None:
    assert list(session().body()) == ["model", "max_tokens", "messages", "tools", "tool_choice"]
    assert list(session(tools=0, kinds=("text",)).body()) == ["model", "max_tokens", "messages"]


def test_full_shape_has_the_recorded_sizes() -> None:
    s = session(shape="full")
    body = s.body()
    assert len(compact(body["tools"]).encode()) == 20_812
    for sent, part in zip(body["tools"], s.profile.tools, strict=True):
        assert (sent["function"]["name"], len(compact(sent))) == (part.name, part.bytes)
        assert len(sent["function"]["description"]) == part.description_bytes
    assert len(body["messages"][0]["content"]) == 9569
    # Recorded: 30,741 bytes, with a 36-byte prompt and the stream options.
    assert len(s.encoded()) == pytest.approx(30_741, rel=0.005)


def test_messages_follow_the_dialect() -> None:
    messages = grown(5).body()["messages"]
    assert [m["role"] for m in messages] == [
        *("system", "user"),
        *("assistant", "tool", "assistant", "user") * 2,
    ]
    assert all(isinstance(m["content"], str) for m in messages)
    for assistant, tool in ((messages[2], messages[3]), (messages[6], messages[7])):
        (call,) = assistant["tool_calls"]
        assert assistant["content"] == ""
        assert call["type"] == "function"
        assert tool["tool_call_id"] == call["id"]
        arguments = call["function"]["arguments"]
        assert arguments == compact(json.loads(arguments))


def test_calls_name_tools_that_are_sent_with_arguments_they_describe() -> None:
    body = grown(6, kinds=("tool",)).body()
    described = {t["function"]["name"]: t["function"]["parameters"]["properties"] for t in body["tools"]}
    calls = [m["tool_calls"][0]["function"] for m in body["messages"] if "tool_calls" in m]
    assert {call["name"] for call in calls} == {"bash", "read"}
    for call in calls:
        assert set(json.loads(call["arguments"])) <= set(described[call["name"]])


def test_every_turn_is_a_prefix_of_the_next() -> None:
    s = session()
    before = s.encoded()
    for size in GROWTH:
        prompt = s.prompt_bytes
        messages, rest = s.body()["messages"], {k: v for k, v in s.body().items() if k != "messages"}
        s.grow(size)
        assert s.prompt_bytes == prompt + size
        assert s.body()["messages"][: len(messages)] == messages
        assert {k: v for k, v in s.body().items() if k != "messages"} == rest
        assert size <= len(s.encoded()) - len(before) <= size + 350
        before = s.encoded()


def test_fragments_are_what_the_body_holds_in_order() -> None:
    s = grown()
    body = s.body()
    found: list[tuple[str, Any]] = [("tool", tool["function"]) for tool in body["tools"]]
    kinds = {"tool": "tool_result"}
    for message in body["messages"]:
        if "tool_calls" in message:
            function = message["tool_calls"][0]["function"]
            found += [("tool_name", function["name"]), ("tool_arguments", json.loads(function["arguments"]))]
        else:
            found.append((kinds.get(message["role"], message["role"]), message["content"]))
    parsed = [(f.kind, json.loads(f.text) if f.kind in ("tool", "tool_arguments") else f.text) for f in s.fragments()]
    assert parsed == found
    held = sum(len(f.text) for f in s.fragments() if f.kind != "tool")
    assert s.prompt_bytes == held + len(compact(body["tools"]))


def test_salt_opens_the_first_tool_the_system_text_and_the_first_prompt() -> None:
    body = session().body()
    assert body["tools"][0]["function"]["description"].startswith(f"{SALT} ")
    assert [m["content"].startswith(f"{SALT} ") for m in body["messages"]] == [True, True]


def test_headers_carry_one_session_id() -> None:
    s = session()
    headers = s.headers()
    assert headers["x-session-id"] == headers["x-session-affinity"] == s.session_id
    assert s.session_id.startswith("ses_")
    assert len(s.session_id) == len("ses_") + 26
    assert s.with_salt("pp-other000").session_id != s.session_id
    assert "authorization" not in headers
