"""Numbers as people read them."""

from __future__ import annotations

UNKNOWN = "unknown"
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def count(value: float | None, what: str = "") -> str:
    """A whole number with separators."""
    shown = UNKNOWN if value is None else f"{value:,.0f}"
    return f"{shown} {what}".rstrip()


def size(value: float | None) -> str:
    """Bytes, in decimal units."""
    if value is None:
        return UNKNOWN
    unit = 0
    while value >= 1_000 and unit < len(_UNITS) - 1:
        value /= 1_000
        unit += 1
    return f"{value:,.0f} {_UNITS[unit]}" if unit == 0 or value >= 100 else f"{value:,.3g} {_UNITS[unit]}"


def share(part: float | None, whole: float | None) -> str:
    """A part of a whole in per cent."""
    if part is None or whole is None:
        return UNKNOWN
    return f"{100 * part / whole:.1f} %" if whole else "of nothing"


def table(rows: list[tuple[str, str]]) -> str:
    """Names and values in two columns."""
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}".rstrip() for name, value in rows)
