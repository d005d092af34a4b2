"""An upstream request body as a sequence of parts: what a chat template would render, in either dialect.

Ids, sampling fields and cache marks are no part of a prompt. A string content and a list of text blocks are the
same text here; rules that care about the difference look at the body itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Dialect(StrEnum):
    CHAT = "openai-chat"
    MESSAGES = "anthropic"


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of text of a prompt. `label` says where it stands, for a reader."""

    kind: str  # "system" | "user" | "assistant" | "tool call" | "tool result" | "image" | other roles
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as the upstream got it. `text` is its JSON with keys in the order sent."""

    name: str
    text: str
    value: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class UpstreamPrompt:
    """Tools and parts of one upstream request, in order."""

    dialect: Dialect
    tools: tuple[Tool, ...]
    parts: tuple[Part, ...]


def parse_prompt(path: str, body: Any, *, join: bool = True) -> UpstreamPrompt | None:
    """The prompt in a request body sent to `path`; None when it is no chat request.

    `join` makes neighbouring text blocks of a message one part, as templates render them; without it each block is
    a part of its own, as the client meant it.
    """
    if not isinstance(body, Mapping) or not isinstance(body.get("messages"), list):
        return None
    dialect = Dialect.MESSAGES if path.rstrip("/").endswith("/messages") else Dialect.CHAT
    parts: list[Part] = []
    if dialect is Dialect.MESSAGES and body.get("system") is not None:
        parts += _system(body["system"])
    for i, message in enumerate(body["messages"]):
        if isinstance(message, Mapping):
            parts += _message(i, message, join)
    tools = tuple(_tool(t) for t in body.get("tools") or () if isinstance(t, Mapping))
    return UpstreamPrompt(dialect, tools, tuple(parts))


def _system(system: Any) -> Iterator[Part]:
    if isinstance(system, str):
        yield Part("system", "system", system)
        return
    for i, block in enumerate(system if isinstance(system, list) else ()):
        if isinstance(block, Mapping) and isinstance(block.get("text"), str):
            yield Part("system", f"system[{i}]", block["text"])


def _tool(tool: Mapping[str, Any]) -> Tool:
    function = tool.get("function")
    name = function.get("name") if isinstance(function, Mapping) else tool.get("name")
    value = {k: v for k, v in tool.items() if k != "cache_control"}
    return Tool(str(name), json.dumps(value, ensure_ascii=False), value)


def _message(i: int, message: Mapping[str, Any], join: bool) -> Iterator[Part]:
    role = str(message.get("role"))
    kind = {"tool": "tool result", "developer": "system"}.get(role, role)
    label = f"message {i} ({role})"
    yield from _content(kind, label, message.get("content"), join)
    for call in message.get("tool_calls") or ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(function, Mapping):
            arguments = function.get("arguments")
            text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            yield Part("tool call", f"{label}, call of {function.get('name')}", text)


def _content(kind: str, label: str, content: Any, join: bool) -> Iterator[Part]:
    if isinstance(content, str):
        if content:
            yield Part(kind, label, content)
        return
    texts: list[str] = []
    blocks = content if isinstance(content, list) else []
    for j, block in enumerate(blocks):
        if not isinstance(block, Mapping):
            continue
        if isinstance(block.get("text"), str):
            if join:
                texts.append(block["text"])
            elif block["text"]:
                yield Part(kind, f"{label}, block {j}" if len(blocks) > 1 else label, block["text"])
            continue
        if texts:
            yield Part(kind, label, "".join(texts))
            texts = []
        yield from _block(kind, label, block, join)
    if texts:
        yield Part(kind, label, "".join(texts))


def _block(kind: str, label: str, block: Mapping[str, Any], join: bool) -> Iterator[Part]:
    match block.get("type"):
        case "tool_use":
            yield Part(
                "tool call", f"{label}, call of {block.get('name')}", json.dumps(block.get("input"), ensure_ascii=False)
            )
        case "tool_result":
            yield from _content("tool result", f"{label}, tool result", block.get("content"), join)
        case "image" | "image_url":
            yield Part("image", f"{label}, image", json.dumps(block, ensure_ascii=False, sort_keys=True))
        case _:
            yield Part(kind, f"{label}, {block.get('type')}", json.dumps(block, ensure_ascii=False, sort_keys=True))
