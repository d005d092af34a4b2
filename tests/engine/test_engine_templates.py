"""Templates: order of the parts, the floor, and that a turn is a token-exact prefix of the next."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.embedded.config import TemplateName
from engine.embedded.hashing import TOKEN_BYTES
from engine.embedded.templates import PREAMBLE, Json, Message, ToolCall, encode, render, render_answer
from engine.embedded.tokenizer import ASSISTANT, BOS, SYSTEM_BEGIN, USER, FastTokenizer, Tokenizer, open_tokenizer

TOKENIZERS = {"fast": FastTokenizer(), "deepseek": open_tokenizer("deepseek")}
TOOL: Json = {"type": "function", "function": {"name": "look", "parameters": {"z": 1, "a": {"type": "string"}}}}
TEMPLATES: tuple[TemplateName, ...] = ("tools-first", "system-first")

anyone = pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=TOKENIZERS.keys())
either = pytest.mark.parametrize("template", TEMPLATES)


@anyone
def test_the_floor_is_one_block_of_256_and_not_two_with_the_shortest_prompt(tokenizer: Tokenizer) -> None:
    assert 256 <= len(tokenizer.encode(PREAMBLE)) // TOKEN_BYTES < 400


def test_tools_come_before_the_system_text_or_after_it() -> None:
    messages = [Message("system", "You are brief."), Message("user", "Hi")]
    first = "".join(render("tools-first", messages, [TOOL]))
    assert first.startswith(BOS + PREAMBLE)
    assert first.index('"name":"look"') < first.index("You are brief.")
    last = "".join(render("system-first", messages, [TOOL]))
    assert last.startswith(f"{BOS}{SYSTEM_BEGIN}You are brief.")
    assert last.index('"name":"look"') > last.index("You are brief.")


@either
def test_tools_are_rendered_compactly_with_their_keys_as_they_came(template: TemplateName) -> None:
    text = "".join(render(template, [Message("user", "Hi")], [TOOL]))
    assert '{"type":"function","function":{"name":"look","parameters":{"z":1,"a":{"type":"string"}}}}' in text


@either
def test_later_system_messages_stay_where_they_stand(template: TemplateName) -> None:
    messages = [Message("system", "one"), Message("system", "two"), Message("user", "Hi"), Message("system", "three")]
    text = "".join(render(template, messages))
    assert text.endswith(f"{USER}Hi{SYSTEM_BEGIN}three<｜end▁sys｜>{ASSISTANT}")
    assert "one\n\ntwo" in text


@either
def test_tool_call_ids_and_nothing_else_of_a_call_are_left_out(template: TemplateName) -> None:
    call = ToolCall("look", '{"a": "x"}')
    text = "".join(render(template, [Message("user", "Hi"), Message("assistant", "", (call,)), Message("tool", "y")]))
    assert 'look<｜tool▁sep｜>{"a": "x"}<' in text
    assert "<｜tool▁output▁begin｜>y<｜tool▁output▁end｜>" in text


def test_without_generation_prompt() -> None:
    assert render("system-first", [Message("user", "Hi")], add_generation_prompt=False) == [BOS, USER, "Hi"]


words = st.lists(st.sampled_from(["and", "day", "\n", " ", "中", "é", "9", "{", "long ", "<"]), max_size=8).map("".join)


@anyone
@either
@given(seed=st.integers(0, 2**32), system=words, rounds=st.lists(st.tuples(words, words), min_size=1, max_size=5))
@settings(max_examples=100, deadline=None)
def test_a_turn_and_its_answer_are_a_prefix_of_the_next_turn(
    tokenizer: Tokenizer, template: TemplateName, seed: int, system: str, rounds: list[tuple[str, str]]
) -> None:
    rng = random.Random(seed)
    tools = [TOOL] if rng.random() < 0.5 else []
    messages = [Message("system", system)] if rng.random() < 0.7 else []
    before = b""
    for asked, answered in rounds:
        messages.append(Message(rng.choice(["user", "user", "tool"]), asked))
        if rng.random() < 0.2:
            messages.append(Message("system", "reminder"))
        prompt = encode(tokenizer, render(template, messages, tools))
        assert prompt.startswith(before)
        calls = (ToolCall("look", answered),) * rng.randrange(3)
        before = prompt + encode(tokenizer, render_answer(answered, calls))
        messages.append(Message("assistant", answered, calls))
