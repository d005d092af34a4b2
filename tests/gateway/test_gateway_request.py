"""Messages requests as chat requests, case by case."""

import json
from typing import Any

import pytest

from reference_gateway.errors import BadRequest
from reference_gateway.jsontext import dumps, parse
from reference_gateway.messages.content import ERROR_MARK
from reference_gateway.messages.request import chat_request

JSONObject = dict[str, Any]
USER = {"role": "user", "content": "hi"}
PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk+/w=="}}
PNG_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk+/w=="}}
MARK = {"cache_control": {"type": "ephemeral"}}


def text(value: str, **members: Any) -> JSONObject:
    return {"type": "text", "text": value, **members}


def tool_use(identifier: str = "toolu_1", name: str = "Bash", arguments: Any = None) -> JSONObject:
    return {"type": "tool_use", "id": identifier, "name": name, "input": arguments or {}}


def tool_result(identifier: str = "toolu_1", content: Any = "out", **members: Any) -> JSONObject:
    return {"type": "tool_result", "tool_use_id": identifier, "content": content, **members}


def translate(**members: Any) -> JSONObject:
    body = {"model": "alias", "max_tokens": 5, "messages": [USER], **members}
    return chat_request(parse(json.dumps(body)).value, model="real", strip_attribution=True)


def one(role: str, content: Any) -> list[JSONObject]:
    messages = translate(messages=[{"role": role, "content": content}])["messages"]
    assert isinstance(messages, list)
    return messages


def tool_message(content: Any, identifier: str = "toolu_1") -> JSONObject:
    return {"role": "tool", "tool_call_id": identifier, "content": content}


@pytest.mark.parametrize(
    ("content", "messages"),
    [
        ("a", [{"role": "user", "content": "a"}]),
        ([text("a")], [{"role": "user", "content": "a"}]),
        ([text("a", **MARK, unknown=1)], [{"role": "user", "content": "a"}]),
        ([text("a", **MARK), text("b")], [{"role": "user", "content": [text("a"), text("b")]}]),
        ([], [{"role": "user", "content": ""}]),
        ([text("a"), PNG | MARK], [{"role": "user", "content": [text("a"), PNG_PART]}]),
        (
            [{"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}],
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]}],
        ),
        (
            [{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}}],
            [{"role": "user", "content": "d"}],
        ),
        (
            [{"type": "document", "source": {"type": "content", "content": [text("d"), PNG]}}],
            [{"role": "user", "content": [text("d"), PNG_PART]}],
        ),
        ([tool_result()], [tool_message("out")]),
        ([tool_result(content=[text("out", **MARK)])], [tool_message("out")]),
        ([tool_result(content=[text("a"), text("b")])], [tool_message([text("a"), text("b")])]),
        ([tool_result(content=[text("a"), PNG])], [tool_message([text("a"), PNG_PART])]),
        ([tool_result(content=None)], [tool_message("")]),
        ([{"type": "tool_result", "tool_use_id": "toolu_1"}], [tool_message("")]),
        ([tool_result(is_error=False)], [tool_message("out")]),
        ([tool_result(is_error=True)], [tool_message(ERROR_MARK + "out")]),
        ([tool_result(content=[text("out")], is_error=True)], [tool_message(ERROR_MARK + "out")]),
        ([tool_result(content=[PNG], is_error=True)], [tool_message([text(ERROR_MARK), PNG_PART])]),
        ([tool_result(content="", is_error=True)], [tool_message(ERROR_MARK)]),
        (
            [text("before"), tool_result("b"), tool_result("a"), text("after")],
            [
                tool_message("out", "b"),
                tool_message("out", "a"),
                {"role": "user", "content": [text("before"), text("after")]},
            ],
        ),
        ([tool_result(), text("next")], [tool_message("out"), {"role": "user", "content": "next"}]),
    ],
)
def test_user_content(content: Any, messages: list[JSONObject]) -> None:
    assert one("user", content) == messages


