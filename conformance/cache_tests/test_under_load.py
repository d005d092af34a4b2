"""Rules that only load can decide; the load work judges them, and without `--load` they are not run."""

from __future__ import annotations

from conformance.casebook import Judge, rule
from conformance.judgements.verdict import Judging
from conformance.observe.observed import Observed
from conformance.verdicts import Vantage, Verdict


def _needs_load(rule_id: str, observed: Observed) -> Verdict:
    return Judging(rule_id, observed.entry, Vantage.LOAD).not_run("needs --load")


@rule("AFF-01")
def test_a_session_stays_on_one_replica(observed: Observed, judge: Judge) -> None:
    """Sessions grow side by side; each one's hit rate is compared with a single replica's."""
    judge(_needs_load("AFF-01", observed))


@rule("L2-01")
def test_evicted_prefixes_are_read_back(observed: Observed, judge: Judge) -> None:
    """Pressure evicts known prefixes; asked again, they must come from the second tier."""
    judge(_needs_load("L2-01", observed))


@rule("L2-02")
def test_the_second_tier_is_not_write_only(observed: Observed, judge: Judge) -> None:
    """Sessions that left the first tier are sent once more, exactly."""
    judge(_needs_load("L2-02", observed))


@rule("L2-03")
def test_answers_are_the_same_cold_warm_and_loaded(observed: Observed, judge: Judge) -> None:
    """A fact only this prompt knows is asked for cold, warm, and after a load."""
    judge(_needs_load("L2-03", observed))


@rule("L2-04")
def test_a_follow_up_turn_is_served_too(observed: Observed, judge: Judge) -> None:
    """After eviction the next turn is sent instead of the same one."""
    judge(_needs_load("L2-04", observed))


@rule("L2-05")
def test_requests_end_under_pressure(observed: Observed, judge: Judge) -> None:
    """Both tiers are full; every request still ends."""
    judge(_needs_load("L2-05", observed))


@rule("L2-06")
def test_write_amplification_is_known(observed: Observed, judge: Judge) -> None:
    """Bytes stored, bytes loaded and the time each load saved are read from the engine's metrics."""
    judge(_needs_load("L2-06", observed))


@rule("L2-07")
def test_a_load_is_faster_than_computing(observed: Observed, judge: Judge) -> None:
    """Time to the first token, cold and after a load, in one run."""
    judge(_needs_load("L2-07", observed))
