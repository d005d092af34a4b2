"""Is the stream a valid event sequence that tells the whole truth?"""

from __future__ import annotations

from conformance.casebook import Judge, rule
from conformance.judgements import stream
from conformance.judgements.verdict import Judging
from conformance.observe.observed import Observed
from conformance.verdicts import Vantage


@rule("STR-01")
def test_the_stream_is_a_valid_event_sequence(observed: Observed, judge: Judge) -> None:
    """A stream read event by event, and again by the official SDK, which must accumulate the plain answer."""
    judge(stream.valid_event_sequence(observed))


@rule("STR-02")
def test_message_start_carries_no_estimate(observed: Observed, judge: Judge) -> None:
    """Clients that keep the larger of two counts must not be misled by the first."""
    judge(stream.no_estimate_at_start(observed))


@rule("STR-03")
def test_the_last_message_delta_tells_the_whole_truth(observed: Observed, judge: Judge) -> None:
    """With the last value of each field a stream must report what the plain answer to the same request reports."""
    judge(stream.last_delta_tells_all(observed))


@rule("STR-04")
def test_streams_ask_the_upstream_for_usage(observed: Observed, judge: Judge) -> None:
    """Without stream_options.include_usage an upstream streams no counts; a client who did not ask gets none."""
    if observed.sees_upstream:
        judge(stream.asks_upstream_for_usage(observed))
    else:
        judge(Judging("STR-04", observed.entry, Vantage.UPSTREAM).not_run(observed.needs_recorder))