def call(identifier: str, name: str, arguments: str) -> JSONObject:
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


THINKING = {"type": "thinking", "thinking": "hm", "signature": "s"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a", {"content": "a"}),
        ([text("a", **MARK)], {"content": "a"}),
        ([THINKING, text("a")], {"content": "a"}),
        ([text("a"), {"type": "redacted_thinking", "data": "x"}], {"content": "a"}),
        ([THINKING], {"content": ""}),
        ([], {"content": ""}),
        ([tool_use()], {"content": None, "tool_calls": [call("toolu_1", "Bash", "{}")]}),
        (
            [THINKING, text("a"), tool_use("x", "A", {"q": 1}), text("b"), tool_use("y", "B") | MARK],
            {"content": [text("a"), text("b")], "tool_calls": [call("x", "A", '{"q":1}'), call("y", "B", "{}")]},
        ),
    ],
)
def test_assistant_content(content: Any, message: JSONObject) -> None:
    assert one("assistant", content) == [{"role": "assistant", **message}]


def test_arguments_keep_their_value_to_the_character() -> None:
    arguments = '{"z":1.0,"a":12345678901234567890123,"n":{"k":1e3,"é":"ü\\n\U0001f600"},"l":[-0,0.10]}'
    body = (
        '{"max_tokens":5,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input": '
        + arguments.replace(",", " , ")
        + "}]}]}"
    )
    chat = chat_request(parse(body).value, model="real", strip_attribution=True)
    assert chat["messages"][0]["tool_calls"][0]["function"]["arguments"] == arguments
    assert json.loads(dumps(chat))["messages"][0]["tool_calls"][0]["function"]["arguments"] == arguments


def test_system_messages_stay_where_they_are() -> None:
    messages = [
        USER,
        {"role": "system", "content": [text("late", **MARK)]},
        {"role": "assistant", "content": "ok"},
        {"role": "system", "content": "last"},
    ]
    translated = translate(system=[text("a"), text("b", **MARK)], messages=messages)["messages"]
    assert translated == [
        {"role": "system", "content": "ab"},
        USER,
        {"role": "system", "content": "late"},
        {"role": "assistant", "content": "ok"},
        {"role": "system", "content": "last"},
    ]


@pytest.mark.parametrize("system", [None, "", [], [text("")]])
def test_no_system_text_no_system_message(system: Any) -> None:
    assert translate(system=system)["messages"] == [USER]


def test_tools_keep_order_schema_and_key_order_and_lose_marks() -> None:
    schema = '{"type":"object","$schema":"s","properties":{"z":{"minimum":1.0},"a":{}},"additionalProperties":false}'
    body = (
        '{"max_tokens":5,"messages":[{"role":"user","content":"hi"}],"tools":['
        f'{{"name":"Z","input_schema":{schema},"cache_control":{{"type":"ephemeral"}},"eager_input_streaming":true}},'
        f'{{"description":"d","name":"A","type":"custom","input_schema":{schema},"strict":true}}]}}'
    )
    chat = chat_request(parse(body).value, model="real", strip_attribution=True)
    assert dumps(chat["tools"]).decode() == (
        f'[{{"type":"function","function":{{"name":"Z","parameters":{schema}}}}},'
        f'{{"type":"function","function":{{"name":"A","description":"d","parameters":{schema},"strict":true}}}}]'
    )


def tool(name: str, **members: Any) -> JSONObject:
    return {"name": name, "description": "d", "input_schema": {"type": "object"}, **members}


def test_deferred_tools_move_nothing_and_arrive_where_they_were_found() -> None:
    without = translate(tools=[tool("A"), tool("B")])
    found = [USER, {"role": "assistant", "content": [tool_use()]}]
    reference = {"type": "tool_reference", "tool_name": "D"}
    found.append({"role": "user", "content": [tool_result(content=[reference])]})
    withal = translate(tools=[tool("A"), tool("D", defer_loading=True), tool("B")], messages=found)
    assert withal["tools"] == without["tools"]
    assert withal["messages"][:1] == without["messages"]
    definition = json.loads(withal["messages"][-1]["content"])
    assert definition == {"name": "D", "description": "d", "parameters": {"type": "object"}}


