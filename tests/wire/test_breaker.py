from __future__ import annotations

import pytest

from conformance.errors import SendingStopped
from conformance.wire.answers import FailureKind
from conformance.wire.breaker import Breaker


def fail(breaker: Breaker, status: int, failure: FailureKind, retry_after: str | None = None) -> None:
    breaker.note(status=status, failure=failure, seconds=0.1, retry_after=retry_after)


def succeed(breaker: Breaker, seconds: float = 0.1, status: int = 200) -> None:
    breaker.note(status=status, failure=None, seconds=seconds)


def test_three_failures_in_a_row_open_it_for_ever() -> None:
    breaker = Breaker()
    fail(breaker, 429, "429")
    fail(breaker, 429, "429")
    breaker.check()
    fail(breaker, 429, "429", "30")
    for _ in range(2):
        with pytest.raises(SendingStopped) as stopped:
            breaker.check()
        assert str(stopped.value) == (
            "stopped sending: the target answered 429 three times in a row (Retry-After 30 s)"
        )
        succeed(breaker)


def test_an_answer_in_between_starts_the_row_again() -> None:
    breaker = Breaker()
    for _ in range(3):
        fail(breaker, 500, "5xx")
        fail(breaker, 500, "5xx")
        succeed(breaker)
    breaker.check()


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ([(503, "5xx"), (503, "5xx")], "the target answered 503 two times in a row"),
        ([(0, "timeout"), (0, "timeout")], "the target did not answer in time two times in a row"),
        ([(0, "reset"), (0, "reset")], "the target broke the connection two times in a row"),
        ([(400, "4xx"), (400, "4xx")], "the target answered 400 two times in a row"),
        ([(500, "5xx"), (0, "timeout")], "the target failed two times in a row (500, timeout)"),
    ],
)
def test_the_reason_names_what_happened(row: list[tuple[int, FailureKind]], reason: str) -> None:
    breaker = Breaker(failures=2)
    for status, failure in row:
        fail(breaker, status, failure)
    assert breaker.reason == reason


def test_a_date_in_retry_after_is_shown_as_it_is() -> None:
    breaker = Breaker(failures=1)
    fail(breaker, 503, "5xx", "Wed, 21 Oct 2026 07:28:00 GMT")
    assert breaker.reason is not None
    assert breaker.reason.endswith("(Retry-After Wed, 21 Oct 2026 07:28:00 GMT)")


def test_answers_that_became_ten_times_slower_and_slow_open_it() -> None:
    breaker = Breaker()
    for seconds in [0.6] * 5 + [6.1] * 4:
        succeed(breaker, seconds)
    breaker.check()
    succeed(breaker, 6.1)
    with pytest.raises(SendingStopped, match=r"answers slowed from 0\.6 s to 6\.1 s"):
        breaker.check()


@pytest.mark.parametrize(("early", "late"), [(0.01, 4.9), (1.0, 9.9), (8.0, 20.0)])
def test_fast_enough_or_never_fast_is_no_reason(early: float, late: float) -> None:
    breaker = Breaker()
    for seconds in [early] * 5 + [late] * 20:
        succeed(breaker, seconds)
    breaker.check()
