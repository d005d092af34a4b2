"""JSON that keeps what a model sees: number spelling, key order, every character.

A prompt is text, so ``1.0`` must not become ``1`` and an integer above 2**53 must not become a float on its way
through a gateway. ``parse`` keeps such literals and where each top-level member stands, so that a body can be
forwarded with one value replaced and every other byte as it came.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

_SPACE = re.compile(r"[ \t\n\r]*")
_INT64_DIGITS = 18


class JSONTextError(ValueError):
    """The text is not JSON, or not the JSON asked for. The message quotes positions, never content."""


class FloatLiteral(float):
    """A float that remembers how it was written."""

    raw: str


class IntLiteral(int):
    """An integer whose spelling a 64-bit writer would lose (``-0``, more than 18 digits)."""

    raw: str


@dataclass(frozen=True)
class Document:
    """A parsed JSON object and the places of its members.

    ``spans[key]`` is the half-open character range of that member's value in ``text``.
    """

    text: str
    value: dict[str, Any]
    spans: Mapping[str, tuple[int, int]]
    end: int
    """Index of the closing brace."""

    def with_members(self, members: Mapping[str, Any]) -> bytes:
        """The same text with some top-level members set: present ones replaced in place, new ones appended."""
        pieces: list[str] = []
        position = 0
        replaced = sorted((self.spans[key], key) for key in members if key in self.spans)
        for (start, end), key in replaced:
            pieces += (self.text[position:start], dumps(members[key]).decode())
            position = end
        tail = self.text[position : self.end]
        kept = tail.rstrip(" \t\r\n")
        pieces.append(kept)
        comma = "," if self.value else ""
        for key, value in members.items():
            if key not in self.spans:
                pieces.append(f"{comma}{dumps(key).decode()}:{dumps(value).decode()}")
                comma = ","
        pieces += (tail[len(kept) :], self.text[self.end :])
        return _encode("".join(pieces))


def _float(raw: str) -> FloatLiteral:
    value = FloatLiteral(raw)
    value.raw = raw
    return value


def _int(raw: str) -> int:
    if len(raw) <= _INT64_DIGITS and raw != "-0":
        return int(raw)
    try:
        value = IntLiteral(raw)
    except ValueError as error:
        raise JSONTextError("a number has more digits than can be read") from error
    value.raw = raw
    return value


def _constant(name: str) -> Any:
    raise JSONTextError(f"{name} is not a JSON number")


_decoder = json.JSONDecoder(parse_float=_float, parse_int=_int, parse_constant=_constant)


def _decode(data: bytes | str) -> str:
    if isinstance(data, str):
        return data
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JSONTextError(f"byte {error.start} is not UTF-8") from error


def _encode(text: str) -> bytes:
    # A lone surrogate can only stand inside a JSON string, where its backslash form is the right escape.
    return text.encode("utf-8", "backslashreplace")


def loads(data: bytes | str) -> Any:
    """Parse JSON keeping number literals.

    Raises:
        JSONTextError: not UTF-8, not JSON, NaN or Infinity, or nested deeper than the interpreter can follow.
    """
    try:
        return _decoder.decode(_decode(data))
    except json.JSONDecodeError as error:
        raise JSONTextError(f"{error.msg} at line {error.lineno} column {error.colno}") from error
    except RecursionError as error:
        raise JSONTextError("nested too deeply") from error


def parse(data: bytes | str) -> Document:
    """Parse a JSON object keeping number literals and the place of each top-level member.

    Raises:
        JSONTextError: as ``loads``; also if it is not an object or names a member twice.
    """
    text = _decode(data)
    try:
        return _parse_object(text)
    except json.JSONDecodeError as error:
        raise JSONTextError(f"{error.msg} at line {error.lineno} column {error.colno}") from error
    except RecursionError as error:
        raise JSONTextError("nested too deeply") from error


def _skip(text: str, index: int) -> int:
    match = _SPACE.match(text, index)
    return match.end() if match else index


def _parse_object(text: str) -> Document:
    index = _skip(text, 0)
    if text[index : index + 1] != "{":
        _decoder.decode(text)
        raise JSONTextError("it is not a JSON object")
    value: dict[str, Any] = {}
    spans: dict[str, tuple[int, int]] = {}
    index = _skip(text, index + 1)
    while text[index : index + 1] != "}":
        if value:
            if text[index : index + 1] != ",":
                raise json.JSONDecodeError("Expecting ',' delimiter", text, index)
            index = _skip(text, index + 1)
        if text[index : index + 1] != '"':
            raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, index)
        key, index = _decoder.raw_decode(text, index)
        index = _skip(text, index)
        if text[index : index + 1] != ":":
            raise json.JSONDecodeError("Expecting ':' delimiter", text, index)
        start = _skip(text, index + 1)
        member, index = _decoder.raw_decode(text, start)
        if key in value:
            # Two readers may pick different ones, so what was checked might not be what is obeyed.
            raise JSONTextError("a top-level member is named twice")
        value[key] = member
        spans[key] = (start, index)
        index = _skip(text, index)
    if _skip(text, index + 1) != len(text):
        raise json.JSONDecodeError("Extra data", text, index + 1)
    return Document(text, value, spans, index)


def _literal(value: object) -> orjson.Fragment:
    if isinstance(value, FloatLiteral | IntLiteral):
        return orjson.Fragment(value.raw)
    raise TypeError


def dumps(value: Any) -> bytes:
    """Compact JSON in UTF-8: keys in their order, numbers as they were written, no needless escapes.

    Raises:
        JSONTextError: nested deeper than the interpreter can follow.
    """
    try:
        return orjson.dumps(value, default=_literal, option=orjson.OPT_PASSTHROUGH_SUBCLASS)
    except TypeError:
        # Lone surrogates, integers above 64 bits and nesting above 254 are legal JSON that orjson refuses.
        try:
            return _encode(_write(value))
        except RecursionError as error:
            raise JSONTextError("nested too deeply") from error


def _write(value: Any) -> str:
    if isinstance(value, dict):
        members = (f"{json.dumps(key, ensure_ascii=False)}:{_write(item)}" for key, item in value.items())
        return "{" + ",".join(members) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_write, value)) + "]"
    if isinstance(value, FloatLiteral | IntLiteral):
        return value.raw
    return json.dumps(value, ensure_ascii=False)


def quick_loads(data: bytes | str) -> Any:
    """Parse JSON whose numbers are only counts; falls back to ``loads`` where orjson is too strict."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return loads(data)
