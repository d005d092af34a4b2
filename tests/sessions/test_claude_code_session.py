"""Claude Code's conversation: parts, order, marks, growth, salts."""

from __future__ import annotations

import itertools
import json
import uuid
from typing import Any

import pytest

from conformance.sessions import ClaudeCodeSession
from conformance.sessions.tool_definitions import compact

SALT = "pp-5f3a9c21"
GROWTH = (900, 128, 2500, 700, 1300, 4096)


def session(**options: Any) -> ClaudeCodeSession:
    return ClaudeCodeSession(**{"seed": "cc", "salt": SALT, **options})


def grown(turns: int = 6, **options: Any) -> ClaudeCodeSession:
    s = session(**options)
    for size in GROWTH[: turns - 1]:
        s.grow(size)
    return s


def texts(s: ClaudeCodeSession) -> str:
    """Everything but the attribution text, in the client's order."""
    return "\x00".join(f.text for f in s.fragments() if f.kind != "attribution")


def marks(body: dict[str, Any]) -> list[str]:
    found = [f"system[{i}]" for i, block in enumerate(body["system"]) if "cache_control" in block]
    for i, message in enumerate(body["messages"]):
        if isinstance(message["content"], list):
            found += [f"msg[{i}].block[{j}]" for j, block in enumerate(message["content"]) if "cache_control" in block]
    return found


def test_body_has_the_client_s_keys_in_its_order_and_no_stream() -> None:
    assert list(session().body()) == ["model", "messages", "system", "tools", "metadata", "max_tokens"]
    assert list(session(shape="full").body()) == [
        *("model", "messages", "system", "tools", "metadata", "max_tokens"),
        *("thinking", "context_management", "output_config"),
    ]


def test_full_shape_has_the_recorded_sizes() -> None:
    s = session(shape="full")
    body = s.body()
    assert len(compact(body["tools"]).encode()) == 74_027
    assert [tool["name"] for tool in body["tools"]] == [tool.name for tool in s.profile.tools]
    for sent, part in zip(body["tools"], s.profile.tools, strict=True):
        assert len(compact(sent)) == part.bytes
        assert len(sent["description"]) == part.description_bytes
    assert [len(block["text"]) for block in body["system"]] == [91, 62, 26_051]
    assert [len(block["text"]) for block in body["messages"][0]["content"][:2]] == [2603, 306]
    # Recorded: 104,230 bytes, with a 34-byte prompt and `stream`.
    assert len(s.encoded()) == pytest.approx(104_230, rel=0.005)


def test_scaled_shape_keeps_parts_and_order() -> None:
    body = session().body()
    assert [block["text"].partition(" ")[0] for block in body["system"][::2]] == ["x-anthropic-billing-header:", SALT]
    assert len(body["system"]) == 3
    first = body["messages"][0]["content"]
    assert [block["text"].startswith("<system-reminder>\n") for block in first] == [True, True, False]
    order = [tool.name for tool in session().profile.tools]
    sent = [tool["name"] for tool in body["tools"]]
    assert len(sent) >= 6
    assert sent == [name for name in order if name in sent]


def test_each_body_is_the_caller_s_own() -> None:
    s = grown(3)
    body = s.body()
    for container in (body["tools"][0], body["system"][0], body["messages"][0], body["metadata"]):
        container.clear()
    assert s.body() != body
    assert s.body() == grown(3).body()


def test_encoded_is_the_body_as_compact_json() -> None:
    s = grown(4)
    assert compact(s.body()).encode() == s.encoded() == s.encoded()


def test_growth_is_exact_in_prompt_bytes_and_close_in_body_bytes() -> None:
    s = session()
    for size in GROWTH:
        prompt, body = s.prompt_bytes, len(s.encoded())
        s.grow(size)
        assert s.prompt_bytes - prompt == size
        assert size <= len(s.encoded()) - body <= size + 350


def test_prompt_bytes_counts_what_the_fragments_hold() -> None:
    s = grown()
    held = sum(len(f.text.encode()) for f in s.fragments() if f.kind != "tool")
    assert s.prompt_bytes == held + len(compact(s.body()["tools"]).encode())


def test_turns_alternate_between_tool_calls_and_questions() -> None:
    s = grown(5)
    shapes = [(m["role"], [b["type"] for b in m["content"]]) for m in session_lists(s)]
    assert shapes == [
        ("user", ["text", "text", "text"]),
        *[("assistant", ["tool_use"]), ("user", ["tool_result"]), ("assistant", ["text"]), ("user", ["text"])] * 2,
    ]
    assert s.turn == 5


