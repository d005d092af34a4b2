"""The story of a changed prefix, from two exchanges and what they became upstream."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.diagnosis.divergence import field_name, prefix_change, text_change, varying_word
from conformance.diagnosis.explain import Explanation, _rounded, explain
from conformance.diagnosis.prompt import UpstreamPrompt, parse_prompt
from conformance.verdicts import Entry
from conformance.wire.exchange import Exchange, Usage

HEADER = "x-anthropic-billing-header: cc_version=2.1.116.{suffix}; cc_entrypoint=claude-vscode; cch={cch};"
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"b": 1, "a": 2}}} for name in ("one", "two")]


@pytest.mark.parametrize(
    ("lost", "day"), [(0, "0"), (35_000, "35,000"), (499_000, "499,000"), (500_000, "0.5 M"), (14_900_000, "14.9 M")]
)
def test_what_a_day_loses_is_never_rounded_to_nothing(lost: int, day: str) -> None:
    assert _rounded(lost) == day


def blocks(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text} for text in texts]


def turn(sent: dict[str, Any], upstream: dict[str, Any], prompt: int = 1000) -> tuple[Exchange, UpstreamPrompt]:
    exchange = Exchange(entry=Entry.MESSAGES, request=sent, streamed=False, status=200, usage=Usage(prompt=prompt))
    parsed = parse_prompt("/v1/chat/completions", upstream)
    assert parsed is not None
    return exchange, parsed


def explained(first: tuple[Exchange, UpstreamPrompt], second: tuple[Exchange, UpstreamPrompt]) -> Explanation:
    found = explain(first, second, lambda _: True, 0.25)
    assert found is not None
    return found


def system_turn(text: str, *systems: str, more: tuple[str, ...] = ()) -> tuple[Exchange, UpstreamPrompt]:
    said = [{"role": "user", "content": "q"}, *({"role": "user", "content": m} for m in more)]
    return turn(
        {"system": blocks(*systems), "messages": said},
        {"messages": [{"role": "system", "content": text}, *said], "tools": TOOLS},
    )


def test_a_hash_and_a_suffix_are_placed_in_the_clients_block() -> None:
    a, b = HEADER.format(suffix="d8c", cch="0a1b2"), HEADER.format(suffix="d8c", cch="0f1b2")
    change = explained(system_turn(f"{a}You", a, "You"), system_turn(f"{b}You", b, "You")).change
    assert (change.part, change.field, change.span, change.kind) == (
        "system[0]", "the value of `cch`", (85, 89), "attribution block",
    )  # fmt: skip
    c = HEADER.format(suffix="3f1", cch="0a1b2")
    change = explained(system_turn(f"{a}You", a, "You"), system_turn(f"{c}You", c, "You")).change
    assert (change.field, change.span) == ("the value of `cc_version`", (47, 49))


def test_a_block_that_is_not_the_first_is_counted_from_its_own_beginning() -> None:
    one, two = "id=aaaa end", "id=bbbb end"
    change = explained(system_turn(f"Head{one}", "Head", one), system_turn(f"Head{two}", "Head", two)).change
    assert (change.part, change.offset, change.span) == ("system[1]", 3, (3, 6))


def test_text_the_client_never_sent_stays_in_upstream_terms() -> None:
    change = explained(system_turn("t 10:00:00\nYou", "You"), system_turn("t 10:00:07\nYou", "You")).change
    assert (change.part, change.kind) == ("message 0 (system)", "clock")


def test_a_note_from_further_down_is_called_hoisted() -> None:
    first = system_turn("You", "You")
    said = [{"role": "user", "content": "q"}, {"role": "system", "content": "note"}, {"role": "user", "content": "r"}]
    second = turn(
        {"system": blocks("You"), "messages": said},
        {"messages": [{"role": "system", "content": "You\n\nnote"}, said[0], said[2]], "tools": TOOLS},
    )
    assert explained(first, second).change.kind == "system message hoisted"


def test_what_survives_by_template_order() -> None:
    found = explained(system_turn("x1 You " + "s" * 400, "You"), system_turn("x2 You " + "s" * 400, "You"))
    (_, tools_kept, tools_lost, a_day, ceiling), (_, system_kept, system_lost, _, _) = found.survival.rows
    assert int(tools_kept or 0) + int(tools_lost or 0) == 1000 == int(system_kept or 0) + int(system_lost or 0)
    assert int(system_lost or 0) > int(tools_lost or 0)
    assert str(ceiling).endswith("%")
    assert a_day == f"{int(tools_lost or 0) * 1000:,}"


def test_what_is_ruled_out_has_its_reason() -> None:
    found = explained(system_turn("t 10:00:00", "You"), system_turn("t 10:00:07", "You"))
    assert len(found.ruled_out) == 3
    assert all(", because " in line for line in found.ruled_out)


def test_prompts_that_begin_each_other_have_no_story() -> None:
    assert explain(system_turn("You", "You"), system_turn("You", "You", more=("r",)), lambda _: True, 0.25) is None


def prompt(*messages: dict[str, Any], tools: list[Any] | None = None) -> UpstreamPrompt:
    parsed = parse_prompt("/v1/chat/completions", {"messages": list(messages), "tools": tools or []})
    assert parsed is not None
    return parsed


def called(arguments: str) -> UpstreamPrompt:
    return prompt({"role": "assistant", "tool_calls": [{"function": {"name": "n", "arguments": arguments}}]})


@pytest.mark.parametrize(
    ("before", "after", "kind", "field"),
    [
        ('{"a":12345678901234567890}', '{"a":12345678901234567168}', "number re-spelled", "the value of `a`"),
        ('{"a":1.0}', '{"a":1}', "number re-spelled", "the value of `a`"),
        ('{"a":"ü"}', r'{"a":"\\u00fc"}', "unicode re-spelled", "the value of `a`"),
        ('{"b":1,"a":2}', '{"a":2,"b":1}', "keys re-ordered", "the value of `the object itself`"),
        ('{"a":1}', '{"a": 1}', "arguments re-spelled", ""),
    ],
)
def test_arguments_in_the_history(before: str, after: str, kind: str, field: str) -> None:
    change = prefix_change(called(before), called(after), lambda _: True)
    assert change is not None
    assert (change.kind, change.field) == (kind, field)


@pytest.mark.parametrize(
    ("after", "kind"),
    [
        ([1, 0], "tools re-ordered"),
        ([0], "tool dropped"),
        ([0, 1, 2], "tool appended"),
        ([0, 2, 1], "tool inserted"),
        ([0, 2], "tools exchanged"),
    ],
)
def test_what_happened_to_a_list_of_tools(after: list[int], kind: str) -> None:
    three = [{"type": "function", "function": {"name": name}} for name in ("a", "b", "c")]
    change = prefix_change(prompt(tools=three[:2]), prompt(tools=[three[i] for i in after]), lambda _: True)
    assert change is not None
    assert change.kind == kind


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("a\n\nb", "a\nb", "white space"),
        ("one two three", "one two", "content cut"),
        ("id 0123456789abcdef0", "id 0123456789abcdef1", "uuid or nonce"),
        ("at 2026-08-17", "at 2026-08-18", "clock"),
        ("one", "two", "text changed"),
    ],
)
def test_kinds_of_text_changes(before: str, after: str, kind: str) -> None:
    assert text_change("p", before, after, lambda _: True).kind == kind


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("x; key=", "the value of `key`"),
        ('{"a":1,"key":"', "the value of `key`"),
        ("<day>", "the value of `day`"),
        ("first\nDay: ", "the value of `Day`"),
        ("no name here ", ""),
    ],
)
def test_names_of_values(text: str, name: str) -> None:
    assert field_name(f"{text}VALUE", len(text)) == name


def test_the_varying_word_is_whole() -> None:
    assert varying_word("cch=0a1b2; x", 6) == (4, 9)
    assert varying_word("a b", 1) == (0, 1)
    assert varying_word("; ;", 1) == (1, 2)
    assert varying_word("", 0) == (0, 0)
