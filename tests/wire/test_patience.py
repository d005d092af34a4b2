from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from stub_target import MESSAGE, StubTarget, answer

from conformance.servers import serve
from conformance.verdicts import Entry
from conformance.wire.client import Via, Wire
from conformance.wire.patience import Patience, seconds_of

BODY = {"max_tokens": 16, "messages": [{"role": "user", "content": "hello"}]}
BUSY = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3", 3.0), (" 0 ", 0.0), ("-5", 0.0), ("1.5", 1.5), ("soon", None), ("", None), ("nan", None), ("inf", None)],
)  # fmt: skip
def test_retry_after_as_a_number(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds


def test_retry_after_as_a_date() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert seconds_of(later) == pytest.approx(100, abs=5)
    assert seconds_of("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0


def test_a_wait_is_taken_within_both_bounds_only() -> None:
    slept: list[float] = []
    patience = Patience(longest_s=10, total_s=15, sleep=slept.append)
    assert patience.line is None
    assert patience.waited(429, "10")
    assert not patience.waited(429, "10.5"), "longer than one wait may be"
    assert not patience.waited(503, "6"), "more than all waits may be together"
    assert patience.waited(503, "5")
    assert not patience.waited(429, None)
    assert not patience.waited(500, "1"), "only 429 and 503 say when to come back"
    assert slept == [10.0, 5.0]
    assert patience.line == (
        "waited 2 times, 15 s in all, before a retry, as Retry-After asked; 2 of its requests to wait were not met: "
        "up to 10.5 s, where a run waits 10 s at once and 15 s in all"
    )


@pytest.mark.parametrize("via", ["sdk", "raw"])
@pytest.mark.parametrize("status", [429, 503])
def test_one_retry_follows_a_wait(via: Via, status: int) -> None:
    slept: list[float] = []
    busy = answer(BUSY, status, headers={"retry-after": "7"})
    target = StubTarget([busy, answer(MESSAGE), busy, busy, answer(MESSAGE)])
    with serve(target, grace_s=0.05) as server, Wire(
        server.url, api_key=None, model="m", timeout_s=20, recorder=None, run_id="run-1",
        patience=Patience(sleep=slept.append),
    ) as wire:  # fmt: skip
        assert wire.send(Entry.MESSAGES, BODY, via=via).ok
        assert (len(target.asked), wire.sent_requests, slept) == (2, 2, [7.0])
        failed = wire.send(Entry.MESSAGES, BODY, via=via)
        assert (failed.status, len(target.asked)) == (status, 4), "no second retry"
        assert slept == [7.0, 7.0]


def test_without_patience_nothing_is_sent_twice() -> None:
    target = StubTarget([answer(BUSY, 429, headers={"retry-after": "0"}), answer(MESSAGE)])
    with serve(target, grace_s=0.05) as server, Wire(
        server.url, api_key=None, model="m", timeout_s=20, recorder=None, run_id="run-1"
    ) as wire:  # fmt: skip
        assert wire.send(Entry.MESSAGES, BODY, via="raw").status == 429
        assert len(target.asked) == 1
