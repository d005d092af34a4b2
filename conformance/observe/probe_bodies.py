"""The request bodies of the translation probes, in both dialects. Each does many things at once, to stay few.

Every function gives a new body, without `model` and `stream`. `salt` opens the system text and ends the first question.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from conformance.observe.probe_texts import (
    ARGUMENTS,
    CALL_IDS,
    LONG_RESULT,
    QUOTED_IN,
    SESSION_ID,
    SPACED,
    Json,
    definition,
    image_block,
    picture,
    text_block,
    tools,
)
from conformance.sessions import PROBE_MAX_TOKENS
from conformance.verdicts import Entry

Form = Literal["list", "string"]

RESULT_TEXTS = {
    "read": "Result alpha: the part was read.",
    "weigh": "Result beta: the scale did not answer.",
    "ask 1": "Result gamma, first half: the owner is away.",
    "ask 2": "Result gamma, second half: the owner is back at noon.",
}
QUOTING_RESULT = f"{RESULT_TEXTS['ask 1']} {QUOTED_IN['a tool result']} was the answer."
AFTER_RESULTS = "After the results: what follows from them?"
TWO_TEXTS = ("Third question, first half: which part is heavier?", "Third question, second half: and why?")
NOTES = ("Note one from the harness: the build is red.", "Note two from the harness: answer in English.")
NOTED_TURNS = ("Noted first question.", "Noted first answer.", "Noted second question.", "Noted second answer.",
               "Noted third question.")  # fmt: skip
THOUGHTS = ("Thought one: the first question is about files.", "Thought two: a file must be read.",
            "Thought three: the file was read.")  # fmt: skip
STOPS = ["<<stop one>>", "<<stop two>>"]
CACHE_KEY = "probe-cache-key"


def _base(entry: Entry, salt: str, says: str, messages: list[Json], *, form: Form = "string") -> Json:
    system = f"{salt} {says}"
    content = messages[0]["content"]
    # The salt stands in the question too: a gateway that drops the system text must still be seen.
    if isinstance(content, str):
        messages[0]["content"] = f"{content} ({salt})"
    else:
        content[-1]["text"] += f" ({salt})"
    if entry is Entry.MESSAGES:
        return {
            "max_tokens": PROBE_MAX_TOKENS,
            "system": _content([system], form),
            "messages": messages,
        }
    return {
        "max_tokens": PROBE_MAX_TOKENS,
        "messages": [{"role": "system", "content": _content([system], form)}, *messages],
    }


def _content(texts: list[str], form: Form) -> str | list[Json]:
    return texts[0] if form == "string" and len(texts) == 1 else [text_block(text) for text in texts]


def _turn(role: str, *texts: str, form: Form = "string") -> Json:
    return {"role": role, "content": _content(list(texts), form)}


def conversation(entry: Entry, salt: str, *, form: Form = "list", marks: bool = False, later: bool = False) -> Json:
    """Parallel calls with results in another order, an error, a result of two blocks, text behind results.

    `form` is the form of every content that is one text. `marks` adds `cache_control` in four places and a key that
    is no prompt text. `later` appends an answer and a question.
    """
    quoted = f"You answer briefly.\n{QUOTED_IN['the middle of a system text']}\nYou keep to the facts."
    first = f"First question about {QUOTED_IN['a user message']} and three parts."
    answer = f"I see {QUOTED_IN['an assistant message']} and call three tools."
    turns = [_turn("user", first, form=form)]
    turns += _messages_calls(answer, form) if entry is Entry.MESSAGES else _chat_calls(answer, form)
    turns += [_turn("assistant", "Second answer: the parts differ.", form=form), _turn("user", *TWO_TEXTS)]
    if later:
        turns += [
            _turn("assistant", "Third answer: the first one.", form=form),
            _turn("user", "Last question?", form=form),
        ]
    body = {**_base(entry, salt, quoted, turns, form=form), "tools": tools(entry)}
    return _marked(body) if marks else body


def _messages_calls(answer: str, form: Form) -> list[Json]:
    names = ("read_part", "weigh_parts", "ask_owner")
    values: tuple[Json, ...] = (ARGUMENTS, {"unit": "g", "parts": [1, 2]}, {"why": "b", "owner": "a"})
    calls = [
        {"type": "tool_use", "id": i, "name": n, "input": v} for i, n, v in zip(CALL_IDS, names, values, strict=True)
    ]

    def result(at: int, *texts: str, **more: object) -> Json:
        return {"type": "tool_result", "tool_use_id": CALL_IDS[at], "content": _content(list(texts), form), **more}

    results = [
        result(2, QUOTING_RESULT, RESULT_TEXTS["ask 2"]),
        result(0, RESULT_TEXTS["read"]),
        result(1, RESULT_TEXTS["weigh"], is_error=True),
        text_block(AFTER_RESULTS),
    ]
    return [
        {"role": "assistant", "content": [text_block(answer), *calls]},
        {"role": "user", "content": results},
    ]


def _chat_calls(answer: str, form: Form) -> list[Json]:
    given = (SPACED, '{"unit":"g","parts":[1,2]}', '{"why":"b", "owner":"a"}')
    names = ("read_part", "weigh_parts", "ask_owner")
    calls = [
        {"id": i, "type": "function", "function": {"name": n, "arguments": a}}
        for i, n, a in zip(CALL_IDS, names, given, strict=True)
    ]

    def result(at: int, *texts: str) -> Json:
        return {"role": "tool", "tool_call_id": CALL_IDS[at], "content": _content(list(texts), form)}

    return [
        {"role": "assistant", "content": answer, "tool_calls": calls},
        result(2, QUOTING_RESULT, RESULT_TEXTS["ask 2"]),
        result(0, RESULT_TEXTS["read"]),
        result(1, RESULT_TEXTS["weigh"]),
        _turn("user", AFTER_RESULTS, form=form),
    ]


def _marked(body: Json) -> Json:
    """`body` (in list form) with a mark on the system, the last tool, a tool result and the last block."""
    mark = {"cache_control": {"type": "ephemeral"}}
    last = body["messages"][-1]["content"]
    last[-1] |= mark
    for message in body["messages"]:
        if isinstance(message["content"], list) and message["content"][0].get("type") == "tool_result":
            message["content"][0] |= mark
    first, *between, end = body["tools"]
    return {
        **body,
        "system": [{**body["system"][0], **mark}],
        "tools": [{**first, "eager_input_streaming": True}, *between, {**end, **mark}],
    }


def notes(entry: Entry, salt: str, *, appended: bool) -> Json:
    """A conversation to which system notes are appended: one in the middle of what follows, one at its end."""
    roles = ("user", "assistant", "user", "assistant", "user")
    turns = [_turn(role, text) for role, text in zip(roles, NOTED_TURNS, strict=True)]
    sent = turns[:3]
    if appended:
        sent = [*sent, _turn("system", NOTES[0]), *turns[3:], _turn("system", NOTES[1])]
    return _base(entry, salt, "You read notes.", sent)


def thinking(entry: Entry, salt: str, *, effort: str, later: bool = False) -> Json:
    """Earlier reasoning in a plain answer and beside a tool call, a long tool result, and an effort setting."""
    turns = [_turn("user", "Thinking first question."), _thought(entry, 0, "Thinking first answer.")]
    turns += [_turn("user", "Thinking second question.")]
    call_id = "toolu_01ThinkingReadDDDDDDDD"
    if entry is Entry.MESSAGES:
        call = {"type": "tool_use", "id": call_id, "name": "read_part", "input": {"zeta": 2}}
        result = {"type": "tool_result", "tool_use_id": call_id, "content": LONG_RESULT}
        turns += [_thought(entry, 1, call=call), {"role": "user", "content": [result]}]
    else:
        call = {"id": call_id, "type": "function", "function": {"name": "read_part", "arguments": '{"zeta":2}'}}
        turns += [_thought(entry, 1, call=call), {"role": "tool", "tool_call_id": call_id, "content": LONG_RESULT}]
    if later:
        turns += [_thought(entry, 2, "Thinking third answer."), _turn("user", "Thinking third question.")]
    body = {
        **_base(entry, salt, "You think before you answer.", turns),
        "tools": [definition(entry, "read_part", {"zeta": {"type": "number"}})],
    }
    if entry is Entry.CHAT:
        return {**body, "reasoning_effort": effort}
    return {**body, "thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}


def _thought(entry: Entry, at: int, text: str = "", call: Json | None = None) -> Json:
    if entry is Entry.CHAT:
        message: Json = {"role": "assistant", "content": text, "reasoning_content": THOUGHTS[at]}
        return {**message, "tool_calls": [call]} if call else message
    blocks: list[Json] = [{"type": "thinking", "thinking": THOUGHTS[at], "signature": f"c2lnbmF0dXJl{at}A=="}]
    blocks += [text_block(text)] if text else []
    return {"role": "assistant", "content": [*blocks, call] if call else blocks}


def images(entry: Entry, salt: str) -> Json:
    """The pictures A, A, B in a user message, and on /v1/messages a picture in a tool result."""
    a, b = picture(7), picture(191)
    shown: list[Json] = [*(image_block(entry, data) for data in (a, a, b)), text_block("Which pictures are alike?")]
    turns: list[Json] = [{"role": "user", "content": shown}]
    body: Json = {}
    if entry is Entry.MESSAGES:
        call_id = "toolu_01ImageReadEEEEEEEEEE"
        call = {"type": "tool_use", "id": call_id, "name": "read_part", "input": {}}
        result = [text_block("Result delta: a picture."), image_block(entry, picture(64))]
        turns += [
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": result}]},
        ]
        body["tools"] = [definition(entry, "read_part", {})]
    return {**_base(entry, salt, "You look at pictures.", turns), **body}


def deferred(salt: str, *, found: bool) -> Json:
    """/v1/messages: a tool marked `defer_loading` between two others; `found`: one more, after a tool search."""
    entry = Entry.MESSAGES
    turns = [_turn("user", "Which tool reads mail?")]
    offered = [
        definition(entry, "zoom_in", {"level": {"type": "integer"}}),
        {**definition(entry, "deferred_placeholder", {}), "defer_loading": True},
        definition(entry, "look_up_tools", {"query": {"type": "string"}}),
    ]
    if found:
        call_id = "toolu_01LookUpToolsFFFFFFFFF"
        call = {"type": "tool_use", "id": call_id, "name": "look_up_tools", "input": {"query": "mail"}}
        reference = [{"type": "tool_reference", "tool_name": "mail_reader"}]
        turns += [
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": reference}]},
        ]
        offered.insert(2, {**definition(entry, "mail_reader", {"box": {"type": "string"}}), "defer_loading": True})
    return {**_base(entry, salt, "You find tools.", turns), "tools": offered}


CONTROLS: Json = {"max_tokens": 19, "temperature": 0.37, "top_p": 0.91}


def controls(entry: Entry, salt: str, choice: Literal["any", "tool", "none", "left out"]) -> Json:
    """A short request with a tool choice; with "any" also every sampling and routing field the dialect has."""
    body = _base(entry, salt, "You use tools.", [_turn("user", f"Controls: {choice}?")])
    body["tools"] = tools(entry)
    if choice == "left out":
        return body
    if entry is Entry.CHAT:
        forms: dict[str, Any] = {
            "any": "required", "tool": {"type": "function", "function": {"name": "ask_owner"}}, "none": "none",
        }  # fmt: skip
        body["tool_choice"] = forms[choice]
        if choice == "any":
            keys = {"prompt_cache_key": CACHE_KEY, "cache_salt": f"salt-{salt}", "user": "probe-user"}
            body |= {**CONTROLS, "stop": STOPS, "parallel_tool_calls": False, **keys}
        return body
    body["tool_choice"] = {"type": "tool", "name": "ask_owner"} if choice == "tool" else {"type": choice}
    if choice == "any":
        body["tool_choice"]["disable_parallel_tool_use"] = True
        user = json.dumps({"device_id": "probe", "account_uuid": "", "session_id": SESSION_ID})
        body |= {**CONTROLS, "top_k": 37, "stop_sequences": STOPS, "metadata": {"user_id": user}}
    return body


def boundaries(salt: str, header: str) -> Json:
    """/v1/messages towards a Messages upstream: three system blocks, the attribution text first, marks on the rest."""
    mark = {"cache_control": {"type": "ephemeral"}}
    blocks = [
        text_block(header),
        {**text_block(f"{salt} Native system block one."), **mark},
        {**text_block("Native system block two."), **mark},
    ]
    return {
        "max_tokens": PROBE_MAX_TOKENS,
        "system": blocks,
        "messages": [{"role": "user", "content": [{**text_block("Native question."), **mark}]}],
    }
