"""Answers and what a stream of them shows."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.embedded.answers import Answer, ToolChoice, answer
from engine.embedded.generation import generate
from engine.embedded.hashing import token_ids
from engine.embedded.templates import Json, Message, ToolCall
from engine.embedded.tokenizer import EOS, FastTokenizer, Tokenizer, decode, open_tokenizer

FAST = FastTokenizer()
TOKENIZERS: list[Tokenizer] = [FAST, open_tokenizer("deepseek")]
AUTO = ToolChoice()


def tool(name: str, parameters: object = None) -> Json:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def ask(text: str, tools: tuple[Json, ...] = (), choice: ToolChoice = AUTO, *before: Message) -> Answer:
    return answer([*before, Message("user", text)], tools, choice, b"prompt")


def test_an_answer_is_short_and_a_function_of_the_prompt() -> None:
    one = answer([Message("user", "hi")], (), AUTO, b"one prompt")
    assert one == answer([Message("user", "hi")], (), AUTO, b"one prompt")
    assert one != answer([Message("user", "hi")], (), AUTO, b"another prompt")
    assert 10 <= len(one.text.split()) <= 14


def test_the_last_user_text_calls_tools_that_were_offered() -> None:
    tools = (tool("read"), tool("fs.write"))
    asked = 'Please do:\ncall read {"path": "a b"}\n  call fs.write\ncall other {}\ncall read [1]\ncall read {broken}'
    assert ask(asked, tools).calls == (ToolCall("read", '{"path": "a b"}'), ToolCall("fs.write", "{}"))
    assert ask(asked, ()).calls == ()
    assert ask(asked, tools, ToolChoice("none")).calls == ()
    assert ask("Do not call read {} in a sentence", tools).calls == ()


def test_nothing_is_called_once_the_assistant_has_spoken() -> None:
    messages = [Message("user", "call read"), Message("assistant", "", (ToolCall("read", "{}"),)), Message("tool", "x")]
    assert answer(messages, [tool("read")], AUTO, b"digest").calls == ()


def test_required_and_named_choices_call_with_the_smallest_arguments() -> None:
    schema = {
        "properties": {
            "kind": {"enum": ["b", "a"]},
            "size": {"type": "integer", "minimum": 3},
            "flag": {"type": ["boolean", "null"]},
            "rows": {"type": "array"},
            "deep": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
            "left": {"type": "string"},
        },
        "required": ["size", "kind", "flag", "rows", "deep"],
    }
    tools = (tool("first", schema), tool("second"))
    smallest = '{"size":3,"kind":"b","flag":true,"rows":[],"deep":{"x":"value"}}'
    assert ask("hi", tools, ToolChoice("required")).calls == (ToolCall("first", smallest),)
    assert ask("hi", tools, ToolChoice("named", "second")).calls == (ToolCall("second", "{}"),)
    both = 'call first {"a":1}\ncall second {"b":1}'
    assert ask(both, tools, ToolChoice("named", "second")).calls == (ToolCall("second", '{"b":1}'),)


def test_a_planted_fact_is_recalled_from_wherever_it_stands() -> None:
    before = (
        Message("system", "Know that the fact COLOUR-1 is green."),
        Message("tool", "the fact CODE is x7-9, and the fact COLOUR-1 is blue; the end"),
        Message("assistant", "noted"),
    )
    assert ask("recall COLOUR-1", (), AUTO, *before).text == "The fact COLOUR-1 is blue."
    assert ask("Well:\nrecall CODE\nrecall COLOUR-1", (), AUTO, *before).text == (
        "The fact CODE is x7-9. The fact COLOUR-1 is blue."
    )
    assert ask("recall SIZE", (), AUTO, *before).text == "I was told no fact SIZE."


@pytest.mark.parametrize("count", [1, 7, 300])
def test_an_answer_is_as_long_as_asked(count: int) -> None:
    assert len(ask(f"write {count} words").text.split()) == count


answers = st.builds(
    Answer,
    st.text(alphabet="ab é中😀.", max_size=30),
    st.lists(st.builds(ToolCall, st.sampled_from(["t", "read"]), st.text(alphabet='{"a: é中}', max_size=12))).map(
        tuple
    ),
)


@settings(max_examples=300, deadline=None)
@given(answers, st.sampled_from(TOKENIZERS), st.integers(1, 60))
def test_deltas_add_up_to_the_answer_or_to_its_beginning(given_: Answer, tokenizer: Tokenizer, limit: int) -> None:
    whole = generate(given_, tokenizer, b"d", limit=10_000)
    message = whole.message()
    assert (message["content"] or "") == given_.text
    calls = message.get("tool_calls", [])
    assert isinstance(calls, list)
    assert [(call["function"]["name"], call["function"]["arguments"]) for call in calls] == [
        (call.name, call.arguments) for call in given_.calls
    ]
    assert len({call["id"] for call in calls}) == len(calls)
    assert whole.finish_reason == ("tool_calls" if given_.calls else "stop")
    assert decode(tokenizer, token_ids(whole.outputs)).endswith(EOS)
    cut = generate(given_, tokenizer, b"d", limit=limit)
    assert cut.length == min(limit, whole.length) == len(cut.outputs) // 4
    assert whole.outputs.startswith(cut.outputs)
    assert (cut.finish_reason == "length") == (whole.length > limit)
    assert given_.text.startswith(str(cut.message()["content"] or ""))


@settings(max_examples=300, deadline=None)
@given(
    st.text(alphabet="abé中", max_size=30),
    st.lists(st.text(alphabet="abé中", min_size=1, max_size=3), max_size=3),
    st.sampled_from(TOKENIZERS),
)
def test_a_stop_string_ends_the_answer_and_is_not_shown(text: str, stops: list[str], tokenizer: Tokenizer) -> None:
    made = generate(Answer(text), tokenizer, b"d", limit=1_000, stops=stops)
    places = [text.find(stop) for stop in stops if stop in text]
    shown = made.message()["content"]
    if not places:
        assert (shown, made.stop_reason) == (text, None)
        return
    assert shown == text[: min(places)]
    assert made.stop_reason in stops
    assert made.finish_reason == "stop"
    assert str(made.stop_reason) in decode(tokenizer, token_ids(made.outputs))
