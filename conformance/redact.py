"""What a report may show of a request or an answer: no secrets, no foreign text, nothing long.

Text the suite did not send itself belongs to somebody (a tenant, a gateway's own system prompt, a model). It is shown
by its shape only (`conformance.masks`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import orjson

from conformance.keys import REDACTED
from conformance.masks import Own, mask, shape
from conformance.vocabulary import Vocabulary

SHOWN_ENDS = 120
"""Characters kept at each end of a long text."""

_SECRET_NAME = re.compile(
    r"authorization|cookie|api[-_]?key|secret|password|passwd|credential|(?:access|auth|id|refresh|session|security)[-_]?token"
    r"|^token$|^x-[a-z-]*(?:key|token)$",
    re.IGNORECASE,
)
_SECRET_TEXT = (
    (re.compile(r"\bsk-[A-Za-z0-9_\-]{6,}"), REDACTED),
    (re.compile(r"\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=\-]{6,}", re.IGNORECASE), rf"\1 {REDACTED}"),
    (re.compile(r"\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]*"), REDACTED),
    (re.compile(r"(?<=://)[^/\s@\"']+@"), f"{REDACTED}@"),
    (re.compile(r"([?&][\w-]*(?:key|token|secret|password|sig)[\w-]*=)[^&\s\"'#]+", re.IGNORECASE), rf"\1{REDACTED}"),
    (re.compile(r"(\b(?:x-)?api[-_]key[\"']?\s*[:=]\s*[\"']?)[^\s\"',;]{6,}", re.IGNORECASE), rf"\1{REDACTED}"),
)
_PROTOCOL_WORD = re.compile(r"[\w./:\-]{0,80}")
_PROTOCOL_KEYS = frozenset(
    ("role", "type", "object", "model", "finish_reason", "stop_reason", "id", "tool_call_id", "tool_use_id", "code")
)
_PROTOCOL = Vocabulary()


def redact_body(body: Any, own: Own) -> str:
    """A body as text to show: parsed JSON or raw bytes (JSON, a server-sent event stream, or plain text).

    `own` says whether the suite itself wrote a text. JSON is indented by two spaces and keeps its key order.
    """
    if not isinstance(body, (bytes, bytearray, memoryview)):
        return _pretty(body, own)
    data = bytes(body)
    if not data:
        return "(empty)"
    try:
        return _pretty(orjson.loads(data), own)
    except orjson.JSONDecodeError:
        lines = data.decode("utf-8", errors="replace").splitlines()
        if any(line.startswith("data:") for line in lines):
            return "\n".join(_stream_line(line, own) for line in lines)
        return _text("\n".join(lines), own)


def hide_secrets(text: str) -> str:
    """The text with everything replaced that looks like a credential."""
    for pattern, replacement in _SECRET_TEXT:
        text = pattern.sub(replacement, text)
    return text


def public_url(url: str) -> str:
    """A URL without user, password, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _pretty(value: Any, own: Own) -> str:
    return json.dumps(_json(value, own), ensure_ascii=False, indent=2, default=str)


def _json(value: Any, own: Own, key: str = "") -> Any:
    if isinstance(value, Mapping):
        return {_name(str(name), own): _json(item, own, str(name)) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(item, own, key) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return f"({len(value)} bytes)"
    if not isinstance(value, str):
        return value
    if _SECRET_NAME.search(key):
        return REDACTED
    if key in _PROTOCOL_KEYS and _PROTOCOL_WORD.fullmatch(value):
        return _protocol_word(value, own)
    return _text(value, own)


def _protocol_word(value: str, own: Own) -> str:
    """Names and ids of a protocol stand where they are known; of others, e.g. a made-up id, the shape."""
    hidden = hide_secrets(value)
    return hidden if own(hidden) else _PROTOCOL.spoken(hidden)


def _name(name: str, own: Own) -> str:
    return _protocol_word(name, own) if _PROTOCOL_WORD.fullmatch(name) else _text(name, own)


def _text(text: str, own: Own) -> str:
    """Secrets go first: cutting could leave half of one, which no pattern knows any more."""
    hidden = hide_secrets(text)
    if len(hidden) <= 2 * SHOWN_ENDS + 40:
        return _masked(hidden, own)
    head, tail = hidden[:SHOWN_ENDS], hidden[-SHOWN_ENDS:]
    if not own(hidden):
        head, tail = _masked(head, own), _masked(tail, own)
    return f"{head} …[{len(hidden)} characters in all]… {tail}"


def _masked(text: str, own: Own) -> str:
    return mask(text, own).replace(shape(REDACTED), REDACTED)


def _stream_line(line: str, own: Own) -> str:
    if not line.startswith("data:"):
        named = re.fullmatch(r"(event: ?)([\w.\-]{0,60})", line)
        return f"{named[1]}{_PROTOCOL.spoken(named[2])}" if named else _text(line, own)
    data = line[5:].strip()
    if data == "[DONE]":
        return line
    try:
        return "data: " + json.dumps(_json(orjson.loads(data), own), ensure_ascii=False)
    except orjson.JSONDecodeError:
        return "data: " + _text(data, own)
