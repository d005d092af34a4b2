"""What a report may show of a request or an answer: no secrets, no foreign text, nothing long.

Text the suite did not send itself belongs to somebody (a tenant, a gateway's own system prompt, a model). It is shown
by its shape only: every letter as `a`, every digit as `9`, punctuation and white space as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import orjson

REDACTED = "[redacted]"
SHOWN_ENDS = 120
"""Characters kept at each end of a long text."""

Own = Callable[[str], bool]

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
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$.\-]{0,63}")
_PROTOCOL_WORD = re.compile(r"[\w./:\-]{0,80}")
_PROTOCOL_KEYS = frozenset(
    ("role", "type", "object", "model", "finish_reason", "stop_reason", "id", "tool_call_id", "tool_use_id")
)
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")


def redact_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers with credentials and cookies replaced; names stay as they are."""
    return {
        name: REDACTED if _SECRET_NAME.search(name) else hide_secrets(_cut(value)) for name, value in headers.items()
    }


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


def mask(text: str) -> str:
    """The shape of a text: letters as `a`, digits as `9`, all else as it is."""
    return _LETTER.sub("a", _DIGIT.sub("9", text))


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
        return hide_secrets(value)
    return _text(value, own)


def _name(name: str, own: Own) -> str:
    return name if _IDENTIFIER.fullmatch(name) else _text(name, own)


def _text(text: str, own: Own) -> str:
    # Secrets go first: cutting could leave half of one, which no pattern knows any more.
    hidden = hide_secrets(text)
    return _cut(hidden if own(text) else mask(hidden).replace(mask(REDACTED), REDACTED))


def _stream_line(line: str, own: Own) -> str:
    if not line.startswith("data:"):
        return line if re.fullmatch(r"(event: ?[\w.\-]{0,60})?", line) else _text(line, own)
    data = line[5:].strip()
    if data == "[DONE]":
        return line
    try:
        return "data: " + json.dumps(_json(orjson.loads(data), own), ensure_ascii=False)
    except orjson.JSONDecodeError:
        return "data: " + _text(data, own)


def _cut(text: str) -> str:
    if len(text) <= 2 * SHOWN_ENDS + 40:
        return text
    return f"{text[:SHOWN_ENDS]} …[{len(text)} characters in all]… {text[-SHOWN_ENDS:]}"
