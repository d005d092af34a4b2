"""Each fault of translation changes what it says, and leaves a body without its occasion alone."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from reference_gateway import FAULTS
from reference_gateway.faults.translation import TRANSLATION
from reference_gateway.jsontext import dumps
from reference_gateway.messages.request import chat_request
from reference_gateway.seams import JSONObject, Mutations

HEADER = "x-anthropic-billing-header: cc_version=2.1.116.d8c; cc_entrypoint=cli; cch=0a1b2;"
NAMES = ("zoom", "find")
SCHEMA = {"type": "object", "properties": {"b": {}, "a": {}}}


def tool(name: str, **more: Any) -> JSONObject:
    return {"name": name, "input_schema": SCHEMA, **more}


def chat(body: JSONObject) -> JSONObject:
    translated: JSONObject = json.loads(dumps(chat_request(body, model="real", strip_attribution=False)))
    return translated


def through(fault: str, body: JSONObject) -> JSONObject:
    """What a Messages body becomes under a fault that reaches into the chat body."""
    received = dumps(body)
    mutations: Mutations = FAULTS[fault].mutations(received)
    upstream = json.loads(dumps(mutations.chat_body(chat(body))))
    assert isinstance(upstream, dict)
    return upstream


def body_of(*messages: JSONObject, system: Any = None, **more: Any) -> JSONObject:
    body: JSONObject = {"model": "alias", "max_tokens": 9, "messages": list(messages) or [user("hi")], **more}
    return body if system is None else {**body, "system": system}


def user(content: Any) -> JSONObject:
    return {"role": "user", "content": content}


def assistant(*blocks: JSONObject) -> JSONObject:
    return {"role": "assistant", "content": list(blocks)}


def call(name: str, value: JSONObject, id_: str) -> JSONObject:
    return {"type": "tool_use", "id": id_, "name": name, "input": value}


def result(id_: str, content: Any, **more: Any) -> JSONObject:
    return {"type": "tool_result", "tool_use_id": id_, "content": content, **more}


def blocks(*texts: str) -> list[JSONObject]:
    return [{"type": "text", "text": text} for text in texts]


def systems(body: JSONObject) -> list[str]:
    return [message["content"] for message in body["messages"] if message["role"] == "system"]


CALLS = (
    user("go"),
    assistant(call("zoom", {"b": 1, "a": 12345678901234567890}, "i1"), call("find", {}, "i2")),
    user([result("i2", blocks("two")), result("i1", "one", is_error=True), *blocks("then")]),
)


@pytest.mark.parametrize(
    ("fault", "system", "kept"),
    [
        ("strip-blocks-only", f"{HEADER}\nA", f"{HEADER}\nA"),
        ("strip-blocks-only", blocks(HEADER, "A"), "A"),
        ("strip-whole-lines-only", f"{HEADER}A", f"{HEADER}A"),
        ("strip-whole-lines-only", f"{HEADER}\nA", "A"),
        (
            "strip-with-hash-only",
            blocks(HEADER.replace(" cch=0a1b2;", ""), "A"),
            HEADER.replace(" cch=0a1b2;", "") + "A",
        ),
        ("strip-with-hash-only", blocks(HEADER, "A"), "A"),
        ("strip-known-keys-only", blocks(f"{HEADER} cc_x=1;", "A"), f"{HEADER} cc_x=1;A"),
        ("strip-known-keys-only", blocks(HEADER, "A"), "A"),
        ("strip-hash-only", blocks(HEADER, "A"), HEADER.replace(" cch=0a1b2;", "") + "A"),
        ("drop-headed-system", f"A\n{HEADER}", f"A\n{HEADER}"),
        ("strip-mid-system", f"A\n{HEADER}\nB", "A\n\nB"),
        ("strip-from-messages", f"A\n{HEADER}", f"A\n{HEADER}"),
    ],
)
def test_what_becomes_of_the_system_text(fault: str, system: Any, kept: str) -> None:
    assert systems(through(fault, body_of(system=system))) == [kept]


def test_a_headed_string_is_dropped_whole() -> None:
    assert systems(through("drop-headed-system", body_of(system=f"{HEADER}\nA"))) == []


@pytest.mark.parametrize("system", [f"{HEADER}\nA", blocks(HEADER, "A")])
def test_an_override_hides_the_head_of_a_string_only(system: Any) -> None:
    [text] = systems(through("system-prompt-override", body_of(system=system)))
    assert text.startswith("You serve the platform")
    assert text.endswith("A")
    assert (HEADER in text) == isinstance(system, str)


def test_users_and_tools_may_not_mention_it() -> None:
    said = through("strip-from-messages", body_of(user(f"see {HEADER}!"), user([result("i", f"{HEADER}x")])))
    assert [message["content"] for message in said["messages"]] == ["see !", "x"]


def test_a_passed_through_body_is_the_clients_own() -> None:
    body = body_of(*CALLS, system="A", tools=[tool("zoom"), tool("find")])
    assert through("pass-through-body", body) == {**body, "model": "real"}


def native(fault: str, body: JSONObject) -> JSONObject:
    before = copy.deepcopy(body)
    changed = FAULTS[fault].mutations(b"").native_body(body)
    assert body == before
    return changed


def test_towards_a_messages_upstream() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    system = [*blocks(HEADER), {**blocks("A")[0], **mark}]
    body = body_of(system=system)
    assert native("native-merge-system", body)["system"] == f"{HEADER}\nA"
    assert native("native-strip-billing", body)["system"] == system[1:]
    assert native("native-drop-marks", body)["system"] == blocks(HEADER, "A")
    plain = body_of(system="A")
    assert [native(f, plain) for f in ("native-merge-system", "native-strip-billing", "native-drop-marks")] == [
        plain
    ] * 3


def test_later_system_messages() -> None:
    body = body_of(user("one"), {"role": "system", "content": "note"}, user("two"), system="head")
    assert [m["content"] for m in through("hoist-system", body)["messages"]] == ["head\n\nnote", "one", "two"]
    assert [m["content"] for m in through("drop-later-system", body)["messages"]] == ["head", "one", "two"]


def test_forms() -> None:
    body = body_of(user(blocks("listed")), assistant(*blocks("said")), user("string"))
    said = [m["content"] for m in through("list-texts-end-lines", body)["messages"]]
    assert said == ["listed\n", "said\n", "string"]
    encoded = through("encode-list-results", body_of(*CALLS, tools=[tool("zoom"), tool("find")]))
    results = [m["content"] for m in encoded["messages"] if m["role"] == "tool"]
    assert json.loads(results[0]) == blocks("two")
    assert results[1] == "[tool error] one"


def test_results() -> None:
    body = body_of(*CALLS, tools=[tool("zoom"), tool("find")])
    roles = [m["role"] for m in through("text-before-results", body)["messages"]]
    assert roles == ["user", "assistant", "user", "tool", "tool"]
    contents = [m["content"] for m in through("lose-error-flag", body)["messages"] if m["role"] == "tool"]
    assert contents == ["two", "one"]
    reversed_ = [m["tool_call_id"] for m in through("reverse-results", body)["messages"] if m["role"] == "tool"]
    assert reversed_ == ["i1", "i2"]
    old = body_of(*CALLS, assistant(*blocks("ok")), user("next"), assistant(*blocks("ok")), user("next"))
    for messages, order in ((body, ["i2", "i1"]), (old, ["i1", "i2"])):
        said = through("sort-old-results", messages)["messages"]
        assert [m["tool_call_id"] for m in said if m["role"] == "tool"] == order


def test_call_ids_are_new_each_time_and_pair() -> None:
    one, two = (through("random-call-ids", body_of(*CALLS)) for _ in range(2))
    ids = [[c["id"] for c in said["messages"][1]["tool_calls"]] for said in (one, two)]
    assert ids[0] != ids[1]
    assert [m["tool_call_id"] for m in one["messages"][2:4]] == ids[0][::-1]


def test_arguments() -> None:
    def arguments(fault: str, *more: JSONObject) -> str:
        said = through(fault, body_of(*CALLS, *more))
        text = said["messages"][1]["tool_calls"][0]["function"]["arguments"]
        assert isinstance(text, str)
        return text

    assert arguments("numbers-through-doubles") == '{"b":1,"a":12345678901234567168}'
    assert arguments("sort-keys") == '{"a": 12345678901234567890, "b": 1}'
    assert arguments("respell-old-arguments") == '{"b":1,"a":12345678901234567890}'
    more = [assistant(*blocks("ok")), user("next")] * 3
    assert arguments("respell-old-arguments", *more) == '{"b": 1, "a": 12345678901234567890}'


def test_reasoning_and_long_results() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    body = body_of(user("a"), assistant({**thought, "thinking": "old"}), user("b"), assistant(thought), user("c"))
    said = through("thinking-of-last-answer", body)["messages"]
    assert [message.get("reasoning_content") for message in said] == [None, None, None, "hm", None]
    long = "x" * 3_600
    last = through("truncate-old-results", body_of(user([result("i", long)])))["messages"]
    assert last[0]["content"] == long
    earlier = through("truncate-old-results", body_of(user([result("i", long)]), user("next")))["messages"]
    assert earlier[0]["content"] == long[:1_000]


def test_pictures_and_marks() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
    body = body_of(user([picture, *blocks("what?")]))
    assert through("images-as-text", body)["messages"][0]["content"][0] == blocks("data:image/png;base64,QUJD")[0]
    assert through("drop-images", body)["messages"][0]["content"] == blocks("what?")
    anew = through("reencode-images", body)["messages"][0]["content"][0]["image_url"]["url"]
    assert anew == "data:image/png;base64,QUJDCg=="
    mark = {"cache_control": {"type": "ephemeral"}}
    marked = body_of(user([{**blocks("hi")[0], **mark}]), tools=[tool("zoom", **mark), tool("find")])
    assert through("marks-in-text", marked)["messages"][0]["content"] == "hi (cache_control: ephemeral)"
    assert [sorted(t) for t in through("marks-in-tools", marked)["tools"]] == [
        ["cache_control", "function", "type"],
        ["function", "type"],
    ]


def test_tools() -> None:
    def offered(fault: str, body: JSONObject) -> list[str]:
        return [t["function"]["name"] for t in through(fault, body)["tools"]]

    deferred = [tool("zoom"), tool("later", defer_loading=True), tool("find")]
    reference = user([result("i", [{"type": "tool_reference", "tool_name": "later"}])])
    before, after = body_of(tools=deferred), body_of(reference, tools=deferred)
    assert offered("sort-tools", before) == ["find", "zoom"]
    assert offered("own-tool", before) == ["zoom", "find", "platform_search"]
    assert offered("list-deferred", before) == ["zoom", "later", "find"]
    assert offered("insert-found", before) == ["zoom", "find"]
    assert offered("insert-found", after) == ["zoom", "later", "find"]
    long = body_of(*[user("a"), assistant(*blocks("b"))] * 3, tools=deferred)
    assert offered("tool-inserted-late", before) == ["zoom", "find"]
    assert offered("tool-inserted-late", long) == ["zoom", "platform_search", "find"]
    keys = through("sort-keys", before)["tools"][0]["function"]["parameters"]
    assert list(keys["properties"]) == ["a", "b"]


def test_blank_lines() -> None:
    assert systems(through("collapse-blank-lines", body_of(system="a\n\n\nb\nc"))) == ["a\nb\nc"]


def test_fields() -> None:
    body = body_of(
        system="A", stop_sequences=["x"], top_k=7, cache_salt="s", prompt_cache_key="k", tools=[tool("zoom")],
        tool_choice={"type": "any"}, output_config={"effort": "high"},
    )  # fmt: skip
    clean = chat(body)
    for fault, member in (
        ("drop-stop", "stop"),
        ("drop-top-k", "top_k"),
        ("drop-cache-salt", "cache_salt"),
        ("drop-cache-key", "prompt_cache_key"),
    ):
        assert through(fault, body) == {name: value for name, value in clean.items() if name != member}
    assert through("choice-any", body) == {**clean, "tool_choice": "any"}
    assert through("own-temperature", body) == {**clean, "temperature": 0.2}
    assert through("own-temperature", body_of(temperature=1))["temperature"] == 1
    assert through("random-cache-salt", body)["cache_salt"] == "s"
    salts = {through("random-cache-salt", body_of())["cache_salt"] for _ in range(3)}
    assert len(salts) == 3
    one, two = (through("key-from-body", body_of(user(text)))["prompt_cache_key"] for text in ("a", "b"))
    assert one != two
    assert through("alias-parameters", body)["chat_template_kwargs"] == {"thinking": True}
    assert through("alias-parameters", {**body, "model": "real"}) == clean
    assert systems(through("effort-in-system", body)) == ["Reasoning effort: high.\nA"]
    assert systems(through("effort-in-system", body_of(system="A"))) == ["A"]


def test_notes_made_from_the_session_or_the_body() -> None:
    def note(fault: str, body: JSONObject) -> str:
        return systems(through(fault, body))[0].partition("\n")[0]

    first, later = body_of(user("a"), system="A"), body_of(user("a"), user("b"), system="A")
    assert note("session-note", first) == note("session-note", later)
    assert note("session-note", first) != note("session-note", body_of(user("other"), system="A"))
    assert note("messages-body-hash", first) == note("messages-body-hash", copy.deepcopy(first))
    assert note("messages-body-hash", first) != note("messages-body-hash", later)
    chat_client = dumps({"model": "alias", "messages": [{"role": "user", "content": "a"}]})
    body = {"model": "real", "messages": [{"role": "user", "content": "a"}]}
    assert FAULTS["messages-body-hash"].mutations(chat_client).chat_body(body) == body


def roles(fault: str) -> list[str]:
    calling = assistant(*blocks("let me look"), call("Read", {}, "t1"))
    body = body_of(user("a"), assistant(*blocks("b")), user("c"), calling, user([result("t1", "d")]), system="S")
    return [message["role"] for message in through(fault, body)["messages"]]


def test_texts_in_anothers_mouth() -> None:
    assert roles("assistant-as-user") == ["system", "user", "user", "user", "assistant", "tool"]
    assert roles("user-as-assistant") == ["system", "user", "assistant", "assistant", "assistant", "tool"]


WITHOUT_OCCASION = {"own-temperature", "random-cache-salt", "key-from-body", "session-note", "system-prompt-override",
                    "pass-through-body", "alias-parameters", "messages-body-hash", "assistant-as-user",
                    "user-as-assistant"}  # fmt: skip


@pytest.mark.parametrize("fault", [fault.name for fault in TRANSLATION if fault.name not in WITHOUT_OCCASION])
def test_a_plain_request_is_left_alone(fault: str) -> None:
    body = body_of(user("hi"), assistant(*blocks("hello")), user("go on"), system="A")
    expected = chat(body)
    if fault == "list-texts-end-lines":
        expected["messages"][2]["content"] += "\n"
    assert through(fault, body) == expected
