"""Answers as they arrive: times, usage, and everything that can be wrong with a stream."""

from __future__ import annotations

import orjson
import pytest

from load.answers import StreamReading, error_kind, read_plain, text_hash

MESSAGES = [
    {"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 0}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "The fact "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "k1 is v1."}},
    {
        "type": "message_delta",
        "delta": {},
        "usage": {"input_tokens": 4, "cache_read_input_tokens": 5, "output_tokens": 7},
    },
    {"type": "message_stop"},
]
CHAT = [
    {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
    {"choices": [{"delta": {"content": "Hello"}}], "usage": None},
    {"choices": [{"delta": {"content": " you"}}]},
    {
        "choices": [],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 5}},
    },
]


def fed(entry: str, events: list[object], *, done: bool = False, step: float = 1.0) -> StreamReading:
    reading = StreamReading(entry)
    now = 0.0
    for event in events:
        now += step
        data = event if isinstance(event, bytes) else orjson.dumps(event)
        reading.lines(b"event: x\ndata: " + data + b"\n\n", now)
    if done:
        reading.lines(b"data: [DONE]\n", now)
    reading.close()
    return reading


def test_a_messages_stream_gives_times_usage_and_text() -> None:
    reading = fed("messages", list(MESSAGES))
    assert reading.error is None
    assert (reading.first, reading.gap_mean, reading.gap_max) == (3.0, 1.0, 1.0)
    assert reading.text == "The fact k1 is v1."
    usage = reading.usage
    assert (usage.prompt, usage.cached, usage.output) == (9, 5, 7)


def test_a_chat_stream_gives_times_usage_and_text() -> None:
    reading = fed("chat", list(CHAT), done=True)
    assert reading.error is None
    assert (reading.first, reading.gap_mean) == (2.0, 1.0)
    assert reading.text == "Hello you"
    assert (reading.usage.prompt, reading.usage.cached) == (9, 5)


@pytest.mark.parametrize(
    ("entry", "events", "done", "says"),
    [
        ("messages", MESSAGES[:-1], False, "ended before"),
        ("chat", CHAT, False, "ended before"),
        ("chat", [b"{not json"], True, "not JSON"),
        ("messages", [b"[1]"], False, "no JSON object"),
        (
            "messages",
            [{"type": "error", "error": {"type": "overloaded_error", "message": "secret words"}}],
            False,
            "overloaded",
        ),
        ("chat", [{"error": {"code": "boom", "message": "secret words"}}], True, "boom"),
    ],
)
def test_a_stream_that_is_not_as_it_should_be_is_an_error(
    entry: str, events: list[object], done: bool, says: str
) -> None:
    reading = fed(entry, list(events), done=done)
    assert says in str(reading.error)
    assert "secret" not in str(reading.error)


def test_absent_usage_stays_absent() -> None:
    assert fed("chat", CHAT[:3], done=True).usage.prompt is None
    assert fed("messages", [*MESSAGES[1:4], MESSAGES[5]]).usage.cached is None


@pytest.mark.parametrize(
    ("body", "says"),
    [(b"<html>", "not JSON"), (b"[]", "no JSON object"), (b'{"error": {"type": "x"}}', "inside a 200"), (b"{}", None)],
)
def test_plain_answers(body: bytes, says: str | None) -> None:
    assert (says is None) == (read_plain("chat", body).error is None)
    assert says is None or says in str(read_plain("chat", body).error)


def test_errors_are_told_by_their_type_alone() -> None:
    assert error_kind({"error": "some prompt"}) == "of unknown type"
    assert error_kind([1]) == "of unknown type"
    assert text_hash("a") != text_hash("b")
    assert text_hash("\ud800") == text_hash("?"), "a lone surrogate cannot be encoded, and must not stop the run"
