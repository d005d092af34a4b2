"""One conversation in both dialects with the same texts."""

from __future__ import annotations

import pytest

from conformance.sessions import dual_text_request


@pytest.mark.parametrize("size", [512, 513, 2047, 16_000])
def test_both_bodies_hold_the_same_texts_of_the_size_asked_for(size: int) -> None:
    messages_body, chat_body = dual_text_request("pp-dual", size)
    as_chat = [{"role": "system", "content": messages_body["system"]}, *messages_body["messages"]]
    assert chat_body["messages"] == as_chat
    assert sum(len(message["content"].encode()) for message in as_chat) == size
    assert [message["role"] for message in as_chat] == ["system", "user", "assistant", "user"]


def test_bodies_differ_in_nothing_but_the_dialect() -> None:
    messages_body, chat_body = dual_text_request("pp-dual", 2000, model="m", max_tokens=7)
    assert list(messages_body) == ["model", "messages", "system", "max_tokens"]
    assert list(chat_body) == ["model", "max_tokens", "messages"]
    for key in ("model", "max_tokens"):
        assert messages_body[key] == chat_body[key]


def test_salt_opens_the_system_text_and_the_first_question() -> None:
    _, chat_body = dual_text_request("pp-dual", 1000)
    assert [m["content"].startswith("pp-dual ") for m in chat_body["messages"]] == [True, True, False, False]


def test_one_body_can_be_changed_without_the_other() -> None:
    messages_body, chat_body = dual_text_request("pp-dual", 1000)
    messages_body["messages"][0]["content"] = "changed"
    assert chat_body["messages"][1]["content"] != "changed"


def test_bad_arguments_say_what_to_do() -> None:
    with pytest.raises(ValueError, match="at least 512 bytes"):
        dual_text_request("pp-dual", 100)
    with pytest.raises(ValueError, match="salt must be"):
        dual_text_request("pp dual", 1000)
