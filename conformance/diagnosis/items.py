"""A request body as the pieces a prompt is made of, in order and in either dialect: what was sent, what arrived.

Unlike `prompt`, which reads what a template renders, this keeps ids, names, images, reasoning and the place of each
piece, so that a translation can be compared with its original.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from conformance.diagnosis.literal import loads_or_none, spelled
from conformance.diagnosis.prompt import Dialect
from conformance.wire import jsontext

_KINDS = {"tool": "tool result", "function": "tool result", "developer": "system"}


@dataclass(frozen=True, slots=True)
class Item:
    """One piece. `message` is -1 for the top-level system; `block` counts within the message.

    `text` of a tool call is its arguments as JSON text, of an image the SHA-256 of its bytes (or its address).
    """

    kind: str  # "system" | "user" | "assistant" | "tool call" | "tool result" | "image" | "thinking" | "other"
    text: str
    message: int
    block: int
    name: str = ""
    id: str = ""
    error: bool = False

    @property
    def place(self) -> str:
        """Where it stands, for a reader."""
        if self.message < 0:
            return f"system[{self.block}]"
        tail = f", call of {self.name}" if self.kind == "tool call" else f", block {self.block}"
        return f"message {self.message} ({self.kind}){tail if self.kind != 'system' else ''}"


@dataclass(frozen=True, slots=True)
class ToolItem:
    """One tool definition. `text` is all of it as compact JSON, in the order sent."""

    name: str
    description: Any
    schema: Any
    deferred: bool
    text: str


@dataclass(frozen=True)
class Request:
    """A request body, read. `fields` are its members besides the prompt, parsed plainly."""

    dialect: Dialect
    items: tuple[Item, ...]
    tools: tuple[ToolItem, ...]
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rendering(self) -> tuple[tuple[str, int, str, str], ...]:
        """What a template would show of the messages: kinds, messages, texts and the names of called tools.

        Text blocks of one message that stand side by side are one text, joined as vLLM joins them, by a line break.
        """
        shown: list[tuple[str, int, str, str]] = []
        for item in self.items:
            last = shown[-1] if shown else None
            if last and last[:2] == (item.kind, item.message) and item.kind not in ("tool call", "image", "other"):
                shown[-1] = (item.kind, item.message, f"{last[2]}\n{item.text}", "")
            else:
                shown.append((item.kind, item.message, item.text, item.name))
        return tuple(shown)

    def of(self, *kinds: str) -> list[Item]:
        """The pieces of these kinds, in order."""
        return [item for item in self.items if item.kind in kinds]

    def find(self, text: str) -> tuple[int, int] | None:
        """Where `text` first stands, as (index of its piece, characters into it); None if it does not."""
        for i, item in enumerate(self.items):
            at = item.text.find(text)
            if at >= 0:
                return i, at
        return None


def read_request(path: str, body: bytes) -> Request | None:
    """Read a body sent to `path`; None when it is no chat request."""
    parsed, plain = loads_or_none(body), jsontext.loads_or_none(body)
    if not isinstance(parsed, Mapping) or not isinstance(parsed.get("messages"), list):
        return None
    dialect = Dialect.MESSAGES if path.rstrip("/").endswith("/messages") else Dialect.CHAT
    items: list[Item] = []
    if dialect is Dialect.MESSAGES and parsed.get("system") is not None:
        items += _blocks("system", -1, parsed["system"], "")
    for i, message in enumerate(parsed["messages"]):
        if isinstance(message, Mapping):
            items += _message(i, message)
    offered = parsed.get("tools")
    tools = tuple(_tool(tool) for tool in (offered if isinstance(offered, list) else ()) if isinstance(tool, Mapping))
    fields = {k: v for k, v in plain.items() if k not in ("messages", "system", "tools")}
    return Request(dialect, tuple(items), tools, fields)


def _tool(tool: Mapping[str, Any]) -> ToolItem:
    function = tool.get("function")
    holder = function if isinstance(function, Mapping) else tool
    schema = holder.get("parameters", holder.get("input_schema"))
    return ToolItem(
        str(holder.get("name")),
        holder.get("description"),
        schema,
        tool.get("defer_loading") is True or holder.get("defer_loading") is True,
        spelled(tool),
    )


def _message(i: int, message: Mapping[str, Any]) -> Iterator[Item]:
    role = str(message.get("role"))
    kind = _KINDS.get(role, role)
    for name in ("reasoning_content", "reasoning"):
        if isinstance(message.get(name), str) and message[name]:
            yield Item("thinking", message[name], i, 0)
            break
    call_id = message.get("tool_call_id")
    error = bool(message.get("is_error")) or message.get("status") == "error"
    yield from _blocks(kind, i, message.get("content"), call_id if isinstance(call_id, str) else "", error)
    calls = message.get("tool_calls")
    for j, call in enumerate(calls if isinstance(calls, list) else ()):
        function = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(function, Mapping):
            arguments = function.get("arguments")
            text = arguments if isinstance(arguments, str) else spelled(arguments)
            yield Item("tool call", text, i, j, str(function.get("name")), str(call.get("id", "")))


def _blocks(kind: str, i: int, content: Any, call_id: str, error: bool = False) -> Iterator[Item]:
    if isinstance(content, str):
        if content or kind == "tool result":
            yield Item(kind, content, i, 0, id=call_id, error=error)
        return
    for j, block in enumerate(content if isinstance(content, list) else ()):
        if isinstance(block, Mapping):
            yield from _block(kind, i, j, block, call_id, error)


def _block(kind: str, i: int, j: int, block: Mapping[str, Any], call_id: str, error: bool) -> Iterator[Item]:
    match block.get("type"):
        case "text" if isinstance(block.get("text"), str):
            yield Item(kind, block["text"], i, j, id=call_id, error=error)
        case "tool_use":
            yield Item("tool call", spelled(block.get("input")), i, j, str(block.get("name")), str(block.get("id", "")))
        case "tool_result":
            for inner in _blocks(
                "tool result",
                i,
                block.get("content", ""),
                str(block.get("tool_use_id", "")),
                block.get("is_error") is True,
            ):
                yield Item(inner.kind, inner.text, i, j, inner.name, inner.id, inner.error)
        case "image":
            yield Item("image", _image(block.get("source")), i, j, id=call_id)
        case "image_url":
            holder = block.get("image_url")
            url = holder.get("url") if isinstance(holder, Mapping) else holder
            yield Item("image", _image_url(str(url)), i, j, id=call_id)
        case "thinking":
            yield Item("thinking", str(block.get("thinking")), i, j)
        case "tool_reference":
            yield Item("other", f"tool reference {block.get('tool_name')}", i, j, id=call_id)
        case _:
            yield Item("other", spelled(block), i, j, id=call_id)


def _image(source: Any) -> str:
    if not isinstance(source, Mapping):
        return "no source"
    if source.get("type") == "base64":
        return _digest(str(source.get("data")))
    return str(source.get("url"))


def _image_url(url: str) -> str:
    head, comma, data = url.partition(",")
    return _digest(data) if comma and head.startswith("data:") and head.endswith(";base64") else url


def _digest(data: str) -> str:
    try:
        return "sha256:" + hashlib.sha256(base64.b64decode("".join(data.split()), validate=True)).hexdigest()
    except (binascii.Error, ValueError):
        return "not base64"
