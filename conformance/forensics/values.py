"""Times and counts as logs spell them: epochs in four units, ISO 8601 with and without zone, numbers as text."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from conformance.forensics.request import Skipped

EARLIEST, LATEST = 978_307_200.0, 4_102_444_800.0
"""2001 to 2100, in seconds: what lies outside is no time of a request, or is in another unit."""

EPOCH_UNITS = (("seconds", 1.0), ("milliseconds", 1e3), ("microseconds", 1e6), ("nanoseconds", 1e9))
"""No second of 2001 to 2100 is also a millisecond of these years, and so on: the size of a number tells its unit."""

MOST_TOKENS = 1_000_000_000
"""No prompt is longer; what is, is no count of tokens."""

GAPS = frozenset(("", "null", "none", "nan", "n/a", "-", "\\n", "undefined"))
"""How exports spell a missing value, in lower case (`\\N` is a database's)."""

_NUMBER = re.compile(r"[+-]?\d{1,25}(\.\d{1,12})?")
_SPACED_ZONE = re.compile(r"\s+(UTC|GMT|Z|[+-]\d\d:?\d\d)$")


def is_gap(value: Any) -> bool:
    """True for what stands where a value is missing."""
    return value is None or (isinstance(value, str) and value.strip().lower() in GAPS)


def whole(value: Any, what: str) -> int | None:
    """A token count: None where it is missing. Raises Skipped for everything that is no count.

    Whole numbers written as text or with `.0` are counts: tables pass through programs that write them so.
    """
    if type(value) is int:
        number = value
    elif is_gap(value):
        return None
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    elif isinstance(value, str) and _NUMBER.fullmatch(text := value.strip()):
        if not float(text).is_integer():
            raise Skipped(f"{what} are no whole number")
        number = int(text.partition(".")[0])
    else:
        raise Skipped(f"{what} are no whole number")
    if number < 0:
        raise Skipped(f"{what} are negative")
    if number > MOST_TOKENS:
        raise Skipped(f"{what} are above {MOST_TOKENS:,}")
    return number


def moment(value: Any, offset_s: int = 0) -> tuple[float, str]:
    """Seconds since 1970 UTC, and how the time was spelled: an epoch's unit, "with zone" or "without zone".

    A time without a zone is local time of `offset_s`, seconds east of UTC. Raises Skipped for a missing or unreadable
    time, and for a date without a time of day: requests of a day could not be put in order.
    """
    if is_gap(value):
        raise Skipped("time is missing")
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise Skipped("time is unreadable")
    if isinstance(value, str):
        text = value.strip()
        if not _NUMBER.fullmatch(text):
            return _iso(text, offset_s)
        value = float(text)
    return _epoch(value)


def utc_offset(text: str) -> int:
    """Seconds east of UTC for `+08:00`, `-0530`, `UTC`. Raises ValueError."""
    if text.upper() in ("UTC", "Z"):
        return 0
    found = re.fullmatch(r"([+-])(\d{1,2}):?(\d\d)?", text)
    if not found or int(found[2]) > 14 or int(found[3] or 0) > 59:
        raise ValueError(f"{text!r} is no offset from UTC; write +08:00 or -05:30")
    seconds = int(found[2]) * 3600 + int(found[3] or 0) * 60
    return -seconds if found[1] == "-" else seconds


def shown_time(time: float, offset_s: int = 0) -> str:
    """`2026-08-17 09:25:22`, in the zone the report is in."""
    return datetime.fromtimestamp(time, timezone(timedelta(seconds=offset_s))).strftime("%Y-%m-%d %H:%M:%S")


def shown_day(day: int) -> str:
    """`2026-08-17`, of a day counted from 1970."""
    return datetime.fromtimestamp(day * 86_400, UTC).strftime("%Y-%m-%d")


def _epoch(value: float) -> tuple[float, str]:
    try:
        number = float(value)
    except OverflowError:
        raise Skipped("time is out of range") from None
    if math.isfinite(number):
        for name, per_second in EPOCH_UNITS:
            if EARLIEST <= number / per_second < LATEST:
                return number / per_second, name
    raise Skipped("time is out of range")


def _iso(text: str, offset_s: int) -> tuple[float, str]:
    if len(text) < 12:
        raise Skipped("time is unreadable")
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        parsed = _odd_iso(text)
    if parsed.tzinfo is None:
        time, spelled = parsed.replace(tzinfo=UTC).timestamp() - offset_s, "without zone"
    else:
        time, spelled = parsed.timestamp(), "with zone"
    if not EARLIEST <= time < LATEST:
        raise Skipped("time is out of range")
    return time, spelled


def _odd_iso(text: str) -> datetime:
    spaced = _SPACED_ZONE.search(text)
    if spaced:
        zone = "+00:00" if spaced[1] in ("UTC", "GMT", "Z") else spaced[1]
        text = text[: spaced.start()] + zone
    try:
        return datetime.fromisoformat(text.replace("/", "-"))
    except ValueError:
        raise Skipped("time is unreadable") from None
