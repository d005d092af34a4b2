"""Rules that only load can decide: evicted sessions that come back, and repeats spread over replicas."""

from __future__ import annotations

from conformance.casebook import Judge, rule
from conformance.judgements import replicas, under_load
from conformance.observe.observed import Observed


@rule("AFF-01")
def test_a_session_stays_on_one_replica(observed: Observed, judge: Judge) -> None:
    """Sessions side by side send one request again and again; where they stay, each repeat hits."""
    judge(replicas.sessions_stay_on_one_replica(observed))


@rule("L2-01")
def test_evicted_prefixes_are_read_back(observed: Observed, judge: Judge) -> None:
    """Pressure evicts known prefixes; asked again, they must come from the second tier."""
    judge(under_load.loads_at_least_half(observed))


@rule("L2-02")
def test_the_second_tier_is_not_write_only(observed: Observed, judge: Judge) -> None:
    """Sessions that left the first tier are sent once more, exactly."""
    judge(under_load.is_not_write_only(observed))


@rule("L2-03")
def test_answers_are_the_same_cold_warm_and_loaded(observed: Observed, judge: Judge) -> None:
    """A fact only this prompt knows is asked for cold, warm, and after a load."""
    judge(under_load.answers_stay_the_same(observed))


@rule("L2-04")
def test_a_follow_up_turn_is_served_too(observed: Observed, judge: Judge) -> None:
    """After eviction the next turn is sent instead of the same one."""
    judge(under_load.next_turns_load(observed))


@rule("L2-05")
def test_requests_end_under_pressure(observed: Observed, judge: Judge) -> None:
    """Both tiers are full; every request still ends."""
    judge(under_load.requests_end(observed))


@rule("L2-06")
def test_write_amplification_is_known(observed: Observed, judge: Judge) -> None:
    """Bytes stored, bytes loaded and the time each load saved are read from the engine's metrics."""
    judge(under_load.amplification_is_known(observed))


@rule("L2-07")
def test_a_load_is_faster_than_computing(observed: Observed, judge: Judge) -> None:
    """Time to the first token, cold and after a load, in one run."""
    judge(under_load.loads_are_faster(observed))
