"""What never reaches a report."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.keys import REDACTED
from conformance.masks import mask
from conformance.redact import SHOWN_ENDS, hide_secrets, public_url, redact_body

OWN = frozenset(("You are a coding agent.", "Read", "short"))


def own(text: str) -> bool:
    return text in OWN or text.startswith("mine ")


@pytest.mark.parametrize(
    "text",
    [
        "key sk-ant-api03-SECRETVALUE here",
        "Authorization: Bearer SECRETVALUE12",
        "Basic U0VDUkVUVkFMVUU=",
        "http://user:SECRETVALUE@gw:3000/v1",
        "http://gw/v1?api_key=SECRETVALUE&x=1",
        "http://gw/v1?access_token=SECRETVALUE",
        "x-api-key: SECRETVALUE",
        '"api_key": "SECRETVALUE"',
        "eyJhbGciOiJIUzI1NiJ9.SECRETVALUE.SECRETVALUE",
    ],
)
def test_what_looks_like_a_credential_is_hidden_in_any_text(text: str) -> None:
    hidden = hide_secrets(text)
    assert "SECRETVALUE" not in hidden
    assert "U0VDUkVUVkFMVUU" not in hidden
    assert REDACTED in hidden


@pytest.mark.parametrize(
    "text", ["max_tokens: 64, task-force", "risk-averse people", "http://gw:3000/v1?model=a", "basic idea"]
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert hide_secrets(text) == text


def test_the_suites_own_text_is_shown_and_anothers_only_by_its_shape() -> None:
    body = {
        "model": "llm-prime",
        "messages": [
            {"role": "system", "content": "You are a coding agent."},
            {"role": "user", "content": "Mr. Bond's room is no. 007!\n"},
            {"role": "tool", "tool_call_id": "call_1", "content": "Ünïcode 東京 ٣"},
        ],
        "stream": True,
        "temperature": 0.5,
        "user": None,
    }
    shown = json.loads(redact_body(body, own))
    assert shown["model"] == "llm-prime"
    assert [m["role"] for m in shown["messages"]] == ["system", "user", "tool"]
    assert shown["messages"][0]["content"] == "You are a coding agent."
    assert shown["messages"][1]["content"] == "aa. aaaa'a aaaa aa aa. 999!\n"
    assert shown["messages"][2] == {"role": "tool", "tool_call_id": "call_1", "content": "aaaaaaa aa 9"}
    assert (shown["stream"], shown["temperature"], shown["user"]) == (True, 0.5, None)
    assert redact_body(json.dumps(body).encode(), own) == redact_body(body, own)


def test_a_secret_inside_our_own_text_is_hidden_too() -> None:
    assert "sk-" not in redact_body({"content": "mine sk-abcdefgh"}, own)


def test_keys_named_like_secrets_lose_their_value() -> None:
    shown = json.loads(redact_body({"api_key": "short", "password": "short", "token": "short", "max_tokens": 5}, own))
    assert shown == {"api_key": REDACTED, "password": REDACTED, "token": REDACTED, "max_tokens": 5}


def test_a_protocol_field_with_prose_in_it_is_masked() -> None:
    assert json.loads(redact_body({"role": "Dear Ms Moneypenny", "id": "toolu_01"}, own)) == {
        "role": "aaaa aa aaaaaaaaaa",
        "id": "toolu_01",
    }


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Dear Ms Moneypenny", "aaaa aa aaaaaaaaaa"),
        ("moneypenny_7", "aaaaaaaaaa_9"),
        ("prompt_tokens_details", "prompt_tokens_details"),
    ],
)
def test_names_of_members_stand_where_they_are_known(name: str, shown: str) -> None:
    assert json.loads(redact_body({name: 1}, own)) == {shown: 1}


@pytest.mark.parametrize("key", ["id", "model", "stop_reason", "type", "role", "tool_call_id"])
def test_a_protocol_field_is_no_place_to_hide_a_text_in(key: str) -> None:
    shown = json.loads(redact_body({key: "bond-james-bond-007"}, own))
    assert shown == {key: "aaaa-aaaaa-aaaa-999"}
    assert json.loads(redact_body({key: "end_turn"}, own)) == {key: "end_turn"}
    assert json.loads(redact_body({key: "mine bond"}, own)) == {key: "mine bond"}


def test_an_event_name_nobody_knows_is_masked() -> None:
    assert redact_body(b"event: moneypenny\ndata: {}\n", own) == "event: aaaaaaaaaa\ndata: {}"


def test_long_text_keeps_its_ends_and_its_length() -> None:
    text = "mine " + "x" * 5000 + "end"
    shown = json.loads(redact_body({"content": text}, own))["content"]
    assert shown.startswith("mine xxx")
    assert shown.endswith("xend")
    assert f"[{len(text)} characters in all]" in shown
    assert len(shown) < 3 * SHOWN_ENDS


def test_streams_are_redacted_line_by_line() -> None:
    event = b'event: message_delta\ndata: {"type":"text_delta","text":"Bond, James"}\n\n'
    stream = event + b"data: broken {secret\n\ndata: [DONE]\n"
    lines = redact_body(stream, own).split("\n")
    assert lines[0] == "event: message_delta"
    assert json.loads(lines[1].removeprefix("data: ")) == {"type": "text_delta", "text": "aaaa, aaaaa"}
    assert lines[3] == "data: aaaaaa {aaaaaa"
    assert lines[5] == "data: [DONE]"


@pytest.mark.parametrize(
    ("body", "shown"), [(b"", "(empty)"), (b"<h1>Error 502</h1>", "<a9>aaaaa 999</a9>"), (b"\xff\xfe", "��")]
)
def test_bodies_that_are_no_json(body: bytes, shown: str) -> None:
    assert redact_body(body, own) == shown


@given(st.text(alphabet=st.characters(exclude_characters="a9")))
def test_a_mask_of_a_foreign_text_keeps_the_length_and_no_letter_or_digit(text: str) -> None:
    shape = mask(text)
    assert len(shape) == len(text)
    assert not {c for c in shape if c.isalpha() or c.isdecimal()} - {"a", "9"}


@given(st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | st.text(), st.lists, max_leaves=20), st.binary())
def test_any_body_can_be_shown(value: object, data: bytes) -> None:
    json.loads(redact_body({"content": value}, lambda _: False))
    assert isinstance(redact_body(data, lambda _: False), str)


def test_a_target_is_shown_without_its_password_and_query() -> None:
    assert public_url("http://user:pw@gw:3000/base?key=1#x") == "http://gw:3000/base"
    assert public_url("http://[::1]:3000") == "http://[::1]:3000"
