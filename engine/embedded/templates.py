"""Chat templates: messages and tools to a prompt, as a list of texts and control tokens.

`tools-first`, as vLLM renders DeepSeek's newer models: a fixed preamble every prompt shares (the template floor), the
tool definitions, then the system text. `system-first`, as Qwen does: the system text, then the tools, no preamble.

Both are append-only: what follows the head is rendered message by message, and the generation prompt is what an
assistant message begins with, so a turn's prompt and its answer are a token-exact prefix of the next turn's prompt. The
leading system messages make up the system text, joined by an empty line; later ones stay where they stand. Tools are
rendered whatever `tool_choice` says, as in vLLM, compactly and with their keys in the order they came. Tool arguments
are rendered as the characters that came. Ids of tool calls and earlier reasoning are not rendered at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from engine.embedded.config import TemplateName
from engine.embedded.tokenizer import (
    ASSISTANT,
    BOS,
    CALL_BEGIN,
    CALL_END,
    CALL_SEPARATOR,
    CALLS_BEGIN,
    CALLS_END,
    EOS,
    OUTPUT_BEGIN,
    OUTPUT_END,
    SYSTEM_BEGIN,
    SYSTEM_END,
    USER,
    Tokenizer,
)

Json = dict[str, object]


class Control(str):
    """A control token in a rendered prompt; everything else in it is text."""

    __slots__ = ()


Segments = list[str]
"""A rendered prompt: `Control` tokens and texts between them."""

PREAMBLE = """\
You work in a conversation that may offer you tools. This preamble stands before every conversation and
never changes, so that all prompts share their first tokens, whoever asks and whatever is asked.

How tools are offered. Each tool is given below as one line of JSON with its name, a description of what it
is good for, and the parameters it accepts, written as a JSON schema. A conversation without tools has no
such lines, and then you answer in plain words only.

How a tool is called. Say in a sentence what you are about to do, if that helps the reader, and then write
the calls. Every call names exactly one tool and carries its arguments as one JSON object. Respect the
schema: give every parameter that is required, use the types it asks for, and leave out what you do not
need. Several calls may follow each other if none of them depends on the answer of another.

How results come back. The answer of each tool is put after your calls, in the same order, and the
conversation goes on from there. An answer may be long, may be cut, and may report an error; read it before
you decide what to do next. Never invent the answer of a tool and never repeat a call only because its
answer was not what you had hoped for.

How to finish. When nothing is left to be done, answer the person in plain words, briefly and completely,
and name the files or facts your answer rests upon.
"""

_TOOLS_HEADING = "\n## Tools\n"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of an assistant message; `arguments` is JSON text."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message, its parts already joined to one text. `role`: system, user, assistant or tool."""

    role: str
    text: str
    calls: tuple[ToolCall, ...] = ()


def render(
    template: TemplateName,
    messages: Sequence[Message],
    tools: Sequence[Json] = (),
    *,
    add_generation_prompt: bool = True,
) -> Segments:
    """The prompt of a conversation."""
    heads = 0
    while heads < len(messages) and messages[heads].role == "system":
        heads += 1
    system = "\n\n".join(message.text for message in messages[:heads])
    offered = _TOOLS_HEADING + "\n".join(orjson.dumps(tool).decode() for tool in tools) + "\n" if tools else ""
    segments: Segments = [Control(BOS)]
    if template == "tools-first":
        segments.append(f"{PREAMBLE}{offered}\n{system}")
    elif system or offered:
        segments += (Control(SYSTEM_BEGIN), system + offered, Control(SYSTEM_END))
    for message in messages[heads:]:
        _render_message(message, segments)
    if add_generation_prompt:
        segments.append(Control(ASSISTANT))
    return segments


def render_answer(text: str, calls: Sequence[ToolCall]) -> Segments:
    """What the model generates after the generation prompt: the rest of an assistant message."""
    segments: Segments = [text] if text else []
    if calls:
        segments.append(Control(CALLS_BEGIN))
        for call in calls:
            segments += (Control(CALL_BEGIN), call.name, Control(CALL_SEPARATOR), call.arguments, Control(CALL_END))
        segments.append(Control(CALLS_END))
    segments.append(Control(EOS))
    return segments


def encode(tokenizer: Tokenizer, segments: Segments) -> bytes:
    """Token bytes of a rendered prompt. Raises `ValueError` for text that is no valid Unicode."""
    return b"".join(
        tokenizer.control(segment) if type(segment) is Control else tokenizer.encode(segment) for segment in segments
    )


def _render_message(message: Message, segments: Segments) -> None:
    if message.role == "assistant":
        segments.append(Control(ASSISTANT))
        segments += render_answer(message.text, message.calls)
    elif message.role == "user":
        segments += (Control(USER), message.text)
    elif message.role == "tool":
        segments += (Control(OUTPUT_BEGIN), message.text, Control(OUTPUT_END))
    else:
        segments += (Control(SYSTEM_BEGIN), message.text, Control(SYSTEM_END))
