"""Captures: one line a request, its parts hashed. For a gateway or a proxy to write, for forensics to read.

    log = CaptureFile("capture.jsonl", secret=b"...")
    log.write("/v1/messages", body, usage, client="claude-cli/2.1.116", user="u17")

A line (`prefixproof-capture/1`) is a JSON object: `capture`, `time` (seconds since 1970 UTC), `entry`, `model`,
`client`, `user`, `conversation` (a hash of the first user message), `prompt_tokens`, `cached_tokens`,
`completion_tokens`, and `parts`: a list of objects with `path`, `sha` (16 hex digits of SHA-256), `bytes` and, where
they are known, `tokens`, `role` and `fields`. No text is written. `fields` are hashes of the values of Claude Code's
attribution text, whose form is public. Short texts can be guessed from a plain hash: give a `secret`, kept for as long
as lines are to be compared.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import threading
import time as clock
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from conformance.forensics.request import NOT_GIVEN, Part, Request, Skipped
from conformance.forensics.values import moment, whole
from conformance.sessions.attribution import ATTRIBUTION_PREFIX
from conformance.wire.jsontext import dumps, loads
from conformance.wire.usage import chat_usage, messages_usage

FORMAT: Final = "prefixproof-capture/1"
_SHA_DIGITS: Final = 16
_MARKS: Final = frozenset(("cache_control", "id", "tool_use_id", "tool_call_id"))
"""No part of a prompt: cache marks move every turn, ids are mapped by gateways."""

_FIELD = re.compile(r"([a-z_]{1,32})=([^;]*);")

Count = Callable[[str], int]


class CaptureFile:
    """Appends lines to a file. Safe to use from several threads of one process."""

    def __init__(self, path: str | Path, *, secret: bytes = b"", count: Count | None = None) -> None:
        """`count` turns a text into its number of tokens, where a tokenizer is at hand."""
        self._path = Path(path)
        self._secret = secret
        self._count = count
        self._lock = threading.Lock()

    def write(
        self,
        entry: str,
        body: bytes | Mapping[str, Any],
        usage: Mapping[str, Any] | None,
        *,
        client: str = "",
        user: str = "",
        time: float | None = None,
    ) -> None:
        """Append the line of one finished request. Raises ValueError as `capture_line` does, OSError as files do."""
        line = capture_line(
            entry, body, usage, client=client, user=user, time=time, secret=self._secret, count=self._count
        )
        with self._lock, self._path.open("ab") as file:
            file.write(line)


def capture_line(
    entry: str,
    body: bytes | Mapping[str, Any],
    usage: Mapping[str, Any] | None,
    *,
    client: str = "",
    user: str = "",
    time: float | None = None,
    secret: bytes = b"",
    count: Count | None = None,
) -> bytes:
    """The line of one request, with its newline.

    `entry` is the API path; one that ends in `/messages` has a Messages body and usage, any other Chat's. `usage` is
    the usage object of the final answer, None where there was none. `time` is in seconds since 1970 UTC; without
    it, now.
    Raises ValueError for a body that is no JSON object with a list of messages.
    """
    parsed = loads(body) if isinstance(body, bytes) else body
    if not isinstance(parsed, Mapping) or not isinstance(parsed.get("messages"), list):
        raise ValueError("the body is no Messages or Chat request: a JSON object with a list of messages")
    is_messages = entry.partition("?")[0].rstrip("/").endswith("/messages")
    counts = messages_usage(usage) if is_messages else chat_usage(usage)
    hasher = _Hasher(secret, count)
    parts = list(hasher.parts(parsed))
    line = {
        "capture": FORMAT,
        "time": clock.time() if time is None else time,
        "entry": entry.partition("?")[0],
        "model": str(parsed.get("model") or ""),
        "client": client,
        "user": user,
        "conversation": hasher.conversation(parsed),
        "prompt_tokens": counts.prompt,
        "cached_tokens": counts.cached,
        "completion_tokens": counts.output,
        "parts": parts,
    }
    return dumps(line) + b"\n"


class _Hasher:
    def __init__(self, secret: bytes, count: Count | None) -> None:
        self._secret = secret
        self._count = count

    def sha(self, data: bytes) -> str:
        digest = hmac.new(self._secret, data, "sha256") if self._secret else hashlib.sha256(data)
        return digest.hexdigest()[:_SHA_DIGITS]

    def conversation(self, body: Mapping[str, Any]) -> str:
        """A hash of the first message that is not the system's: the same through a conversation, until it is
        compacted."""
        for message in body["messages"]:
            if isinstance(message, Mapping) and message.get("role") not in ("system", "developer"):
                return self.sha(b"\0".join(text.encode("utf-8", "replace") for text in _texts(message)))
        return ""

    def parts(self, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        system = body.get("system")
        if isinstance(system, str):
            head, _, rest = system.partition("\n")
            if head.lstrip().startswith(ATTRIBUTION_PREFIX) and rest:
                yield self._part("system.line[0]", head, "system")
                yield self._part("system.rest", rest, "system")
            else:
                yield self._part("system", system, "system")
        elif isinstance(system, list):
            for i, block in enumerate(system):
                yield self._part(f"system[{i}]", _text(block), "system")
        if body.get("tools"):
            yield self._part("tools", _json(body["tools"]), "tools")
        for i, message in enumerate(body["messages"]):
            if isinstance(message, Mapping):
                role = str(message.get("role") or "")
                for j, text in enumerate(_texts(message)):
                    yield self._part(f"messages[{i}].content[{j}]", text, role)

    def _part(self, path: str, text: str, role: str) -> dict[str, Any]:
        data = text.encode("utf-8", "replace")
        part: dict[str, Any] = {"path": path, "sha": self.sha(data), "bytes": len(data), "role": role[:16]}
        if self._count is not None:
            part["tokens"] = self._count(text)
        if text.lstrip().startswith(ATTRIBUTION_PREFIX):
            head = text.partition("\n")[0]
            part["fields"] = {name: self.sha(value.encode("utf-8", "replace")) for name, value in _FIELD.findall(head)}
        return part


def _texts(message: Mapping[str, Any]) -> Iterator[str]:
    """The parts of a message. A string and a list of one text block are the same to a model, so they are here."""
    content = message.get("content")
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        yield from map(_text, content)
    for call in message.get("tool_calls") or ():
        yield _json(call)


def _text(block: Any) -> str:
    if isinstance(block, Mapping) and isinstance(block.get("text"), str):
        return str(block["text"])
    return _json(block)


def _json(value: Any) -> str:
    return dumps(_unmarked(value)).decode("utf-8", "replace")


def _unmarked(value: Any) -> Any:
    """A block, a tool or a list of them without marks; what is further in is the tool's own, and stays."""
    if isinstance(value, Mapping):
        return {
            name: _unmarked(item) if name == "content" else item for name, item in value.items() if name not in _MARKS
        }
    return [_unmarked(item) for item in value] if isinstance(value, list) else value


