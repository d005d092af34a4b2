"""The rules that need load, judged over results made by hand: the broken is told, the innocent is left alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import orjson
import pytest
from load_rig import evict_record, sample

from conformance.judgements import under_load as tier
from conformance.judgements.load_looks import Loaded
from conformance.judgements.replicas import sessions_stay_on_one_replica
from conformance.observe.under_load import LoadRun, no_load
from conformance.verdicts import Entry, Status, Vantage, Verdict
from load.affinity import affinity
from load.errors import LoadExit
from load.recipe import cause_recipe
from load.record import Record
from load.result import result
from load.samples import Sample
from load.second_tier import second_tier

Judgement = Callable[[Loaded], Verdict]

OF_THE_TIER: tuple[Judgement, ...] = (
    tier.loads_at_least_half,
    tier.is_not_write_only,
    tier.answers_stay_the_same,
    tier.next_turns_load,
    tier.requests_end,
    tier.amplification_is_known,
    tier.loads_are_faster,
)
ALL: tuple[Judgement, ...] = (*OF_THE_TIER, sessions_stay_on_one_replica)


@dataclass
class Entries:
    """An entry under load whose first run is `first`; the run that confirms it is `second`, else the same."""

    first: LoadRun
    second: LoadRun | None = None
    entry: Entry = Entry.MESSAGES

    def load_run(self, shape: str, /, *, again: bool = False) -> LoadRun:  # noqa: ARG002 - the tests know the shape
        return self.second if again and self.second is not None else self.first


def run_of(record: Record) -> LoadRun:
    """A run's result, through JSON as the suite gets it."""
    found = second_tier(record)
    recipe = cause_recipe(found) if found is not None and found.write_only else []
    told = result(record, found, [], [], recipe, LoadExit.GREEN)
    return LoadRun(record.plan.shape, orjson.loads(orjson.dumps(told)))


def judged(judgement: Judgement, record: Record, second: Record | None = None) -> Verdict:
    return judgement(Entries(run_of(record), run_of(second) if second is not None else None))


def big(**given: Any) -> Record:
    """`evict_record`, with a third exact repeat and a third next turn: fewer prove nothing."""
    record = evict_record(**given)
    backs = [row for row in record.samples.ordered if row.phase.startswith("return")]
    for row, session in ((backs[0], 1), (backs[-1], 2)):
        record.samples.add(replace(row, session=session, at=row.at + 0.5))
    assert record.last is not None
    own = float(sum(row.prompt or 0 for row in record.samples.rows))
    record.last = replace(record.last, prompt_tokens=own + given.get("others", 0.0))
    return record


WRITE_ONLY: dict[str, Any] = {"loaded": 0, "load_bytes": 0.0, "cached_back": 256}


@pytest.mark.parametrize("judgement", OF_THE_TIER, ids=lambda j: j.__name__)
def test_a_tier_that_gives_everything_back_passes(judgement: Judgement) -> None:
    verdict = judged(judgement, big())
    assert verdict.status is Status.PASS, verdict.reason
    assert verdict.vantage is Vantage.LOAD


def test_a_write_only_tier_fails_where_nothing_else_explains_it_and_walks_the_recipe() -> None:
    broken = {j.__name__: judged(j, big(**WRITE_ONLY)) for j in OF_THE_TIER}
    assert {name for name, v in broken.items() if v.status is Status.FAIL} == {
        "loads_at_least_half",
        "is_not_write_only",
        "next_turns_load",
    }
    said = broken["is_not_write_only"]
    assert "200,000 bytes stored, none loaded" in said.reason
    assert "in a second run too" in said.reason
    assert any("vetoes every lookup" in line for line in said.ruled_out)


@pytest.mark.parametrize("judgement", OF_THE_TIER, ids=lambda j: j.__name__)
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"others": 900_000.0}, "others use this engine"),
        ({"others": -200_000.0}, "count only part"),
        ({"warm_hits": 512.0}, "changes on the way"),
        ({"kept_hits": 512.0}, "changes on the way"),
        ({"l2_tokens": 20_000}, "too small"),
        ({"l2_tokens": None}, "--l2-tokens"),
    ],
)
def test_nobody_is_accused_by_counters_that_do_not_speak_of_this_run(
    judgement: Judgement, change: dict[str, Any], says: str
) -> None:
    verdict = judged(judgement, big(**WRITE_ONLY, **change))
    assert verdict.status is not Status.FAIL
    if judgement in (tier.loads_at_least_half, tier.is_not_write_only):
        assert verdict.status is Status.INCONCLUSIVE
        assert says in verdict.reason


def test_a_write_only_tier_of_unknown_size_is_not_green() -> None:
    verdict = judged(tier.is_not_write_only, big(**WRITE_ONLY, l2_tokens=None))
    assert (verdict.status, verdict.code) == (Status.INCONCLUSIVE, "write-only")


