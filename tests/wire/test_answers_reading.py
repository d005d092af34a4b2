from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stub_target import COMPLETION, MESSAGE, completion_chunks, message_events

from conformance.wire.chat import NO_FINISH, read_completion, read_completion_events
from conformance.wire.endpoint import Endpoint
from conformance.wire.exchange import StreamEvent
from conformance.wire.jsontext import dumps
from conformance.wire.messages import NO_STOP, MessagesSdk, read_message, read_message_events

TOOL_USE = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls", "n": 1.0}}


def as_events(datas: list[dict[str, Any]]) -> list[StreamEvent]:
    return [StreamEvent(data.get("type", ""), data) for data in datas]


def test_a_plain_message() -> None:
    text = {"type": "text", "text": "the answer"}
    answer = read_message({**MESSAGE, "content": [{"type": "thinking", "thinking": "hm"}, text, TOOL_USE]})
    assert (answer.response_id, answer.text, answer.stop_reason) == ("msg_1", "the answer", "end_turn")
    assert answer.tool_calls == (("Bash", '{"command":"ls","n":1.0}'),)
    assert (answer.usage.prompt, answer.usage.cached, answer.error) == (74, 64, None)


def test_a_streamed_message_reads_like_the_plain_one() -> None:
    answer = read_message_events(as_events(message_events(input_tokens=10, cache_read_input_tokens=64)))
    assert (answer.response_id, answer.text, answer.stop_reason) == ("msg_1", "the answer", "end_turn")
    assert (answer.usage.prompt, answer.usage.cached, answer.usage.output) == (74, 64, 5)
    assert answer.start_usage is not None
    assert (answer.start_usage.prompt, answer.error) == (0, None)


def test_streamed_tool_calls_are_joined_by_block() -> None:
    def start(index: int, name: str) -> dict[str, Any]:
        block = {"type": "tool_use", "id": f"t{index}", "name": name, "input": {}}
        return {"type": "content_block_start", "index": index, "content_block": block}

    def piece(index: int, text: str) -> dict[str, Any]:
        delta = {"type": "input_json_delta", "partial_json": text}
        return {"type": "content_block_delta", "index": index, "delta": delta}

    events = message_events()
    events[1:4] = [start(0, "A"), start(1, "B"), piece(1, '{"b":'), piece(0, '{"a":1}'), piece(1, "2}")]
    calls = (("A", '{"a":1}'), ("B", '{"b":2}'))
    assert read_message_events(as_events(events)).tool_calls == calls

    closing = [{"type": "content_block_stop", "index": index} for index in (1, 0)]
    stream = b"".join(
        b"event: %s\ndata: %s\n\n" % (e["type"].encode(), dumps(e)) for e in [*events[:6], *closing, *events[6:]]
    )
    sdk = MessagesSdk(Endpoint(url="http://127.0.0.1:9", api_key=None, timeout_s=5, run_id="x"))
    assert sdk.replay(stream).tool_calls == calls, "the official SDK reads blocks by their index"


def test_a_message_stream_without_its_end_or_with_an_error_event_says_so() -> None:
    whole = message_events()
    assert read_message_events(as_events(whole[:-1])).error == NO_STOP
    error = {"type": "error", "error": {"type": "api_error", "message": "upstream\nbroke"}}
    assert read_message_events(as_events([*whole[:2], error])).error == "error event: upstream broke"


def test_a_plain_completion() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "Bash", "arguments": '{"a": 1.0}'}}
    choice = {"index": 0, "message": {"role": "assistant", "content": None, "tool_calls": [call]}}
    answer = read_completion({**COMPLETION, "choices": [choice | {"finish_reason": "tool_calls"}]})
    assert (answer.text, answer.tool_calls, answer.stop_reason) == ("", (("Bash", '{"a": 1.0}'),), "tool_calls")
    assert (answer.usage.prompt, answer.usage.cached, answer.error) == (74, 64, None)


def test_a_streamed_completion_takes_the_last_usage_and_joins_tool_calls() -> None:
    chunks = completion_chunks(usage={"prompt_tokens": 74, "completion_tokens": 5})
    chunks[0]["usage"] = {"prompt_tokens": 1, "completion_tokens": 0}
    call = {"index": 1, "id": "c", "function": {"name": "Bash", "arguments": '{"a"'}}
    chunks[1]["choices"][0]["delta"]["tool_calls"] = [call, {"index": 1, "function": {"arguments": ": 1}"}}]
    answer = read_completion_events([*as_events(chunks), StreamEvent("", "[DONE]"), StreamEvent("", {"usage": {}})])
    assert (answer.text, answer.stop_reason, answer.usage.prompt) == ("the answer", "stop", 74)
    assert (answer.tool_calls, answer.error) == ((("Bash", '{"a": 1}'),), None)


def test_a_completion_stream_without_its_end_or_with_an_error_says_so() -> None:
    assert read_completion_events(as_events(completion_chunks()[:2])).error == NO_FINISH
    broken = [*as_events(completion_chunks()[:1]), StreamEvent("", {"error": {"message": "upstream broke"}})]
    assert read_completion_events(broken).error == "error event: upstream broke"


@pytest.mark.parametrize("raw", [{"error": {"message": "no"}}, {"type": "error", "error": {"message": "no"}}])
def test_an_error_inside_a_200_is_an_error(raw: dict[str, Any]) -> None:
    assert read_message(raw).error == "an error inside a 200 answer: no"
    assert read_completion(raw).error == "an error inside a 200 answer: no"


WORDS = st.sampled_from(
    ("type", "message", "content", "delta", "usage", "index", "choices", "tool_calls", "function", "error", "text")
)
KINDS = st.sampled_from(
    ("message_start", "content_block_start", "content_block_delta", "message_delta", "input_json_delta", "tool_use")
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS | KINDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=20,
)


@given(st.lists(JSON, max_size=6))
def test_no_answer_however_odd_breaks_the_reading(datas: list[Any]) -> None:
    events = [StreamEvent("", data) for data in datas]
    for answer in (read_message_events(events), read_completion_events(events)):
        assert isinstance(answer.text, str)
    for data in datas:
        for answer in (read_message(data), read_completion(data)):
            assert isinstance(answer.text, str)
