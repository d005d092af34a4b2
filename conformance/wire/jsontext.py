"""JSON as it came: integers stay integers however long, and whatever was parsed can be written again."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import orjson

_LONG_NUMBER = re.compile(rb"[0-9]{19}")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def loads(text: bytes | str) -> Any:
    """Parse JSON. Raises `ValueError` for anything else, `NaN` and `Infinity` included.

    orjson turns integers beyond 64 bits into floats; they take the slower way here.
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if _LONG_NUMBER.search(data):
        return json.loads(data, parse_constant=_no_constant)
    return orjson.loads(data)


def loads_or_none(text: bytes | str) -> Any:
    """Parse JSON, or None when it is no JSON (which a JSON `null` also gives)."""
    try:
        return loads(text)
    except (ValueError, RecursionError):
        return None


def dumps(value: Any) -> bytes:
    """Compact UTF-8 JSON, keys in the order given. Raises `TypeError` for what JSON cannot hold."""
    try:
        return orjson.dumps(value)
    except TypeError:
        # Integers beyond 64 bits and lone surrogates are JSON all the same.
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode("utf-8", "backslashreplace")