@pytest.mark.parametrize("judgement", [tier.loads_at_least_half, tier.is_not_write_only, tier.next_turns_load])
def test_what_a_second_run_does_not_show_accuses_nobody(judgement: Judgement) -> None:
    verdict = judged(judgement, big(**WRITE_ONLY), big())
    assert verdict.status is Status.INCONCLUSIVE
    assert "a second run did not confirm it" in verdict.reason
    # An open MUST is no green; a SHOULD asks for nothing.
    assert bool(verdict.code) is (judgement is not tier.next_turns_load)


def test_a_second_run_is_made_only_where_the_first_failed() -> None:
    class Once(Entries):
        def load_run(self, shape: str, /, *, again: bool = False) -> LoadRun:
            assert not again
            return super().load_run(shape)

    for judgement in OF_THE_TIER:
        judgement(Once(run_of(big())))


def test_a_tier_is_held_to_no_more_than_a_warm_repeat_gives() -> None:
    """A clock behind the tools leaves half of each prompt to be reused, from either tier."""
    half = {"loaded": 9_216, "warm_hits": 7_000.0, "kept_hits": 7_000.0}
    assert judged(tier.loads_at_least_half, big(**half)).status is Status.PASS
    assert judged(tier.loads_at_least_half, big(**{**half, "warm_hits": 12_672.0, "kept_hits": 12_672.0})).status is (
        Status.FAIL
    )


def test_facts_forgotten_after_a_load_fail_and_other_words_do_not() -> None:
    assert judged(tier.answers_stay_the_same, big(recalled=False)).status is Status.FAIL
    verdict = judged(tier.answers_stay_the_same, big(answer="bb"))
    assert verdict.status is Status.INCONCLUSIVE
    assert "0 of " in verdict.reason


def test_next_turns_that_l1_still_held_are_no_proof_of_loads() -> None:
    verdict = judged(tier.next_turns_load, big(loaded_onward=0))
    assert verdict.status is Status.INCONCLUSIVE
    assert "L1 still held it" in verdict.reason


def failing(phase: str, error: str, count: int = 3, *, slowest: float = 0.2, **given: Any) -> Record:
    """A healthy run in which `count` requests of a phase failed, and good answers took up to `slowest` seconds."""
    record = big(**given)
    record.samples.rows[0].total = slowest
    for number in range(count):
        record.samples.add(sample(at=500.0 + number, session=number, phase=phase, error=error, status=0))
    return record


@pytest.mark.parametrize("error", ["status 500: internal", "no whole answer within 120 s", "status 504: timeout"])
def test_requests_that_hang_or_break_under_pressure_fail(error: str) -> None:
    verdict = judged(tier.requests_end, failing("return", error))
    assert verdict.status is Status.FAIL, verdict.reason
    assert error.split(":")[0] in verdict.reason


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (failing("fill", "status 500: internal"), "before pressure"),
        (failing("warm", "status 500: internal"), "before pressure"),
        (failing("return", "status 500: internal", 2), "too little"),
        (failing("return", "status 429: rate limit", 9), "none of it"),
        (failing("return", "status 503: overloaded", 9), "none of it"),
        (failing("return", "connection refused", 30), "none of it"),
        (failing("return", "the run ended before the answer", 4), "none of it"),
        (failing("return", "no whole answer within 120 s", slowest=30.0), "longer --timeout"),
    ],
)
def test_failures_that_pressure_does_not_explain_accuse_nobody(record: Record, says: str) -> None:
    verdict = judged(tier.requests_end, record)
    assert verdict.status is Status.INCONCLUSIVE
    assert says in verdict.reason


def test_a_run_that_a_bound_ended_proves_nothing() -> None:
    record = big(**WRITE_ONLY)
    record.stopped = "the time bound of 600 s"
    for judgement in OF_THE_TIER:
        verdict = judged(judgement, record)
        assert verdict.status is Status.INCONCLUSIVE
        assert "the time bound of 600 s" in verdict.reason


def test_requests_that_ended_without_pressure_are_no_pass() -> None:
    record = big()
    place = next(i for i, (name, *_) in enumerate(record.marks) if name == "return")
    name, before, after = record.marks[place]
    assert after is not None
    record.marks[place] = (name, before, replace(after, l1_hits=(after.l1_hits or 0) + 19_200))
    verdict = judged(tier.requests_end, record)
    assert verdict.status is Status.INCONCLUSIVE
    assert "nothing shows pressure" in verdict.reason


def test_bytes_that_no_metric_counts_warn_only_where_loads_are_counted() -> None:
    assert judged(tier.amplification_is_known, big(stored=None)).status is Status.FAIL
    nothing = big(**{**WRITE_ONLY, "load_bytes": None}, stored=None)
    assert judged(tier.amplification_is_known, nothing).status is Status.INCONCLUSIVE


@pytest.mark.parametrize(
    ("loaded", "status"),
    [(0.02, Status.PASS), (0.095, Status.INCONCLUSIVE), (0.12, Status.INCONCLUSIVE), (0.16, Status.FAIL)],
)
def test_first_tokens_are_compared_beyond_noise(loaded: float, status: Status) -> None:
    record = big()
    for row in record.samples.rows:
        row.ttft = loaded if row.phase.startswith("return") else 0.1
    assert judged(tier.loads_are_faster, record).status is status


