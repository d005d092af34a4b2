"""Does everything a client sent arrive upstream, and nothing else? Compared text by text, tool by tool."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from conformance.diagnosis.prompt import Part, Tool, UpstreamPrompt

_TAKEN = "\x00"

_SPEAKERS: dict[str, frozenset[str]] = {
    "system": frozenset(("system",)),
    "user": frozenset(("user",)),
    "assistant": frozenset(("assistant",)),
    # Behind an upstream without a tool role a result can only be a user's text; where it stands is CON-02's business.
    "tool result": frozenset(("tool result", "function", "user")),
}
"""Whose text the client sent -> as whose it may arrive. `developer` is read as system."""


@dataclass(frozen=True)
class ContentDifference:
    """One thing that did not arrive, or that the client did not send. `text` is upstream's or the client's own.

    `sent` and `got` are the JSON text of the first difference inside a tool definition, "" where there is nothing; of a
    text in another's mouth whose it was and whose it became.
    """

    code: str  # "text-" dropped | respaced | added, "role-changed", "tool-" dropped | added, "schema-changed"
    where: str
    text: str
    sent: str = ""
    got: str = ""


def content_differences(client: UpstreamPrompt, upstream: UpstreamPrompt) -> list[ContentDifference]:
    """What differs between the client's request (parsed without joining blocks) and the upstream's.

    White space and punctuation between texts are separators, not content. Tool-call arguments and schemas are
    compared as JSON values: spelling and key order are other rules' business.
    """
    return _tools(client.tools, upstream.tools) + _texts(client.parts, upstream.parts)


def _tools(client: tuple[Tool, ...], upstream: tuple[Tool, ...]) -> list[ContentDifference]:
    arrived = {tool.name: tool for tool in upstream}
    found = []
    for tool in client:
        if tool.name not in arrived:
            found.append(ContentDifference("tool-dropped", f"tool {tool.name}", ""))
            continue
        sent, got = _function(tool), _function(arrived[tool.name])
        for key in ("description", "parameters"):
            change = _first_change(sent.get(key), got.get(key), key)
            if change is not None:
                found.append(ContentDifference("schema-changed", f"tool {tool.name}", *change))
    sent_names = {tool.name for tool in client}
    found += [ContentDifference("tool-added", f"tool {t.name}", "") for t in upstream if t.name not in sent_names]
    return found


def _function(tool: Tool) -> Mapping[str, Any]:
    value = tool.value.get("function")
    if isinstance(value, Mapping):
        return value
    return {"description": tool.value.get("description"), "parameters": tool.value.get("input_schema")}


def _first_change(sent: Any, got: Any, path: str) -> tuple[str, str, str] | None:
    """What happened first between two JSON values, and where; then that place as sent and as it arrived; or None."""
    if isinstance(sent, Mapping) and isinstance(got, Mapping):
        for key, value in sent.items():
            if key not in got:
                return f"{path}.{key} dropped", _member(key, value), ""
            if deeper := _first_change(value, got[key], f"{path}.{key}"):
                return deeper
        added = next((key for key in got if key not in sent), None)
        return None if added is None else (f"{path}.{added} added", "", _member(added, got[added]))
    if isinstance(sent, list) and isinstance(got, list) and len(sent) == len(got):
        pairs = enumerate(zip(sent, got, strict=True))
        return next((c for i, (a, b) in pairs if (c := _first_change(a, b, f"{path}[{i}]"))), None)
    if sent == got and isinstance(sent, bool) == isinstance(got, bool):
        return None
    return f"{path} changed", json.dumps(sent, ensure_ascii=False), json.dumps(got, ensure_ascii=False)


def _member(key: str, value: Any) -> str:
    return f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}"


def _texts(client: tuple[Part, ...], upstream: tuple[Part, ...]) -> list[ContentDifference]:
    left = [part.text for part in upstream]
    calls = [part.kind == "tool call" for part in upstream]
    found = []
    # Longest first: a short text must not be taken out of the middle of a longer one.
    for part in sorted(client, key=lambda p: -len(p.text)):
        if part.kind == "tool call":
            at = next((i for i, text in enumerate(left) if calls[i] and _same_json(part.text, text)), None)
            if at is not None:
                left[at] = _TAKEN
        else:
            wanted = part.text.strip()
            places = [i for i, text in enumerate(left) if not calls[i] and wanted in text]
            roles = _SPEAKERS.get(part.kind)
            # A short text may stand in anybody's: its own speaker's is looked at first.
            at = next((i for i in places if roles is None or upstream[i].kind in roles), places[0] if places else None)
            if at is not None:
                left[at] = left[at].replace(wanted, _TAKEN, 1)
                if wanted and roles is not None and upstream[at].kind not in roles:
                    found.append(ContentDifference("role-changed", part.label, part.text, part.kind, upstream[at].kind))
        if at is None:
            found.append(_respaced(part, left, calls) or ContentDifference("text-dropped", part.label, part.text))
    for part, text in zip(upstream, left, strict=True):
        rest = text.replace(_TAKEN, " ").strip()
        if re.search(r"\w", rest) and part.kind != "tool call":
            found.append(ContentDifference("text-added", part.label, rest))
    found += [
        ContentDifference("text-added", part.label, text)
        for part, text, call in zip(upstream, left, calls, strict=True)
        if call and text != _TAKEN
    ]
    return found


def _respaced(part: Part, left: list[str], calls: list[bool]) -> ContentDifference | None:
    """The difference if the text arrives with other white space; takes it out of what is left."""
    words = part.text.split()
    if part.kind == "tool call" or not words:
        return None
    pattern = re.compile(r"\s+".join(map(re.escape, words)))
    for i, text in enumerate(left):
        if not calls[i] and (match := pattern.search(text)):
            left[i] = text[: match.start()] + _TAKEN + text[match.end() :]
            return ContentDifference("text-respaced", part.label, part.text, part.text.strip(), match.group())
    return None


def _same_json(a: str, b: str) -> bool:
    try:
        return bool(json.loads(a) == json.loads(b))
    except ValueError:
        return a == b
