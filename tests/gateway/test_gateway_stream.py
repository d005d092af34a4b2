"""Chat chunks as Messages events, without HTTP; and the plain answer beside them."""

from typing import Any

import pytest
from gateway_rig import USAGE, JSONObject, call, chunk, completion, usage_chunk

from reference_gateway.counts import read_counts
from reference_gateway.errors import UpstreamBroken
from reference_gateway.jsontext import dumps
from reference_gateway.messages.response import messages_response, tool_input
from reference_gateway.messages.stream import MessagesStream
from reference_gateway.messages.usage import messages_usage


def events_for(*chunks: Any, thinking: bool = True, stops: list[str] | None = None) -> list[JSONObject]:
    stream = MessagesStream(
        model="alias",
        stops=stops or [],
        thinking=thinking,
        start_usage={"input_tokens": 0, "output_tokens": 0},
        final_usage=lambda raw: messages_usage(read_counts(raw), exclude_cache=True),
    )
    events = [event for piece in chunks for event in stream.feed(piece)]
    return events + stream.end()


def accumulated(events: list[JSONObject]) -> list[JSONObject]:
    """The content blocks, checking that each is opened, filled and closed before the next."""
    blocks: list[JSONObject] = []
    open_index = None
    for event in events:
        if event["type"] == "content_block_start":
            assert open_index is None
            assert event["index"] == len(blocks)
            open_index = event["index"]
            blocks.append(dict(event["content_block"]))
            if blocks[-1]["type"] == "tool_use":
                blocks[-1]["json"] = ""
        elif event["type"] == "content_block_delta":
            assert event["index"] == open_index
            delta = event["delta"]
            key = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "json"}[delta["type"]]
            blocks[-1][key] += delta.get("partial_json", delta.get(key))
        elif event["type"] == "content_block_stop":
            assert event["index"] == open_index
            open_index = None
    assert open_index is None
    return blocks


def tool_piece(
    index: int | None, arguments: str | None = None, identifier: str | None = None, name: str | None = None
) -> JSONObject:
    piece: JSONObject = {"function": {}}
    if index is not None:
        piece["index"] = index
    if identifier is not None:
        piece |= {"id": identifier, "type": "function"}
    if name is not None:
        piece["function"]["name"] = name
    if arguments is not None:
        piece["function"]["arguments"] = arguments
    return piece


def tools(*pieces: JSONObject) -> JSONObject:
    return chunk({"tool_calls": list(pieces)})


DONE = (chunk({}, "tool_calls"), usage_chunk())


def blocks_without_ids(*chunks: JSONObject) -> list[tuple[str, str]]:
    found = accumulated(events_for(*chunks, *DONE))
    return [(str(block.get("name", block["type"])), str(block.get("json", block.get("text")))) for block in found]


def test_thinking_text_and_a_call_each_have_their_index() -> None:
    events = events_for(
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "h"}),
        chunk({"reasoning": "m"}),
        chunk({"content": "te"}),
        chunk({"content": "xt"}),
        tools(tool_piece(0, "", "id0", "Bash")),
        tools(tool_piece(0, '{"a":')),
        tools(tool_piece(0, "1.0}")),
        *DONE,
    )
    assert accumulated(events) == [
        {"type": "thinking", "thinking": "hm", "signature": ""},
        {"type": "text", "text": "text"},
        {"type": "tool_use", "id": "id0", "name": "Bash", "input": {}, "json": '{"a":1.0}'},
    ]
    assert events[-2]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None, "stop_details": None}


def test_parallel_calls_one_after_the_other() -> None:
    assert blocks_without_ids(
        tools(tool_piece(0, "", "a", "A")),
        tools(tool_piece(0, '{"x":1}')),
        tools(tool_piece(1, '{"y"', "b", "B")),
        tools(tool_piece(1, ":2}")),
    ) == [("A", '{"x":1}'), ("B", '{"y":2}')]


def test_a_call_is_streamed_as_it_comes_once_the_one_before_is_whole() -> None:
    stream = MessagesStream("m", [], False, {}, lambda _: {})
    stream.feed(tools(tool_piece(0, '{"x":1}', "a", "A")))
    kinds = [event["type"] for event in stream.feed(tools(tool_piece(1, '{"y"', "b", "B")))]
    assert kinds == ["content_block_stop", "content_block_start", "content_block_delta"]


def test_interleaved_calls_are_put_in_order() -> None:
    assert blocks_without_ids(
        tools(tool_piece(0, None, "a", "A"), tool_piece(1, None, "b", "B")),
        tools(tool_piece(1, '{"y"')),
        tools(tool_piece(0, '{"x"')),
        tools(tool_piece(1, ":2}"), tool_piece(0, ":1}")),
    ) == [("A", '{"x":1}'), ("B", '{"y":2}')]


def test_calls_without_arguments_or_index() -> None:
    assert blocks_without_ids(tools(tool_piece(0, "", "a", "A")), tools(tool_piece(1, "{}", "b", "B"))) == [
        ("A", ""),
        ("B", "{}"),
    ]
    assert blocks_without_ids(
        tools(tool_piece(None, '{"x"', "a", "A")),
        tools(tool_piece(None, ":1}")),
        tools(tool_piece(None, "{}", "b", "B")),
    ) == [("A", '{"x":1}'), ("B", "{}")]


def test_text_after_a_call_is_a_block_of_its_own() -> None:
    assert blocks_without_ids(
        chunk({"content": "one"}), tools(tool_piece(0, "{}", "a", "A")), chunk({"content": "two"})
    ) == [("text", "one"), ("A", "{}"), ("text", "two")]


