"""Does a text carry the time? By its form alone, or beyond doubt: it names the very minute its request was sent in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo

SKEW_S = 60.0
"""Seconds by which a gateway's clock may differ from this machine's."""

_TIME = re.compile(r"(?<![\d:.])([01]?\d|2[0-3]):([0-5]\d)(?::[0-5]\d)?(?![\d:])(?:\s?([AaPp])\.?[Mm]\b)?")
_EPOCH = re.compile(r"(?<![\d.])(1[6-9]\d{8})(\d{3}|\d{6}|\d{9})?(?!\d)")
_DATES = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%B %d, %Y", "%d %B %Y", "%b %d, %Y", "%d %b %Y", "%a %b %d %Y")


def stamps(text: str) -> tuple[str, ...]:
    """What looks like a time of day or a time in seconds since the epoch, as it stands there."""
    return tuple(found.group() for pattern in (_TIME, _EPOCH) for found in pattern.finditer(text))


def names_the_minute(text: str, sent_at: float, seconds: float) -> str | None:
    """The stamp that is the time of a request sent at `sent_at` (since the epoch) and answered within `seconds`.

    Hours and minutes are read in UTC and in this machine's own zone: a gateway elsewhere may use another one, which
    proves nothing here.
    """
    begin, end = sent_at - SKEW_S, sent_at + seconds + SKEW_S
    for found in _EPOCH.finditer(text):
        if begin <= int(found.group(1)) <= end:
            return found.group()
    minutes = set(_minutes(begin, end))
    for found in _TIME.finditer(text):
        hour, minute, half = int(found.group(1)), int(found.group(2)), (found.group(3) or "").lower()
        if half:
            hour = hour % 12 + (12 if half == "p" else 0)
        if (hour, minute) in minutes:
            return found.group()
    return None


def names_the_day(text: str, sent_at: float) -> bool:
    """True when the text has the date of that moment, in one of the usual spellings."""
    days = [datetime.fromtimestamp(sent_at, zone) for zone in _zones()]
    low = text.lower()
    return any(
        _plain(day.strftime(form)) in low or day.strftime(form).lower() in low for day in days for form in _DATES
    )


def _plain(spelled: str) -> str:
    """A date without the zero in front of its day."""
    return re.sub(r"\b0(\d)\b", r"\1", spelled).lower()


def _zones() -> tuple[tzinfo | None, ...]:
    return (UTC, None)  # None: this machine's own


def _minutes(begin: float, end: float) -> Iterator[tuple[int, int]]:
    for zone in _zones():
        moment, last = datetime.fromtimestamp(begin, zone), datetime.fromtimestamp(end, zone)
        while moment <= last:
            yield moment.hour, moment.minute
            moment += timedelta(minutes=1)
        yield last.hour, last.minute
