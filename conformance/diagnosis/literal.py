"""JSON values that remember how their numbers were written, and how two of them differ."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any


class Number(str):
    """A JSON number as it was spelled. Two are one value when they are numerically equal."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two values part. `sent` and `got` are JSON text, "" where there is nothing.

    `same_value` is True where only the spelling or the order of keys differs.
    """

    path: str
    kind: str
    sent: str
    got: str
    same_value: bool


def loads(text: bytes | str) -> Any:
    """Parse JSON, numbers as `Number`. Raises `ValueError` for anything else."""
    return json.loads(text, parse_float=Number, parse_int=Number)


def loads_or_none(text: Any) -> Any:
    """Parse JSON text, or None when it is none."""
    if not isinstance(text, (str, bytes)):
        return None
    try:
        return loads(text)
    except (ValueError, RecursionError):
        return None


def spelled(value: Any) -> str:
    """A value as compact JSON: numbers as they were written, keys in their order, no needless escapes."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json.dumps(k, ensure_ascii=False)}:{spelled(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(spelled, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def difference(sent: Any, got: Any, path: str = "") -> Difference | None:
    """The first difference of value between two parsed texts; without one, the first of spelling or key order."""
    return value_difference(sent, got, path) or spelling_difference(sent, got, path)


def value_difference(sent: Any, got: Any, path: str = "") -> Difference | None:
    """The first place where the values differ. The order of keys and the spelling of numbers are no values."""
    if isinstance(sent, Mapping) and isinstance(got, Mapping):
        for key, value in sent.items():
            here = _member(path, key)
            if key not in got:
                return Difference(here, "value dropped", spelled(value), "", False)
            if found := value_difference(value, got[key], here):
                return found
        added = next((key for key in got if key not in sent), None)
        return (
            None if added is None else Difference(_member(path, added), "value added", "", spelled(got[added]), False)
        )
    if isinstance(sent, list) and isinstance(got, list):
        if len(sent) != len(got):
            return Difference(path, "list length changed", spelled(sent), spelled(got), False)
        pairs = enumerate(zip(sent, got, strict=True))
        return next((found for i, (a, b) in pairs if (found := value_difference(a, b, f"{path}[{i}]"))), None)
    if isinstance(sent, Number) and isinstance(got, Number):
        return None if _equal(sent, got) else Difference(path, "number re-spelled", str(sent), str(got), False)
    if type(sent) is type(got) and sent == got:
        return None
    kind = "unicode re-spelled" if _unicode_only(sent, got) else "value changed"
    return Difference(path, kind, spelled(sent), spelled(got), False)


def spelling_difference(sent: Any, got: Any, path: str = "") -> Difference | None:
    """The first place where equal values are written differently: a number's spelling, or the order of keys."""
    if isinstance(sent, Mapping) and isinstance(got, Mapping):
        if found := order_difference(sent, got, path, deep=False):
            return found
        pairs = ((spelling_difference(v, got[k], _member(path, k))) for k, v in sent.items() if k in got)
        return next((found for found in pairs if found), None)
    if isinstance(sent, list) and isinstance(got, list):
        pairs = (spelling_difference(a, b, f"{path}[{i}]") for i, (a, b) in enumerate(zip(sent, got, strict=False)))
        return next((found for found in pairs if found), None)
    if isinstance(sent, Number) and isinstance(got, Number) and str(sent) != str(got):
        return Difference(path, "number re-spelled", str(sent), str(got), True)
    return None


def order_difference(sent: Any, got: Any, path: str = "", *, deep: bool = True) -> Difference | None:
    """The first object whose keys, as far as both have them, come in another order."""
    if isinstance(sent, Mapping) and isinstance(got, Mapping):
        before, after = [k for k in sent if k in got], [k for k in got if k in sent]
        if before != after:
            was, now = (json.dumps(keys, ensure_ascii=False) for keys in (before, after))
            return Difference(path or "the object itself", "keys re-ordered", was, now, True)
        if deep:
            pairs = (order_difference(v, got[k], _member(path, k)) for k, v in sent.items() if k in got)
            return next((found for found in pairs if found), None)
    if deep and isinstance(sent, list) and isinstance(got, list):
        pairs = (order_difference(a, b, f"{path}[{i}]") for i, (a, b) in enumerate(zip(sent, got, strict=False)))
        return next((found for found in pairs if found), None)
    return None


def _member(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _equal(a: Number, b: Number) -> bool:
    try:
        return Decimal(a) == Decimal(b)
    except InvalidOperation:
        return str(a) == str(b)


def _unicode_only(sent: Any, got: Any) -> bool:
    if not (isinstance(sent, str) and isinstance(got, str)) or isinstance(sent, Number) or isinstance(got, Number):
        return False
    return "".join(c for c in sent if c.isascii() and c.isalnum()) == "".join(
        c for c in _unescaped(got) if c.isascii() and c.isalnum()
    )


def _unescaped(text: str) -> str:
    """`text` without `\\uXXXX` sequences that an escaper left in it."""
    return re.sub(r"\\u[0-9a-fA-F]{4}", "", text)