def session_lists(s: ClaudeCodeSession) -> list[dict[str, Any]]:
    """The messages with string contents written as one text block."""
    return [
        {**m, "content": [{"type": "text", "text": m["content"]}] if isinstance(m["content"], str) else m["content"]}
        for m in s.body()["messages"]
    ]


def test_tool_results_answer_the_call_before_them_in_string_form() -> None:
    s = grown(6, kinds=("tool",))
    messages = s.body()["messages"]
    names = {tool["name"]: tool["input_schema"] for tool in s.body()["tools"]}
    ids = []
    for call, result in zip(messages[1::2], messages[2::2], strict=True):
        (use,), (back,) = call["content"], result["content"]
        assert back["tool_use_id"] == use["id"]
        assert isinstance(back["content"], str)
        assert set(use["input"]) <= set(names[use["name"]]["properties"])
        ids.append(use["id"])
    assert len(set(ids)) == len(ids) == 5


def test_marks_stand_on_two_system_texts_and_move_with_the_last_block() -> None:
    for turns in range(1, 6):
        body = grown(turns).body()
        last = len(body["messages"]) - 1
        block = len(body["messages"][last]["content"]) - 1
        assert marks(body) == ["system[1]", "system[2]", f"msg[{last}].block[{block}]"]


def test_a_single_text_block_becomes_a_string_once_its_mark_has_moved_on() -> None:
    s = grown(3)
    asked = s.body()["messages"][4]["content"]
    assert [block["type"] for block in asked] == ["text"]
    s.grow(500)
    assert s.body()["messages"][4]["content"] == asked[0]["text"]
    kept = grown(3, collapse=False)
    kept.grow(500)
    assert kept.body()["messages"][4]["content"] == [{"type": "text", "text": asked[0]["text"]}]


def test_without_marks_every_content_keeps_one_form_and_turns_are_prefixes() -> None:
    s = session(cache_control=False, attribution=False)
    before = s.body()
    for size in GROWTH:
        s.grow(size)
        after = s.body()
        assert b"cache_control" not in s.encoded()
        assert all(isinstance(message["content"], list) for message in after["messages"])
        assert compact(after["messages"]).startswith(compact(before["messages"])[:-1])
        assert {k: v for k, v in after.items() if k != "messages"} == {
            k: v for k, v in before.items() if k != "messages"
        }
        before = after


def test_texts_only_grow_at_the_end_with_marks_too() -> None:
    s = session()
    before = texts(s)
    for size in GROWTH:
        s.grow(size)
        assert texts(s).startswith(before + "\x00")
        before = texts(s)


def test_fragments_are_what_the_body_holds_in_order() -> None:
    s = grown()
    body = s.body()
    found: list[tuple[str, Any]] = [
        ("tool", {"name": t["name"], "description": t["description"], "parameters": t["input_schema"]})
        for t in body["tools"]
    ]
    found += [("attribution" if i == 0 else "system", b["text"]) for i, b in enumerate(body["system"])]
    for message in session_lists(s):
        for block in message["content"]:
            if block["type"] == "tool_use":
                found += [("tool_name", block["name"]), ("tool_arguments", block["input"])]
            elif block["type"] == "tool_result":
                found.append(("tool_result", block["content"]))
            else:
                found.append((message["role"], block["text"]))
    parsed = [(f.kind, json.loads(f.text) if f.kind in ("tool", "tool_arguments") else f.text) for f in s.fragments()]
    assert parsed == found


def test_fragments_of_a_string_system() -> None:
    s = session(string_system=True)
    system = [f for f in s.fragments() if f.kind in ("attribution", "system")]
    assert "\n".join(f.text for f in system) == s.body()["system"]
    assert [f.kind for f in system] == ["attribution", "system"]
    assert s.prompt_bytes == sum(len(f.text) for f in s.fragments() if f.kind != "tool") + 1 + len(
        compact(s.body()["tools"])
    )


def test_salt_opens_the_first_tool_the_instructions_and_the_first_prompt() -> None:
    body = session().body()
    for text in (
        body["tools"][0]["description"],
        body["system"][2]["text"],
        body["messages"][0]["content"][-1]["text"],
    ):
        assert text.startswith(f"{SALT} ")
    constant = session(salt="pp-other000").body()
    assert constant["system"][1] == body["system"][1]


