from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from conformance.diagnosis.clock import names_the_day, names_the_minute, stamps

AT = datetime(2026, 11, 30, 15, 4, 20, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "stamp"),
    [
        ("Now: 15:04.", "15:04"),
        ("it is 3:04 PM", "3:04 PM"),
        ("2026-11-30T15:04:20Z", "15:04:20"),
        ("a clock that is late, 15:03", "15:03"),
        ("or early: 15:05:01", "15:05:01"),
        (f"t={int(AT)}", str(int(AT))),
        (f"t={int(AT * 1000)}", str(int(AT * 1000))),
        ("15:10", None),
        ("3:04 AM", None),
        ("ratio 115:04", None),
        ("1.15:04", None),
        ("15:04:99", None),
        ("Now", None),
        ("16099999999", None),
    ],
)
def test_the_minute_of_a_request(text: str, stamp: str | None) -> None:
    assert names_the_minute(text, AT, 0.5) == stamp


def test_noon_and_midnight_by_the_twelve_hour_clock() -> None:
    noon = datetime(2026, 11, 30, 12, 30, tzinfo=UTC).timestamp()
    assert names_the_minute("12:30 pm", noon, 0) == "12:30 pm"
    assert names_the_minute("12:30 am", noon - 12 * 3600, 0) == "12:30 am"


def test_a_long_answer_widens_the_minutes() -> None:
    assert names_the_minute("15:08", AT, 1) is None
    assert names_the_minute("15:08", AT, 240) == "15:08"


def test_the_machines_own_zone_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "XYZ-05:30")
    time.tzset()
    try:
        assert names_the_minute("20:34", AT, 0) == "20:34"
        assert names_the_minute("15:04", AT, 0) == "15:04"
    finally:
        monkeypatch.undo()
        time.tzset()
    assert names_the_minute("20:34", AT, 0) is None


@pytest.mark.parametrize(
    ("text", "named"),
    [("Today is 2026-11-30.", True), ("Today is November 30, 2026", True), ("30 Nov 2026", True),
     ("Mon Nov 30 2026", True), ("2026-11-29", False), ("30", False), ("version 2026.11", False)],
)  # fmt: skip
def test_the_day_of_a_request(text: str, named: bool) -> None:
    assert names_the_day(text, AT) is named


def test_a_day_below_ten_with_and_without_its_zero() -> None:
    at = datetime(2026, 11, 3, 12, tzinfo=UTC).timestamp()
    assert names_the_day("November 3, 2026", at)
    assert names_the_day("November 03, 2026", at)


def test_stamps_are_found_by_their_form() -> None:
    assert stamps("from 9:30 to 17:45, id 1769000000123, v1.2") == ("9:30", "17:45", "1769000000123")
    assert stamps("nothing: 3 of 4") == ()
