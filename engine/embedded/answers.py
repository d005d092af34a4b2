"""What the model says: a pure function of the conversation, so that two engines, and two sends, answer alike.

Directives are read from the last user message, if no assistant message follows it, each on a line of its own:

- `call TOOL {...}`: call that tool with these arguments, carried as typed (default `{}`; no JSON object, no call).
  Only tools that were offered are called, and none with `tool_choice` `"none"`. Several lines make parallel calls.
- `recall KEY`: answer with the latest `the fact KEY is VALUE` of the conversation, in whichever message it stands, as
  `The fact KEY is VALUE.`, or that there is none. VALUE ends at white space; punctuation at its end is left off.
- `write N words`: answer with N words (at most 10,000).

`tool_choice` `"required"` without a `call` line calls the first tool, a named choice that tool, with the smallest
arguments its schema's required properties allow. Without a directive the answer is about a dozen words chosen by the
prompt's digest.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import orjson

from engine.embedded.templates import Json, Message, ToolCall

_CALL = re.compile(r"^[ \t]*call[ \t]+([\w.:-]+)(?:[ \t]+(\{.*\}))?[ \t]*$", re.MULTILINE)
_RECALL = re.compile(r"^[ \t]*recall[ \t]+([\w.:-]+)[ \t]*$", re.MULTILINE)
_WRITE = re.compile(r"^[ \t]*write[ \t]+(\d{1,5})[ \t]+words[ \t]*$", re.MULTILINE)
_CLOSING = ".,;:!?\"'`"
_MOST_WORDS = 10_000
_PROSE = (
    "the plan is clear and we keep this part short so each step can be checked before next one starts while notes from "
    "earlier turns stay where they were because order matters more than style when several readers share one page"
)
_WORDS = tuple(_PROSE.split())


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """`mode`: auto, none, required or named; `name` only with the last."""

    mode: str = "auto"
    name: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """Text, tool calls, or both."""

    text: str
    calls: tuple[ToolCall, ...] = ()


def prompt_digest(prompt: bytes) -> bytes:
    """What stands for a prompt when an answer is chosen: 32 bytes."""
    return blake2b(prompt, digest_size=32).digest()


def answer(messages: Sequence[Message], tools: Sequence[Json], choice: ToolChoice, digest: bytes) -> Answer:
    """The answer to a conversation; `digest` is that of its prompt."""
    asked = _last_request(messages)
    calls = tuple(_calls(asked, tools, choice))
    if calls:
        return Answer("", calls)
    recalled = [_recall(key, messages) for key in _RECALL.findall(asked)]
    if recalled:
        return Answer(" ".join(recalled))
    length = _WRITE.search(asked)
    count = min(int(length[1]), _MOST_WORDS) if length else 10 + digest[0] % 5
    return Answer(_prose(digest, count))


def _last_request(messages: Sequence[Message]) -> str:
    for message in reversed(messages):
        if message.role == "user":
            return message.text
        if message.role == "assistant":
            break
    return ""


def _calls(asked: str, tools: Sequence[Json], choice: ToolChoice) -> Iterator[ToolCall]:
    if choice.mode == "none" or not tools:
        return
    offered = {_name(tool): tool for tool in tools}
    found = False
    for name, arguments in _CALL.findall(asked):
        wanted = choice.mode != "named" or name == choice.name
        if name in offered and wanted and _is_object(arguments or "{}"):
            found = True
            yield ToolCall(name, arguments or "{}")
    if not found and choice.mode in ("required", "named"):
        name = choice.name if choice.mode == "named" else next(iter(offered))
        yield ToolCall(name, orjson.dumps(_smallest(_parameters(offered[name]))).decode())


def _recall(key: str, messages: Sequence[Message]) -> str:
    opening = f"the fact {key} is "
    for message in reversed(messages):
        place = message.text.rfind(opening)
        if place >= 0:
            value = re.match(r"\S+", message.text[place + len(opening) : place + len(opening) + 1_000])
            if value:
                return f"The fact {key} is {value[0].rstrip(_CLOSING)}."
    return f"I was told no fact {key}."


def _prose(digest: bytes, count: int) -> str:
    words = []
    state = int.from_bytes(digest, "little")
    for place in range(count):
        # A small multiplicative generator: the same words on every machine and Python.
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        word = _WORDS[(state >> 33) % len(_WORDS)]
        words.append(word.capitalize() if place == 0 else word)
    return " ".join(words) + "."


def _name(tool: Json) -> str:
    function = tool.get("function")
    return str(function.get("name")) if isinstance(function, dict) else ""


def _parameters(tool: Json) -> object:
    function = tool.get("function")
    return function.get("parameters") if isinstance(function, dict) else None


def _is_object(text: str) -> bool:
    try:
        return isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        return False


def _smallest(schema: object, depth: int = 0) -> object:
    """A value the schema accepts, as far as types, enums, constants and required properties say."""
    if not isinstance(schema, dict) or depth > 16:
        return {}
    if "const" in schema:
        return schema["const"]
    options = schema.get("enum")
    if isinstance(options, list) and options:
        return options[0]
    kind = schema.get("type", "object" if "properties" in schema or not depth else "string")
    if isinstance(kind, list):
        kind = kind[0] if kind else "string"
    if kind == "object":
        properties, required = schema.get("properties"), schema.get("required")
        if not isinstance(properties, dict) or not isinstance(required, list):
            return {}
        return {name: _smallest(properties.get(name), depth + 1) for name in required if isinstance(name, str)}
    if kind in ("integer", "number"):
        return schema.get("minimum", 1)
    return {"string": "value", "boolean": True, "array": [], "null": None}.get(str(kind), "value")
