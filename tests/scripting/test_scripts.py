"""Scripts as data: cuts and trickles keep the bytes, and each dialect's answers are what its SDK reads."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.judgements.stream import sequence_faults
from conformance.scripting import End, Hold, Script, ScriptedReply, Wait, chat, messages
from conformance.scripting.chat import At
from conformance.scripting.content import MISSING, Content, ToolCall
from conformance.scripting.script import Forms, Step
from conformance.wire.chat import DONE, read_completion, read_completion_events
from conformance.wire.messages import read_message, read_message_events
from conformance.wire.sse import SSEParser, stream_event

STEPS = st.lists(st.one_of(st.binary(max_size=6), st.just(Wait(1)), st.just(Hold())), max_size=8)
USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
NATIVE = {"input_tokens": 5, "cache_read_input_tokens": 4, "output_tokens": 3}
CALLS = (ToolCall("a", "look_up", '{"path":"x"}'), ToolCall("b", "list_files", '{"path":"y"}'))
CONTENTS = [
    Content(text="plain words"),
    Content(text="words", reasoning="thoughts"),
    Content(calls=CALLS, finish="tool_calls"),
    Content(text="words", calls=CALLS, finish="tool_calls"),
]


@given(STEPS, st.data())
def test_a_cut_keeps_exactly_the_first_bytes(steps: list[Step], data: st.DataObject) -> None:
    script = Script(steps=tuple(steps))
    at = data.draw(st.integers(0, len(script.body)))
    cut = script.cut(at)
    assert (cut.body, cut.end) == (script.body[:at], End.ABORT)


@given(STEPS, st.integers(1, 9))
def test_a_trickle_keeps_the_bytes(steps: list[Step], size: int) -> None:
    script = Script(steps=tuple(steps))
    slow = script.trickled(size, 0.5)
    assert slow.body == script.body
    assert all(len(step) <= size for step in slow.steps if isinstance(step, bytes))
    assert sum(isinstance(step, Wait) for step in slow.steps) == -(-len(script.body) // size)


@pytest.mark.parametrize("at", [-1, 3])
def test_no_cut_outside_the_body(at: int) -> None:
    with pytest.raises(ValueError, match=f"cannot cut 2 bytes at byte {at}"):
        Script(steps=(b"ab",)).cut(at)


def events(script: Script) -> list[Any]:
    return [stream_event(name, data) for name, data in SSEParser().feed(script.body)]


@pytest.mark.parametrize("content", CONTENTS)
def test_both_chat_forms_say_the_same(content: Content) -> None:
    plain = read_completion(json.loads(chat.completion(content, USAGE).body))
    streamed = read_completion_events(events(chat.stream(content, (USAGE,))))
    assert plain.error is None
    assert (streamed.text, streamed.tool_calls, streamed.stop_reason, streamed.usage) == (
        plain.text, plain.tool_calls, plain.stop_reason, plain.usage,
    )  # fmt: skip
    assert [call[0] for call in plain.tool_calls] == [call.name for call in content.calls]


@pytest.mark.parametrize("content", CONTENTS)
def test_both_messages_forms_say_the_same(content: Content) -> None:
    plain = read_message(json.loads(messages.message(content, NATIVE).body))
    sent = events(messages.stream(content, NATIVE))
    streamed = read_message_events(sent)
    assert sequence_faults(sent) == []
    assert (streamed.text, streamed.tool_calls, streamed.stop_reason, streamed.usage) == (
        plain.text, plain.tool_calls, plain.stop_reason, plain.usage,
    )  # fmt: skip
    assert (plain.usage.prompt, plain.usage.cached, plain.usage.output) == (9, 4, 3)
    anthropic.types.Message.model_validate(json.loads(messages.message(content, NATIVE).body))


def usages(at: At, *given: Any) -> list[Any]:
    """The usage of each chunk; MISSING where a chunk has none."""
    return [c.get("usage", MISSING) for c in chat.chunks(Content(text="two halves"), given, at)]


PLACES: list[tuple[At, tuple[Any, ...], list[Any]]] = [
    (At.EXTRA, (1,), [MISSING] * 4 + [1]),
    (At.EXTRA_EACH, (1, 2), [MISSING] * 4 + [1, 2]),
    (At.FINISH, (1,), [MISSING] * 3 + [1]),
    (At.FINISH_EXTRA, (1, 2), [MISSING] * 3 + [1, 2]),
    (At.CONTENT, (1,), [MISSING] * 2 + [1, MISSING]),
    (At.CONTENT_FINISH, (1, 2), [MISSING] * 2 + [1, 2]),
    (At.EVERY, (1, 2), [1, 1, 2, 2]),
    (At.EXTRA_THEN_NULL, (1,), [MISSING] * 4 + [1, None]),
    (At.NO_CHOICES, (1,), [MISSING] * 4 + [1]),
    (At.BEFORE_FINISH, (1,), [MISSING] * 3 + [1, MISSING]),
    (At.NULLS, (), [None] * 4),
    (At.NEVER, (), [MISSING] * 4),
]


@pytest.mark.parametrize(("at", "given", "expected"), PLACES, ids=[place[0].name for place in PLACES])
def test_usage_stands_where_it_is_put(at: At, given: tuple[Any, ...], expected: list[Any]) -> None:
    assert usages(at, *given) == expected


def test_every_place_is_tried() -> None:
    assert {place[0] for place in PLACES} == set(At)


def test_the_extra_chunk_has_no_choices() -> None:
    assert chat.chunks(Content(text="a"), (1,), At.EXTRA)[-1]["choices"] == []
    assert "choices" not in chat.chunks(Content(text="a"), (1,), At.NO_CHOICES)[-1]


def test_an_answer_that_never_finishes() -> None:
    content = Content(text="words", finish=None)
    assert events(chat.stream(content, (), At.NEVER))[-1].data == DONE
    assert all(c["choices"][0]["finish_reason"] is None for c in chat.chunks(content, (), At.NEVER))
    assert "message_stop" not in [event["type"] for event in messages.events(content, NATIVE)]


@pytest.mark.parametrize(
    ("path", "streamed", "expected"),
    [
        ("/v1/chat/completions", False, b"cp"),
        ("/pool/v1/chat/completions/", True, b"cs"),
        ("/v1/messages", False, b"mp"),
        ("/v1/messages", True, b"ms"),
        ("/v1/messages/count_tokens", False, None),
        ("/v1/completions", False, None),
    ],
)
def test_which_script_answers(path: str, streamed: bool, expected: bytes | None) -> None:
    cp, cs, mp, ms = (Script(steps=(body,)) for body in (b"cp", b"cs", b"mp", b"ms"))
    found = ScriptedReply("r", Forms(cp, cs), Forms(mp, ms)).to(path, streamed=streamed)
    assert (found.body if found is not None else None) == expected
