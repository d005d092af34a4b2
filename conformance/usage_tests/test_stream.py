"""Is the stream a valid event sequence that tells the whole truth?"""

from __future__ import annotations

from conformance.casebook import Judge, rule
from conformance.judgements import broken_stream, scripted_usage, stream
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


@rule("STR-05")
def test_the_last_usage_of_a_stream_holds(observed: Observed, judge: Judge) -> None:
    """The upstream reports usage on any chunk it likes, and more than once: the last one is the truth."""
    judge(scripted_usage.last_usage_chunk_holds(observed))


@rule("STR-06")
def test_a_stream_without_usage_ends_properly(observed: Observed, judge: Judge) -> None:
    """The upstream never reports usage: the stream is whole all the same."""
    judge(scripted_usage.survives_missing_usage(observed))


@rule("STR-07")
def test_a_broken_stream_is_an_error(observed: Observed, judge: Judge) -> None:
    """The upstream breaks off in the middle of its answer; the client must not take what it got for all of it."""
    judge(broken_stream.breaks_become_errors(observed))


@rule("STR-08")
def test_blocks_have_their_own_index(observed: Observed, judge: Judge) -> None:
    """The upstream makes two calls at once, or thinks before it speaks: each block is one of its own."""
    judge(broken_stream.blocks_have_their_own_index(observed))


@rule("STR-09")
def test_an_unfinished_stream_is_no_end_turn(observed: Observed, judge: Judge) -> None:
    """The upstream's stream ends without a finish_reason: cut, or as HTTP ends it. Neither is a finished answer.

    And answers that are finished, with tool calls or at their token limit, say so, plain and streamed.
    """
    judge(broken_stream.unfinished_is_no_end(observed))
