"""Bodies against the request types of the official SDKs, and against the signatures they are passed to."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from anthropic.resources.messages import Messages
from anthropic.types.beta.message_create_params import MessageCreateParamsNonStreaming as BetaMessage
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming as Message
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming as Completion
from pydantic import TypeAdapter, ValidationError

from conformance.sessions import ChatCodingSession, ClaudeCodeSession, dual_text_request


def check(request_type: Any, body: dict[str, Any]) -> None:
    """Validate `body`, the lazily checked lists included, and refuse keys the type does not know."""
    assert set(body) <= request_type.__required_keys__ | request_type.__optional_keys__
    # Lists are validated while they are read, and need their adapter alive until then.
    adapter = TypeAdapter(request_type)
    _exhaust(adapter.validate_python(body))


def _exhaust(value: Any) -> None:
    if isinstance(value, str | bytes):
        return
    if isinstance(value, Mapping):
        for item in value.values():
            _exhaust(item)
    elif isinstance(value, Iterable):
        for item in value:
            _exhaust(item)


@pytest.mark.parametrize(
    "options", [{}, {"cache_control": False}, {"string_system": True}, {"attribution": "constant"}]
)
def test_claude_code_bodies_are_messages_requests(options: dict[str, Any]) -> None:
    s = ClaudeCodeSession(seed="sdk", salt="pp-sdk-1", **options)
    for _ in range(3):
        check(Message, s.body())
        s.grow(700)


def test_full_claude_code_bodies_need_the_beta_request() -> None:
    s = ClaudeCodeSession(seed="sdk", salt="pp-sdk-1", shape="full")
    s.grow(700)
    check(BetaMessage, s.body())


def test_scaled_bodies_fit_the_sdk_s_own_method() -> None:
    body = ClaudeCodeSession(seed="sdk", salt="pp-sdk-1").body()
    inspect.signature(Messages.create).bind(None, **body)


def test_chat_bodies_are_completion_requests() -> None:
    s = ChatCodingSession(seed="sdk", salt="pp-sdk-1")
    for _ in range(3):
        check(Completion, s.body())
        s.grow(700)


def test_text_only_bodies_fit_both() -> None:
    messages_body, chat_body = dual_text_request("pp-sdk-1", 900)
    check(Message, messages_body)
    check(Completion, chat_body)


def test_the_check_sees_a_wrong_block() -> None:
    body = ClaudeCodeSession(seed="sdk", salt="pp-sdk-1").body()
    body["messages"][0]["content"][0]["type"] = "speech"
    with pytest.raises(ValidationError):
        check(Message, body)
