"""Type checks on a client's JSON that name the place and the remedy."""

from typing import Any

from ..errors import BadRequest

Json = dict[str, Any]


def an_object(value: Any, place: str) -> Json:
    """``value`` if it is an object; raises BadRequest otherwise."""
    if not isinstance(value, dict):
        raise BadRequest(place, f"must be an object, not {_kind(value)}")
    return value


def a_list(value: Any, place: str) -> list[Any]:
    """``value`` if it is a list; raises BadRequest otherwise."""
    if not isinstance(value, list):
        raise BadRequest(place, f"must be a list, not {_kind(value)}")
    return value


def a_string(value: Any, place: str) -> str:
    """``value`` if it is a string; raises BadRequest otherwise."""
    if not isinstance(value, str):
        raise BadRequest(place, f"must be a string, not {_kind(value)}")
    return value


def a_boolean(value: Any, place: str) -> bool:
    """``value`` if it is a boolean; raises BadRequest otherwise."""
    if not isinstance(value, bool):
        raise BadRequest(place, f"must be true or false, not {_kind(value)}")
    return value


def a_number(value: Any, place: str) -> int | float:
    """``value`` if it is a number; raises BadRequest otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadRequest(place, f"must be a number, not {_kind(value)}")
    return value


def an_integer(value: Any, place: str, *, at_least: int) -> int:
    """``value`` if it is an integer of at least ``at_least``; raises BadRequest otherwise."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadRequest(place, f"must be an integer, not {_kind(value)}")
    if value < at_least:
        raise BadRequest(place, f"must be {at_least} or more")
    return value


def required(body: Json, key: str, place: str = "") -> Any:
    """The member ``key``; raises BadRequest if it is absent."""
    if key not in body:
        raise BadRequest(f"{place}{key}", "is required")
    return body[key]


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    for kind, name in ((dict, "an object"), (list, "a list"), (str, "a string")):
        if isinstance(value, kind):
            return name
    return "a number"