def test_a_call_without_an_id_gets_one_that_a_replay_repeats() -> None:
    chunks = (tools(tool_piece(0, "{}", None, "A")), tools(tool_piece(1, "{}", None, "B")), *DONE)
    first, again = accumulated(events_for(*chunks)), accumulated(events_for(*chunks))
    assert [block["id"] for block in first] == [block["id"] for block in again]
    assert first[0]["id"] != first[1]["id"]


def test_reasoning_is_left_out_for_clients_that_did_not_ask() -> None:
    chunks = (chunk({"reasoning_content": "h"}), chunk({"content": "t"}), chunk({}, "stop"))
    assert accumulated(events_for(*chunks, thinking=False)) == [{"type": "text", "text": "t"}]


def test_an_empty_answer_has_no_blocks() -> None:
    events = events_for(chunk({"role": "assistant", "content": ""}), chunk({}, "stop"))
    assert [event["type"] for event in events] == ["message_start", "message_delta", "message_stop"]


def test_a_refusal_is_text() -> None:
    assert accumulated(events_for(chunk({"refusal": "no"}), chunk({}, "content_filter"))) == [
        {"type": "text", "text": "no"}
    ]


def test_a_stop_sequence_is_named() -> None:
    finish = chunk({}, "stop")
    finish["choices"][0]["stop_reason"] = "END"
    assert events_for(finish, stops=["END"])[-2]["delta"] == {
        "stop_reason": "stop_sequence",
        "stop_sequence": "END",
        "stop_details": None,
    }


def test_without_a_finish_reason_there_is_no_end() -> None:
    with pytest.raises(UpstreamBroken, match="before the answer was finished"):
        events_for(chunk({"content": "x"}), usage_chunk())


def test_an_upstream_that_says_it_aborted_did_not_finish() -> None:
    with pytest.raises(UpstreamBroken, match="did not finish"):
        events_for(chunk({"content": "x"}), chunk({}, "abort"))


def test_a_call_without_a_name_is_refused() -> None:
    with pytest.raises(UpstreamBroken, match="without a name"):
        events_for(tools(tool_piece(0, "{}", "a")), *DONE)


@pytest.mark.parametrize("odd", [{"choices": [None]}, {"choices": None}, {"choices": [{"delta": None}]}, {}])
def test_odd_chunks_are_passed_over(odd: JSONObject) -> None:
    assert accumulated(events_for(odd, chunk({"content": "x"}), chunk({}, "stop"))) == [{"type": "text", "text": "x"}]


def plain(reply: Any, *, thinking: bool = True) -> JSONObject:
    return messages_response(reply, model="alias", usage={}, stops=["END"], thinking=thinking)


def test_a_plain_answer_with_calls() -> None:
    reply = completion(None, finish="tool_calls", calls=[call("a", "A", '{"x":1.0}'), call("b", "B", "")]).body
    answer = plain(reply)
    assert answer["stop_reason"] == "tool_use"
    assert dumps(answer["content"]) == (
        b'[{"type":"tool_use","id":"a","name":"A","input":{"x":1.0}},'
        b'{"type":"tool_use","id":"b","name":"B","input":{}}]'
    )


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ("{}", {}),
        ("", {}),
        (None, {}),
        ({"a": 1}, {"a": 1}),
        ('{"a": "cut', {"INVALID_JSON": '{"a": "cut'}),
        ("[1]", {"INVALID_JSON": "[1]"}),
    ],
)
def test_tool_arguments_as_input(arguments: Any, value: JSONObject) -> None:
    assert tool_input(arguments) == value


def test_content_parts_reasoning_and_stop_sequences_in_a_plain_answer() -> None:
    reply = completion("x", stop_reason="END").body
    reply["choices"][0]["message"] |= {"content": [{"type": "text", "text": "a"}, {"text": "b"}], "reasoning": "r"}
    answer = plain(reply)
    assert answer["content"] == [
        {"type": "thinking", "thinking": "r", "signature": ""},
        {"type": "text", "text": "ab"},
    ]
    assert (answer["stop_reason"], answer["stop_sequence"]) == ("stop_sequence", "END")


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [],
        {},
        {"choices": []},
        {"choices": [{"finish_reason": "stop"}]},
        completion(finish=None).body,
        completion(finish="abort").body,
        completion(None, calls=[{"id": "a"}]).body,
    ],
)
def test_what_is_no_finished_completion_is_refused(wrong: Any) -> None:
    with pytest.raises(UpstreamBroken):
        plain(wrong)


def test_plain_and_streamed_answers_agree() -> None:
    reply = completion("text", finish="tool_calls", calls=[call("a", "A", '{"x":[1,2]}'), call("b", "B", "{}")]).body
    streamed = events_for(
        chunk({"content": "te"}),
        chunk({"content": "xt"}),
        tools(tool_piece(0, '{"x":', "a", "A")),
        tools(tool_piece(0, "[1,2]}")),
        tools(tool_piece(1, "{}", "b", "B")),
        *DONE,
    )
    blocks = accumulated(streamed)
    for block in blocks:
        if block["type"] == "tool_use":
            block["input"] = tool_input(block.pop("json"))
    answer = plain(reply)
    assert blocks == answer["content"]
    assert streamed[0]["message"]["id"] == answer["id"]
    assert streamed[-2]["delta"]["stop_reason"] == answer["stop_reason"]
    assert streamed[-2]["usage"] == messages_usage(read_counts(USAGE), exclude_cache=True)
