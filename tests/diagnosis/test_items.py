"""A request read piece by piece, in both dialects."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from conformance.diagnosis.items import read_request
from conformance.diagnosis.prompt import Dialect

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"


def encoded(**body: Any) -> bytes:
    return json.dumps(body).encode()


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def test_one_conversation_in_two_dialects_has_the_same_pieces() -> None:
    use = {"type": "tool_use", "id": "i", "name": "n", "input": {"a": 1.0}}
    answer = {"type": "tool_result", "tool_use_id": "i", "content": [text("r1"), text("r2")], "is_error": True}
    native = read_request(
        MESSAGES,
        encoded(
            system=[text("s")],
            messages=[
                {"role": "user", "content": "u"},
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "t"}, text("a"), use]},
                {"role": "user", "content": [answer, text("after")]},
            ],
        ),
    )
    call = {"id": "i", "type": "function", "function": {"name": "n", "arguments": '{"a":1.0}'}}
    translated = read_request(
        CHAT,
        encoded(
            messages=[
                {"role": "developer", "content": "s"},
                {"role": "user", "content": "u"},
                {"role": "assistant", "reasoning_content": "t", "content": "a", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "i", "content": [text("r1"), text("r2")], "is_error": True},
                {"role": "user", "content": "after"},
            ]
        ),
    )
    assert native is not None
    assert translated is not None
    assert (native.dialect, translated.dialect) == (Dialect.MESSAGES, Dialect.CHAT)
    pieces = [[(i.kind, i.text, i.name, i.id, i.error) for i in request.items] for request in (native, translated)]
    assert pieces[0] == pieces[1]
    assert [kind for kind, *_ in pieces[0]] == [
        "system", "user", "thinking", "assistant", "tool call", "tool result", "tool result", "user",
    ]  # fmt: skip


def test_texts_side_by_side_are_one_in_a_rendering() -> None:
    request = read_request(CHAT, encoded(messages=[{"role": "user", "content": [text("a"), text("b")]}]))
    assert request is not None
    assert request.rendering == (("user", 0, "a\nb", ""),)
    assert request.find("b") == (1, 0)
    assert request.find("c") is None


def test_images_are_their_bytes() -> None:
    digest = "sha256:" + hashlib.sha256(b"ABC").hexdigest()
    blocks = [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QU\nJD"}},
        {"type": "image_url", "image_url": "https://example.org/a.png"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,?"}},
    ]
    request = read_request(CHAT, encoded(messages=[{"role": "user", "content": blocks}]))
    assert request is not None
    assert [i.text for i in request.of("image")] == [digest, digest, "https://example.org/a.png", "not base64"]


def test_tools_in_both_forms() -> None:
    schema = {"type": "object"}
    offered = [
        {"name": "a", "description": "d", "input_schema": schema, "defer_loading": True},
        {"type": "function", "function": {"name": "b", "description": "d", "parameters": schema}},
    ]
    request = read_request(CHAT, encoded(messages=[], tools=offered, model="m"))
    assert request is not None
    assert [(t.name, t.description, t.schema, t.deferred) for t in request.tools] == [
        ("a", "d", schema, True),
        ("b", "d", schema, False),
    ]
    assert request.fields == {"model": "m"}


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"messages": 3}', b"\xff", b"nope"],
)
def test_what_is_no_chat_request_is_none(body: bytes) -> None:
    assert read_request(CHAT, body) is None


@pytest.mark.parametrize(
    "message",
    [3, {}, {"role": None}, {"role": "user", "content": 3}, {"role": "user", "content": [3, {"type": 4}, {"text": 5}]},
     {"role": "assistant", "tool_calls": {"a": 1}}, {"role": "assistant", "tool_calls": [3, {"function": 4}]},
     {"role": "user", "content": [{"type": "image"}, {"type": "image_url"}, {"type": "tool_result"}]}],
)  # fmt: skip
def test_odd_messages_are_read_without_an_error(message: Any) -> None:
    request = read_request(CHAT, encoded(messages=[message], tools=[3, {}, {"function": 3}]))
    assert request is not None
    assert isinstance(request.rendering, tuple)
