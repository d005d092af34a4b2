"""Typed reading of JSON objects; a value of the wrong type is a `BadRequest` that names the field."""

from collections.abc import Mapping

import orjson

from engine.embedded.errors import BadRequest
from engine.embedded.templates import Json

_JSON_NAMES = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    list: "a list",
    dict: "an object",
}


def parse_object(data: bytes) -> Json:
    """A request body as a JSON object. Raises `BadRequest`; the message never quotes the body."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise BadRequest(f"The request body is not valid JSON ({place}).") from None
    return as_object(value, "the request body")


def as_object(value: object, name: str) -> Json:
    """`value` as an object."""
    if not isinstance(value, dict):
        raise _wrong(value, name, dict)
    return value


def as_list(value: object, name: str) -> list[object]:
    """`value` as a list."""
    if not isinstance(value, list):
        raise _wrong(value, name, list)
    return value


def as_text(value: object, name: str) -> str:
    """`value` as a string."""
    if not isinstance(value, str):
        raise _wrong(value, name, str)
    return value


def text(fields: Mapping[str, object], name: str, default: str | None = None) -> str | None:
    """A string field; absent and null give the default."""
    value = fields.get(name)
    return default if value is None else as_text(value, name)


def flag(fields: Mapping[str, object], name: str, default: bool = False) -> bool:
    """A boolean field; absent and null give the default."""
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise _wrong(value, name, bool)
    return value


def whole(fields: Mapping[str, object], name: str, *, least: int) -> int | None:
    """An integer field of at least `least`; None when absent or null."""
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(value, name, int)
    if value < least:
        raise BadRequest(f"{name} must be at least {least}, got {value}.", name)
    return value


def check_number(fields: Mapping[str, object], name: str, least: float, most: float) -> None:
    """A number field without effect here: only its type and range are looked at."""
    value = fields.get(name)
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(value, name, float)
    if not least <= value <= most:
        raise BadRequest(f"{name} must be between {least} and {most}, got {value}.", name)


def _wrong(value: object, name: str, wanted: type) -> BadRequest:
    got = "null" if value is None else _JSON_NAMES.get(type(value), type(value).__name__)
    return BadRequest(f"{name} must be {_JSON_NAMES[wanted]}, got {got}.", name)