def test_an_engine_without_a_second_tier_is_not_accused_of_one() -> None:
    record = big(**{**WRITE_ONLY, "load_bytes": None}, stored=None)
    assert record.last is not None
    record.last = replace(record.last, l2_queries=None, lookups=None)
    assert {judged(j, record).status for j in OF_THE_TIER} == {Status.NOT_APPLICABLE}


def test_without_metrics_the_tier_is_not_run() -> None:
    record = big()
    record.options = replace(record.options, engine=None)
    verdicts = [judged(j, record) for j in OF_THE_TIER]
    assert {v.status for v in verdicts} == {Status.NOT_RUN}
    assert {v.reason for v in verdicts} == {"needs the engine's metrics: --engine URL"}


def repeating(pattern: str, *, seconds: float = 0.01, pool: int | None = 144_000, dropped: int = 0) -> Record:
    """Eight sessions that repeat one request; 1 in `pattern` is a hit. In `dropped` of them the last missed."""
    record = evict_record()
    record.samples, record.pool_tokens = type(record.samples)(), pool
    rows: list[Sample] = [
        sample(at=1.37 * n + i * seconds, session=n, kind="turn" if i == 0 else "again", cached=6_336 * int(flag))
        for n in range(8)
        for i, flag in enumerate("0" + pattern)
    ]
    for row in rows[len(pattern) :: len(pattern) + 1][:dropped]:
        row.cached = 0
    for row in rows:
        record.samples.add(row)
    found = affinity(rows)
    assert found is not None
    record.extra["affinity"] = found.as_dict()
    return record


@pytest.mark.parametrize(
    ("record", "status"),
    [
        (repeating("11111"), Status.PASS),
        (repeating("01111"), Status.INCONCLUSIVE),  # hits only from the third send: 80 % of all, and no drop
        (repeating("01010"), Status.FAIL),
        (repeating("01010", seconds=5.0), Status.INCONCLUSIVE),  # in five seconds a neighbour may have evicted it
        (repeating("01010", pool=None), Status.INCONCLUSIVE),
        (repeating("00000"), Status.INCONCLUSIVE),
        (repeating("11111", dropped=4), Status.INCONCLUSIVE),  # one moment, for the four that were under way
    ],
)
def test_only_misses_too_soon_for_eviction_say_that_sessions_are_spread(record: Record, status: Status) -> None:
    assert judged(sessions_stay_on_one_replica, record).status is status


def played(seed: int, took: float, *, replicas: int = 1, clock: float | None = None) -> Record:
    """Twenty-four sessions, four at a time, that send one request six times to `replicas` that are chosen at random, or
    with a text in the prompt that changes every `clock` seconds."""
    random, rows, free = Random(seed), [], [1_000.0] * 4
    began = random.random() * 60
    for session in range(24):
        user, seen = free.index(min(free)), set()
        for i in range(6):
            at = free[user]
            stamp = int((began + at + random.uniform(0, 0.03)) / clock) if clock else 0
            key = (random.randrange(replicas), stamp)
            hit, kind = key in seen, "again" if i else "turn"
            rows.append(sample(at=at, session=session, kind=kind, cached=6_336 * hit))
            seen.add(key)
            free[user] += took * (1 if hit else 2) * random.uniform(0.8, 1.4)
    record = evict_record()
    record.samples, record.pool_tokens = type(record.samples)(), 4_000_000
    for row in rows:
        record.samples.add(row)
    found = affinity(record.samples.ordered)
    assert found is not None
    record.extra["affinity"] = found.as_dict()
    return record


@pytest.mark.parametrize("took", [0.05, 0.1, 0.2, 0.3, 0.5, 1.0])
def test_a_clock_in_the_prompt_is_not_taken_for_routing(took: float) -> None:
    for clock in (1.0, 10.0, 60.0):
        for seed in range(5):
            verdict = judged(sessions_stay_on_one_replica, played(seed, took, clock=clock))
            assert verdict.status is not Status.FAIL, (clock, seed, verdict.reason)


def test_a_clock_that_leaves_hits_is_named_and_spreading_still_fails() -> None:
    verdict = judged(sessions_stay_on_one_replica, played(0, 0.3, clock=1.0))
    assert verdict.status is Status.INCONCLUSIVE
    assert "a clock in the prompt (PFX-13)" in verdict.reason
    for took in (0.02, 0.1, 0.3, 1.0):
        failed = [judged(sessions_stay_on_one_replica, played(s, took, replicas=3)).status for s in range(5)]
        assert failed.count(Status.FAIL) >= 4


@pytest.mark.parametrize("judgement", ALL, ids=lambda j: j.__name__)
def test_a_run_without_a_result_is_no_verdict(judgement: Judgement) -> None:
    assert judgement(Entries(no_load("evict"))).status is Status.NOT_RUN
    assert judgement(Entries(no_load("evict"))).reason == "needs --load"
    broke = judgement(Entries(LoadRun("evict", None, "the target is gone")))
    assert broke.status is Status.INCONCLUSIVE
    assert "the target is gone" in broke.reason