def test_a_reference_to_an_unknown_tool_is_its_name() -> None:
    reference = [{"type": "tool_reference", "tool_name": "gone"}]
    assert one("user", [tool_result(content=reference)]) == [tool_message("gone")]


@pytest.mark.parametrize(
    ("choice", "fields"),
    [
        ({"type": "auto"}, {"tool_choice": "auto"}),
        ({"type": "any"}, {"tool_choice": "required"}),
        ({"type": "none"}, {"tool_choice": "none"}),
        ({"type": "tool", "name": "A"}, {"tool_choice": {"type": "function", "function": {"name": "A"}}}),
        ({"type": "auto", "disable_parallel_tool_use": False}, {"tool_choice": "auto"}),
        (
            {"type": "any", "disable_parallel_tool_use": True},
            {"tool_choice": "required", "parallel_tool_calls": False},
        ),
    ],
)
def test_tool_choice(choice: JSONObject, fields: JSONObject) -> None:
    chat = translate(tools=[tool("A")], tool_choice=choice)
    assert {name: chat[name] for name in ("tool_choice", "parallel_tool_calls") if name in chat} == fields


def test_auto_and_none_without_tools_say_nothing() -> None:
    for kind in ("auto", "none"):
        assert "tool_choice" not in translate(tool_choice={"type": kind, "disable_parallel_tool_use": True})
    assert translate(tool_choice={"type": "any"})["tool_choice"] == "required"


def test_controls_have_their_fields_and_nothing_else_is_added() -> None:
    chat = translate(
        temperature=1.0,
        top_p=0.5,
        top_k=40,
        stop_sequences=["a", "b"],
        metadata={"user_id": "u"},
        cache_salt="s",
        prompt_cache_key="k",
        output_config={"effort": "high", "format": {"type": "json_schema", "schema": {"type": "object"}}},
        thinking={"type": "adaptive"},
        context_management={"edits": []},
        service_tier="auto",
        stream=True,
    )
    assert chat == {
        "model": "real",
        "messages": [USER],
        "max_tokens": 5,
        "temperature": 1.0,
        "top_p": 0.5,
        "top_k": 40,
        "stop": ["a", "b"],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "output", "schema": {"type": "object"}, "strict": True},
        },
        "user": "u",
        "cache_salt": "s",
        "prompt_cache_key": "k",
    }
    assert b'"temperature":1.0,' in dumps(chat)
    assert translate(metadata={}) == {"model": "real", "messages": [USER], "max_tokens": 5}


BASE64_PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "x"}}


