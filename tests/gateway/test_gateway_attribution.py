"""The switch strip_anthropic_billing_header, on the text and on the translated prompt."""

import copy
from typing import Any

import pytest

from reference_gateway.attribution import is_attribution, without_attribution_line
from reference_gateway.messages.request import chat_prompt

LINE = "x-anthropic-billing-header: cc_version=2.1.116.d8c; cc_entrypoint=claude-vscode; cch=0a1b2;"
VARIANTS = [
    LINE,
    "x-anthropic-billing-header: cc_version=2.1.220.abc; cc_entrypoint=cli;",
    "x-anthropic-billing-header: cc_version=2.1.332.0f0; cc_entrypoint=cli; cc_is_subagent=true; cc_new=1;",
    "x-anthropic-billing-header:",
    f"  \n\t{LINE}  ",
    f"{LINE}\n",
    f"{LINE}\n\n",
]


@pytest.mark.parametrize("text", VARIANTS)
def test_a_text_that_is_only_the_line_becomes_empty(text: str) -> None:
    assert without_attribution_line(text) == ""


@pytest.mark.parametrize("text", VARIANTS[:4])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_first_line_goes_and_the_rest_stays_to_the_character(text: str, line_end: str) -> None:
    assert without_attribution_line(f"{text}{line_end}\n  You are X. \n") == "\n  You are X. \n"


@pytest.mark.parametrize("text", VARIANTS[:3])
@pytest.mark.parametrize("rest", ["You are X.", "  You are X.\nSecond line.", "a = b; You are X."])
def test_a_prompt_joined_to_the_text_without_a_line_break_stays_whole(text: str, rest: str) -> None:
    assert without_attribution_line(text + rest) == rest


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  You are X. ",
        f"You are X.\n{LINE}\nrest",
        f"Say: {LINE}",
        "X-Anthropic-Billing-Header: a",
        "x-anthropic-billing-headers: a",
    ],
)
def test_other_texts_come_back_as_they_are(text: str) -> None:
    assert without_attribution_line(text) == text


@pytest.mark.parametrize("text", VARIANTS)
def test_a_block_that_begins_with_it_is_the_attribution_block(text: str) -> None:
    assert is_attribution(text)
    assert not is_attribution(f"You are X. {text}")


def system_of(system: Any, *, strip: bool) -> str | None:
    body = {"messages": [{"role": "user", "content": "hi"}], "system": system}
    before = copy.deepcopy(body)
    first = chat_prompt(body, strip_attribution=strip)["messages"][0]
    assert body == before
    return first["content"] if first["role"] == "system" else None


def blocks(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text} for text in texts]


@pytest.mark.parametrize(
    ("system", "kept"),
    [
        (blocks(LINE, "A", "B"), "AB"),
        (blocks("A", LINE, "B"), "AB"),
        (blocks(f"{LINE}\nA", "B"), "B"),
        (f"{LINE}\nA", "A"),
        (blocks("A", f"B {LINE}"), f"AB {LINE}"),
        (LINE, None),
        (blocks(LINE), None),
        ("A", "A"),
    ],
)
def test_the_prompt_with_the_switch_on(system: Any, kept: str | None) -> None:
    assert system_of(system, strip=True) == kept


@pytest.mark.parametrize("system", [blocks(LINE, "A"), f"{LINE}A"])
def test_the_prompt_with_the_switch_off_has_the_blocks_joined_without_separator(system: Any) -> None:
    assert system_of(system, strip=False) == f"{LINE}A"


def test_the_same_text_elsewhere_arrives() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": LINE},
        {"role": "system", "content": LINE},
        {"role": "assistant", "content": blocks(LINE)},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": LINE}]},
    ]
    translated = chat_prompt({"messages": messages}, strip_attribution=True)["messages"]
    assert [message["content"] for message in translated] == [LINE] * 4
