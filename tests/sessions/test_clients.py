"""Every recorded client: sizes and forms as on the wire, and only the changes it really makes between requests."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import orjson
import pytest

from conformance.sessions import CLIENTS, Compact, LoadTools, Note, Request, Resume, Retry, Side, SubAgents, Turn
from conformance.sessions.profile import load
from conformance.sessions.tool_definitions import compact

RECORDED = {
    # client: bytes of the first main request's body, tools, bytes of the tool section
    "claude-code-2.0.77": (71_104, 18, 57_740),
    "claude-code-2.1.50": (76_352, 17, 60_149),
    "claude-code-2.1.116": (102_903, 23, 72_729),
    "claude-code-2.1.116-vscode": (104_230, 23, 74_027),
    "claude-code-2.1.220": (82_176, 24, 65_038),
    "claude-code-2.1.332": (49_858, 12, 31_201),
    "opencode-1.18.33": (30_741, 10, 20_812),
    "reasonix-1.38.11": (19_210, 14, 14_053),
    "qwen-code-0.15.10": (78_647, 15, 38_527),
    "pi-0.73.1": (5_583, 4, 2_953),
    "aider-0.86.2": (3_471, 0, 0),
}
MESSAGES = [name for name, client in CLIENTS.items() if client.dialect == "messages"]
CHAT = [name for name, client in CLIENTS.items() if client.dialect == "chat"]
TURNS = (Turn(0), Turn(900), Turn(700), Turn(1200), Turn(600))


def played(name: str, *script: Any, salt: str = "pp-clients", **session: Any) -> list[Request]:
    return list(CLIENTS[name].play(seed="clients", salt=salt, script=script or None, **session))


def parts(body: Any) -> list[str]:
    """What becomes prompt text, in order, with forms evened out: marks gone, strings and lists alike."""
    found = [json.dumps({k: v for k, v in tool.items() if k != "cache_control"}) for tool in body.get("tools", ())]
    system = body.get("system", ())
    found += [block["text"] for block in ([{"text": system}] if isinstance(system, str) else system)]
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else (content or [])
        found += [message["role"] + json.dumps({k: v for k, v in b.items() if k != "cache_control"}) for b in blocks]
        found += [json.dumps(message[key]) for key in ("reasoning_content", "tool_calls") if key in message]
    return [re.sub(r"cch=[0-9a-f]{5}", "cch=", text) for text in found]


def header(request: Request) -> str:
    text: str = request.body["system"][0]["text"]
    assert text.startswith("x-anthropic-billing-header:")
    return text


def texts(content: Any) -> list[str]:
    return [content] if isinstance(content, str) else [block.get("text", "") for block in content]


def test_every_recorded_client_is_there() -> None:
    assert set(CLIENTS) == set(RECORDED)


@pytest.mark.parametrize("name", list(CLIENTS))
def test_the_full_shape_has_the_recorded_sizes(name: str) -> None:
    body_bytes, tools, tools_bytes = RECORDED[name]
    body = played(name, Turn(0), shape="full")[0].body
    sent = body.get("tools", [])
    assert len(sent) == tools
    assert (len(compact(sent)) if sent else 0) == tools_bytes
    assert abs(len(orjson.dumps(body)) - body_bytes) < 0.02 * body_bytes + 200, "up to the fields a probe leaves out"


@pytest.mark.parametrize("name", list(CLIENTS))
def test_the_scaled_shape_is_a_few_thousand_tokens(name: str) -> None:
    assert 5_000 < len(orjson.dumps(played(name, Turn(0))[0].body)) < 20_000


@pytest.mark.parametrize("shape", ["scaled", "full"])
@pytest.mark.parametrize("name", list(CLIENTS))
def test_a_turn_grows_by_exactly_what_was_asked_for(name: str, shape: str) -> None:
    client = CLIENTS[name]
    session = client.start(seed="grow", salt="pp-grow", shape=shape)
    kinds = ("text",) if name.startswith("aider") else ("text", "tool", "parallel")
    for kind in kinds:
        before = session.prompt_bytes
        session.grow(1001, kind)  # type: ignore[arg-type]
        assert session.prompt_bytes == before + 1001
        said = sum(len(f.text) for f in session.fragments() if f.kind not in ("tool", "attribution"))
        blocks = sum(len(f.text) for f in session.fragments() if f.kind == "attribution")
        assert said + blocks + session.sizes.tools_bytes == session.prompt_bytes


@pytest.mark.parametrize("name", [name for name, client in CLIENTS.items() if client.appends])
def test_turns_only_append_once_marks_and_cch_are_left_out_of_account(name: str) -> None:
    for before, after in pairwise(played(name, *TURNS)):
        one, other = parts(before.body), parts(after.body)
        assert other[: len(one)] == one
        assert len(other) > len(one)


def test_aider_keeps_only_what_stands_in_front_of_the_last_question() -> None:
    for before, after in pairwise(played("aider-0.86.2", *TURNS, shape="full")):
        one, other = parts(before.body), parts(after.body)
        same = next(i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
        kept = sum(map(len, one[:same])) / sum(map(len, one))
        assert 0.3 < kept < 0.95


def test_aider_moves_files_and_reminder_behind_the_history() -> None:
    first, _, third = (request.body["messages"] for request in played("aider-0.86.2", Turn(0), Turn(700), Turn(500)))
    files = [m["content"] for m in first[-3:-1]]
    assert [m["content"] for m in third[-3:-1]] == files
    assert all(first[5]["content"] != m["content"] for m in third), "the map is sent once"
    answered = next(m["content"] for m in third if first[-1]["content"].startswith(m["content"]))
    assert first[-1]["content"].removeprefix(answered) == third[-1]["content"][-850:], "a question loses its reminder"


@pytest.mark.parametrize("name", list(CLIENTS))
def test_sessions_share_nothing_that_is_salted(name: str) -> None:
    one, other = (played(name, Turn(0), salt=salt)[0].body for salt in ("pp-one-salt", "pp-two-salt"))
    assert {len(orjson.dumps(body)) for body in (one, other)} == {len(orjson.dumps(one))}
    at = next(i for i, (a, b) in enumerate(zip(parts(one), parts(other), strict=True)) if a != b)
    assert at <= 1, "the first tool's text, or the system text where there are no tools"


@pytest.mark.parametrize("name", list(CLIENTS))
def test_a_retry_is_byte_identical(name: str) -> None:
    sent = played(name, Turn(0), Turn(900), Retry(7))
    assert len(sent) == 9
    assert {orjson.dumps(request.body) for request in sent[1:]} == {orjson.dumps(sent[1].body)}
    assert {request.kind for request in sent[2:]} == {"retry"}


@pytest.mark.parametrize("name", ["claude-code-2.1.116", "claude-code-2.1.116-vscode"])
def test_cch_follows_from_the_body(name: str) -> None:
    sent = played(name, Turn(0), Turn(500), Retry(), Turn(500))
    cch = [header(request)[-6:-1] for request in sent]
    assert len(set(cch)) == 3
    assert cch[1] == cch[2]
    assert len({header(request)[:-6] for request in sent}) == 1


def test_other_versions_do_not_vary_their_attribution_text() -> None:
    for name, tail in (("claude-code-2.1.50", "cch=00000;"), ("claude-code-2.1.220", "cc_entrypoint=sdk-cli;")):
        assert {header(request)[-len(tail) :] for request in played(name, *TURNS)} == {tail}
    assert "cch" not in header(played("claude-code-2.1.332", Turn(0))[0])
    assert all("billing" not in text for text in parts(played("claude-code-2.0.77", Turn(0))[0].body))


@pytest.mark.parametrize("name", [n for n in MESSAGES if load(n).attribution])
def test_the_suffix_follows_from_the_first_prompt(name: str) -> None:
    one, again, other = (
        header(played(name, *script, salt=salt)[-1])
        for script, salt in (((Turn(0),), "pp-suf-1"), (TURNS, "pp-suf-1"), ((Turn(0),), "pp-suf-2"))
    )
    suffix = re.compile(r"cc_version=[0-9.]+\.([0-9a-f]{3});")
    found = [suffix.search(text).group(1) for text in (one, again, other)]  # type: ignore[union-attr]
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("name", MESSAGES)
def test_the_mark_moves_and_leaves_a_string_behind(name: str) -> None:
    sent = [request.body["messages"] for request in played(name, Turn(0), Turn(600, "text"), Turn(600, "text"))]
    marked = [
        [i for i, m in enumerate(messages) if isinstance(m["content"], list) and "cache_control" in m["content"][-1]]
        for messages in sent
    ]
    assert all(len(messages) - 1 in at for messages, at in zip(sent, marked, strict=True))
    assert isinstance(sent[1][-1]["content"], list)
    assert sent[2][len(sent[1]) - 1]["content"] == sent[1][-1]["content"][0]["text"]
    assistants = [i for i in marked[2] if sent[2][i]["role"] == "assistant"]
    assert bool(assistants) is (name == "claude-code-2.0.77")


@pytest.mark.parametrize("name", ["claude-code-2.1.220", "claude-code-2.1.332"])
def test_newer_versions_send_a_system_message_behind_the_first(name: str) -> None:
    first, second = (request.body["messages"] for request in played(name, Turn(0), Turn(500)))
    assert [m["role"] for m in first] == ["user", "system"]
    assert "cache_control" in first[1]["content"][0]
    assert second[1] == {"role": "system", "content": first[1]["content"][0]["text"]}


def test_a_note_comes_between_turns_as_a_system_message() -> None:
    sent = played("claude-code-2.1.332", Turn(0), Note(1600), Turn(500), Turn(500))
    roles = [m["role"] for m in sent[1].body["messages"]]
    assert roles == ["user", "system", "system", "assistant", "user"]
    assert len(texts(sent[2].body["messages"][2]["content"])[0]) == 1600


@pytest.mark.parametrize("name", [name for name in CLIENTS if not name.startswith("aider")])
def test_parallel_results_come_back_in_order_of_completion(name: str) -> None:
    body = played(name, Turn(0), Turn(1400, "parallel", ask="Which?"))[-1].body
    if CLIENTS[name].dialect == "messages":
        asked = [b["id"] for b in body["messages"][-2]["content"] if b["type"] == "tool_use"]
        got = [b["tool_use_id"] for b in body["messages"][-1]["content"]]
        last = body["messages"][-1]["content"][-1]["content"]
    else:
        asked = [call["id"] for call in body["messages"][-3]["tool_calls"]]
        got = [m["tool_call_id"] for m in body["messages"][-2:]]
        last = texts(body["messages"][-1]["content"])[0]
    assert len(asked) == 2
    assert got == asked[::-1]
    assert last.endswith("\nWhich?")


def test_deferred_tools_appear_in_the_middle_and_move_no_other() -> None:
    before, after, later = played("claude-code-2.1.332", Turn(0), LoadTools(), Turn(900), shape="full")
    names = [tool["name"] for tool in after.body["tools"]]
    assert names == [
        "Agent", "Bash", "Edit", "ListAgents", "NotebookEdit", "Read", "ReportFindings", "ScheduleWakeup", "Skill",
        "ToolSearch", "WebFetch", "WebSearch", "Workflow", "DeferredToolPlaceholder", "Write",
    ]  # fmt: skip
    assert len(compact(after.body["tools"])) == 34_839
    late = [tool for tool in after.body["tools"] if tool not in before.body["tools"]]
    assert [tool["name"] for tool in late if tool["defer_loading"]] == ["NotebookEdit", "WebFetch", "WebSearch"]
    assert [tool for tool in after.body["tools"] if tool not in late] == before.body["tools"]
    assert later.body["tools"] == after.body["tools"]
    result, note = after.body["messages"][-1]["content"]
    assert [found["tool_name"] for found in result["content"]] == ["NotebookEdit", "WebFetch", "WebSearch"]
    assert note["type"] == "text"
    with pytest.raises(ValueError, match="no deferred tools left"):
        played("claude-code-2.1.332", Turn(0), LoadTools(), LoadTools())


def test_thinking_stays_in_all_later_turns() -> None:
    sent = played("claude-code-2.1.116", *TURNS)
    thought = [b for m in sent[1].body["messages"] for b in texts_of_type(m, "thinking")]
    assert len(thought) == 1
    assert all(thought[0] in [b for m in r.body["messages"] for b in texts_of_type(m, "thinking")] for r in sent[1:])


def texts_of_type(message: Any, kind: str) -> list[Any]:
    content = message["content"]
    return [b for b in content if b["type"] == kind] if isinstance(content, list) else []


def test_chat_clients_spell_their_messages_as_recorded() -> None:
    seen = {}
    for name in CHAT:
        body = played(name, Turn(0), Turn(900, "tool" if load(name).tools else "text"))[-1].body
        call = next((m for m in body["messages"] if "tool_calls" in m), None)
        seen[name] = (
            isinstance(body["messages"][-1]["content"], list),
            isinstance(next(m for m in body["messages"] if m["role"] == "user")["content"], list),
            call and call["content"],
            call and "reasoning_content" in call,
            call and ": " in call["tool_calls"][0]["function"]["arguments"],
            [key for key in body if "max" in key],
        )
    assert seen == {
        "opencode-1.18.33": (False, False, "", True, False, ["max_tokens"]),
        "reasonix-1.38.11": (False, False, None, False, True, ["max_tokens"]),
        "qwen-code-0.15.10": (True, True, "", True, False, ["max_tokens"]),
        "pi-0.73.1": (False, True, None, True, False, ["max_completion_tokens"]),
        "aider-0.86.2": (False, False, None, None, None, ["max_tokens"]),
    }
    assert "max_tokens" not in played("reasonix-1.38.11", Turn(0), shape="full")[0].body


def test_reasonix_repeats_its_environment_on_resuming() -> None:
    before, after = played("reasonix-1.38.11", Turn(0), Resume(), Turn(600, "text"))
    environment = before.body["messages"][1]
    assert after.body["messages"].count(environment) == 2
    assert played("pi-0.73.1", Turn(0), Resume(), Turn(600))[1].body["messages"].count(environment) == 0


@pytest.mark.parametrize("name", [name for name in CLIENTS if load(name).sub_agent])
def test_sub_agents_start_alike_and_share_little_with_their_parent(name: str) -> None:
    sent = played(name, Turn(0), SubAgents(count=2, turns=2))
    agents = [request for request in sent if request.kind == "sub-agent"]
    assert [(a.conversation, a.group) for a in agents] == [
        ("agent-1", agents[0].group), ("agent-2", agents[0].group),
        ("agent-1", agents[2].group), ("agent-2", agents[2].group),
    ]  # fmt: skip
    assert len(agents[0].body["tools"]) <= len(sent[0].body["tools"])
    assert parts(agents[2].body)[: len(parts(agents[0].body))] == parts(agents[0].body)
    agent = load(name).sub_agent
    assert agent is not None
    assert json.dumps(sent[-1].body).count(f'"name": "{agent.call}"') >= 2
    if CLIENTS[name].dialect == "messages":
        assert agents[0].body == agents[1].body
        assert agents[0].headers == sent[0].headers
        if load(name).attribution:
            assert header(agents[0])[:53] != header(sent[0])[:53]
    else:
        assert agents[0].headers["x-parent-session-id"] == sent[0].headers["x-session-id"]
        assert agents[0].headers["x-session-id"] != sent[0].headers["x-session-id"]


def test_a_sub_agent_of_the_newest_version_says_so_in_its_attribution_text() -> None:
    agent = next(r for r in played("claude-code-2.1.332", Turn(0), SubAgents()) if r.kind == "sub-agent")
    assert header(agent).endswith("; cc_is_subagent=true;")


@pytest.mark.parametrize("name", ["claude-code-2.1.116", "claude-code-2.1.116-vscode"])
def test_compaction_keeps_tools_and_system_and_replaces_the_messages(name: str) -> None:
    sent = played(name, Turn(0), Turn(900), Turn(900), Compact(744), Turn(500), shape="full")
    asks, after, later = sent[3:]
    assert asks.kind == "compaction"
    assert asks.body["max_tokens"] == 20_000
    assert len(asks.body["messages"][-1]["content"][-1]["text"]) == 5585
    assert parts(asks.body)[: len(parts(sent[2].body))] == parts(sent[2].body)
    marks = [m["role"] for m in asks.body["messages"] for b in m["content"] if "cache_control" in b]
    assert marks == ["assistant"]
    assert after.body["tools"] == sent[0].body["tools"]
    assert after.body["system"][1:] == sent[0].body["system"][1:]
    assert header(after)[:53] != header(sent[0])[:53], "the suffix follows from what now leads the messages"
    sizes = [len(text) for m in after.body["messages"] for text in texts(m["content"])]
    assert sizes == [129, 109, 306, 744]
    assert [m["role"] for m in later.body["messages"]] == ["user", "user", "assistant", "user"]
    assert parts(later.body)[24:26] == parts(after.body)[24:26]


def test_what_was_not_recorded_is_refused() -> None:
    for name, event, message in (
        ("opencode-1.18.33", Compact(), "compacts was not recorded"),
        ("pi-0.73.1", SubAgents(), "starts no sub-agents"),
        ("pi-0.73.1", LoadTools(), "no deferred tools"),
        ("pi-0.73.1", Side("title"), "sends no side request"),
    ):
        with pytest.raises(ValueError, match=message):
            played(name, Turn(0), event)
    with pytest.raises(ValueError, match="needs a request"):
        played("pi-0.73.1", Retry())


def test_side_requests_are_small_and_share_little() -> None:
    sent = played("claude-code-2.1.116", Side("title"), Turn(0), Side("count_tokens"))
    title, main, *counts = sent
    assert title.path == main.path == "/v1/messages"
    assert len(orjson.dumps(title.body)) < 2_500
    assert header(title) != header(main)
    assert len(counts) == 18
    assert {count.path for count in counts} == {"/v1/messages/count_tokens"}
    assert len({count.group for count in counts}) == 1
    assert any(count.body["messages"] == main.body["messages"] for count in counts)
    assert not any("max_tokens" in count.body for count in counts)


@pytest.mark.parametrize("name", list(CLIENTS))
def test_session_keys_are_where_the_client_puts_them(name: str) -> None:
    sent: Sequence[Request] = played(name)
    keys = {name: [v for k, v in r.headers.items() if "session" in k] for r in sent for name in (r.conversation,)}
    if name.startswith(("claude-code-2.1.1", "claude-code-2.1.2", "claude-code-2.1.3")):
        assert len({value for values in keys.values() for value in values}) == 1
        user = json.loads(sent[-1].body["metadata"]["user_id"]) if "metadata" in sent[-1].body else None
        assert user is None or user["session_id"] == keys["main"][0]
    elif name.startswith("claude-code"):
        assert not any(keys.values())
        main = next(r for r in sent if r.kind == "turn")
        assert re.fullmatch(r"user_[0-9a-f]{64}_account__session_[0-9a-f-]{36}", main.body["metadata"]["user_id"])
    elif not name.startswith("opencode"):
        assert not any(keys.values())


def test_the_same_arguments_give_the_same_day() -> None:
    for name in CLIENTS:
        one, other = (orjson.dumps([[r.path, r.body, r.headers] for r in played(name)]) for _ in range(2))
        assert one == other