def capture_dict(request: Request) -> dict[str, Any]:
    """A request as the object of a line: what `read_capture` gives back."""
    return {
        "capture": FORMAT,
        "time": request.time,
        "entry": request.entry,
        "model": request.model,
        "client": request.client,
        "user": request.user,
        "conversation": request.session,
        "prompt_tokens": request.prompt,
        "cached_tokens": request.cached,
        "completion_tokens": request.answer,
        "parts": [_part_dict(part) for part in request.parts],
    }


def _part_dict(part: Part) -> dict[str, Any]:
    given: dict[str, Any] = {"path": part.path, "sha": part.sha, "bytes": part.size, "role": part.role}
    if part.tokens is not None:
        given["tokens"] = part.tokens
    if part.fields:
        given["fields"] = dict(part.fields)
    return given


def read_capture(value: Mapping[str, Any], label: Callable[[str], str] = str) -> Request:
    """The request in one parsed line. Raises Skipped."""
    prompt = whole(value.get("prompt_tokens"), "prompt tokens")
    cached = whole(value.get("cached_tokens"), "cached tokens")
    if not prompt:
        raise Skipped("prompt tokens are missing" if prompt is None else "prompt tokens are 0")
    if cached is None:
        raise Skipped("cached tokens are missing")
    if cached > prompt:
        raise Skipped("cached tokens exceed prompt tokens")
    time, _ = moment(value.get("time"))
    listed = value.get("parts")
    if not isinstance(listed, list):
        raise Skipped("parts are missing")
    entry, model, client, user = (_short(value.get(name)) for name in ("entry", "model", "client", "user"))
    if user != NOT_GIVEN:
        user = label(user)
    found = value.get("completion_tokens")
    answer = found if type(found) is int and found >= 0 else None
    conversation = value.get("conversation")
    session = conversation if isinstance(conversation, str) else ""
    return Request(time, entry, model, client, user, session, prompt, cached, tuple(map(_read_part, listed)), answer)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else ""
    return "".join(c if c.isprintable() else "?" for c in text.partition(" (")[0])[:60] or NOT_GIVEN


def _read_part(value: Any) -> Part:
    if not isinstance(value, Mapping):
        raise Skipped("a part is no object")
    path, sha, size = value.get("path"), value.get("sha"), value.get("bytes")
    if not isinstance(path, str) or not isinstance(sha, str) or type(size) is not int or size < 0 or not path:
        raise Skipped("a part lacks path, sha or bytes")
    tokens = value.get("tokens")
    fields = value.get("fields")
    pairs = fields.items() if isinstance(fields, Mapping) else ()
    return Part(
        _short(path),
        sha[:64],
        size,
        tokens if type(tokens) is int and tokens >= 0 else None,
        str(value.get("role") or "")[:16],
        tuple((_short(name), str(sha)[:64]) for name, sha in pairs),
    )