def test_two_salts_share_nothing_beyond_the_constant_head() -> None:
    one, two = session(attribution=False), session(attribution=False, salt="qq-5f3a9c21")
    a, b = one.body(), two.body()
    assert common_prefix(compact(a["tools"]), compact(b["tools"])) == '[{"name":"Agent","description":"'
    assert a["system"][0] == b["system"][0]
    assert common_prefix(a["system"][1]["text"], b["system"][1]["text"]) == ""
    prompts = [body["messages"][0]["content"][-1]["text"] for body in (a, b)]
    assert common_prefix(*prompts) == ""
    assert len(one.encoded()) == len(two.encoded())


def common_prefix(a: str, b: str) -> str:
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))
    return "".join(x for x, _ in pairs)


def test_seeds_give_other_texts_under_the_same_salt() -> None:
    one, two = (session(seed=seed).body() for seed in ("a", "b"))
    assert one["system"][1] == two["system"][1]
    assert len(common_prefix(one["system"][2]["text"], two["system"][2]["text"])) < len(SALT) + 24
    assert len(common_prefix(compact(one["tools"]), compact(two["tools"]))) < 80


def test_with_salt_equals_a_session_built_with_it() -> None:
    s = grown(4)
    other = s.with_salt("pp-other000")
    fresh = grown(4, salt="pp-other000")
    assert other.encoded() == fresh.encoded()
    other.grow(500)
    assert (s.turn, other.turn) == (4, 5)
    assert s.encoded() == grown(4).encoded()


def test_headers_and_metadata_carry_the_same_session_id() -> None:
    s = session()
    user_id = json.loads(s.body()["metadata"]["user_id"])
    assert list(user_id) == ["device_id", "account_uuid", "session_id"]
    assert s.headers()["x-claude-code-session-id"] == user_id["session_id"] == str(uuid.UUID(user_id["session_id"]))
    assert s.headers()["user-agent"] == "claude-cli/2.1.116 (external, claude-vscode)"
    assert {"authorization", "x-api-key", "content-type"}.isdisjoint(s.headers())
    assert session(salt="pp-other000").session_id != s.session_id


@pytest.mark.parametrize("kind", ["text", "tool"])
def test_ask_is_the_last_line_the_client_sends(kind: Any) -> None:
    s = session(ask="Answer with the word alpha.")
    assert s.body()["messages"][0]["content"][-1]["text"].endswith("\nAnswer with the word alpha.")
    before = s.prompt_bytes
    s.grow(400, kind=kind, ask="Answer with the word beta.")
    assert s.fragments()[-1].text.endswith("\nAnswer with the word beta.")
    assert s.prompt_bytes == before + 400


def test_answers_are_short_unless_asked_for() -> None:
    assert session().body()["max_tokens"] == session(shape="full").body()["max_tokens"] == 16
    assert session(max_tokens=32_000).body()["max_tokens"] == 32_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"salt": "has space"}, "salt must be"),
        ({"salt": "abc"}, "salt must be"),
        ({"salt": "x" * 49}, "salt must be"),
        ({"salt": "naïve-salt"}, "salt must be"),
        ({"shape": "huge"}, "shape must be"),
        ({"tools": 24}, "tools must be between 0 and 23"),
        ({"tools": 0}, "can only take text turns"),
        ({"tools_bytes": 500}, "tools_bytes=500 is too small for 8 tools; give at least"),
        ({"tools": 0, "kinds": ("text",), "tools_bytes": 900}, "cannot be met without tools"),
        ({"system_bytes": 10}, "system_bytes must be at least"),
        ({"base_bytes": 1000}, "base_bytes=1000 is too small"),
        ({"max_tokens": 0}, "max_tokens must be"),
        ({"kinds": ()}, "kinds must name"),
        ({"kinds": ("image",)}, "kinds must name"),
        ({"ask": "où ?"}, "ask must be ASCII"),
    ],
)
def test_bad_arguments_say_what_to_do(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        session(**options)


def test_growth_has_a_least_size() -> None:
    with pytest.raises(ValueError, match="at least 128 bytes, got 100"):
        session().grow(100)


def test_a_session_without_tools_grows_by_text_only() -> None:
    s = session(tools=0, kinds=("text",))
    assert "tools" not in s.body()
    s.grow(300)
    with pytest.raises(ValueError, match="sends no tools"):
        s.grow(300, kind="tool")