@pytest.mark.parametrize(
    ("members", "complaint"),
    [
        ({"messages": []}, "messages: must hold"),
        ({"messages": "hi"}, "messages: must be a list, not a string"),
        ({"messages": [1]}, "messages.0: must be an object, not a number"),
        ({"messages": [{"content": "x"}]}, "messages.0.role: is required"),
        ({"messages": [{"role": "user"}]}, "messages.0.content: is required"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role: must be user"),
        ({"messages": [{"role": "user", "content": None}]}, "messages.0.content: must be a string or a list"),
        ({"messages": [{"role": "user", "content": ["x"]}]}, "messages.0.content.0: must be an object"),
        ({"messages": [{"role": "user", "content": [{}]}]}, "messages.0.content.0.type: is required"),
        ({"messages": [{"role": "user", "content": [text(3)]}]}, "content.0.text: must be a string"),  # type: ignore[arg-type]
        ({"messages": [{"role": "user", "content": [tool_use()]}]}, "a 'tool_use' block cannot be sent"),
        ({"messages": [{"role": "user", "content": [{"type": "bad type!"}]}]}, "a block cannot be sent"),
        ({"messages": [{"role": "user", "content": [BASE64_PDF]}]}, "source.type: must be text or content"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "content.0.source: is required"),
        ({"messages": [{"role": "assistant", "content": [PNG]}]}, "'image' block cannot be sent"),
        ({"messages": [{"role": "system", "content": [PNG]}]}, "'image' block cannot be sent"),
        (
            {"messages": [{"role": "assistant", "content": [tool_use(arguments=[1])]}]},
            "content.0.input: must be an object, not a list",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, "tool_use_id: is required"),
        ({"messages": [{"role": "user", "content": [tool_result(is_error="yes")]}]}, "is_error: must be true or"),
        ({"system": 3}, "system: must be a string or a list"),
        ({"system": [PNG]}, "system.0.type: must be text"),
        ({"tools": {}}, "tools: must be a list, not an object"),
        ({"tools": [{"name": "a"}]}, "tools.0.input_schema: is required"),
        ({"tools": [{"type": "web_search_20250305", "name": "a"}]}, "tools.0.type: tools that run at Anthropic"),
        ({"tool_choice": "auto"}, "tool_choice: must be an object, not a string"),
        ({"tool_choice": {"type": "all"}}, "tool_choice.type: must be auto"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.name: is required"),
        ({"max_tokens": None}, "max_tokens: must be an integer, not null"),
        ({"max_tokens": "5"}, "max_tokens: must be an integer, not a string"),
        ({"max_tokens": 1.5}, "max_tokens: must be an integer, not a number"),
        ({"max_tokens": True}, "max_tokens: must be an integer, not a boolean"),
        ({"max_tokens": 0}, "max_tokens: must be 1 or more"),
        ({"temperature": "hot"}, "temperature: must be a number"),
        ({"stop_sequences": "x"}, "stop_sequences: must be a list"),
        ({"stop_sequences": [1]}, "stop_sequences.0: must be a string"),
        ({"metadata": 1}, "metadata: must be an object"),
        ({"output_config": {"format": {"type": "xml"}}}, "output_config.format.type: must be json_schema"),
    ],
)
def test_what_cannot_be_translated_is_refused_with_its_place(members: JSONObject, complaint: str) -> None:
    with pytest.raises(BadRequest) as caught:
        translate(**members)
    assert caught.value.status == 400
    assert complaint in caught.value.message


def test_missing_fields_are_named() -> None:
    with pytest.raises(BadRequest, match="max_tokens: is required"):
        chat_request({"messages": [USER]}, model="m", strip_attribution=False)
    with pytest.raises(BadRequest, match="messages: is required"):
        chat_request({"max_tokens": 1}, model="m", strip_attribution=False)


def test_a_growing_session_only_appends() -> None:
    turns = [
        [text("first", **MARK)],
        [text("a"), tool_use("t1", "A", {"x": 1}), tool_use("t2", "B")],
        [tool_result("t2"), tool_result("t1", content=[text("x")], **MARK), text("also")],
        [THINKING, text("b")],
        [text("second"), text("third", **MARK)],
    ]
    earlier: list[JSONObject] = []
    for length in (1, 3, 5):
        sent: list[JSONObject] = []
        for number, blocks in enumerate(turns[:length]):
            role = "assistant" if number % 2 else "user"
            plain: Any = blocks
            if number < length - 1:
                # The client's mark has moved on, and a one-text list without it is sent as a string.
                plain = [{key: value for key, value in block.items() if key != "cache_control"} for block in blocks]
                if len(plain) == 1 and plain[0]["type"] == "text":
                    plain = plain[0]["text"]
            sent.append({"role": role, "content": plain})
        translated = translate(system="s", messages=sent)["messages"]
        assert translated[: len(earlier)] == earlier
        assert len(translated) > len(earlier)
        earlier = translated
