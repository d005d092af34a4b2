"""What is kept of a long log: bounded, and never more certain than it is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from forensics_rig import flat, report_of
from hypothesis import given
from hypothesis import strategies as st

from conformance.forensics import order, synthetic
from conformance.forensics.climbs import Appending, Climbs
from conformance.forensics.granularity import factorisations, of_log
from conformance.forensics.order import OutOfOrder, in_order, nearly_ordered, sorted_on_disk
from conformance.forensics.request import Request
from conformance.forensics.sketches import Frequent, Quantiles
from conformance.forensics.streams import MOST_STREAMS, Log
from conformance.forensics.synthetic import CLAUDE, growing


def at(time: float, prompt: int = 1_000, cached: int = 0, user: str = "u") -> Request:
    return Request(time, "/v1/messages", "m", "c", user, "", prompt, cached)


@given(st.lists(st.integers(1, 12), max_size=300), st.integers(1, 6))
def test_counts_of_frequent_values_are_never_too_high_and_little_too_low(values: list[int], capacity: int) -> None:
    frequent = Frequent(capacity)
    totals = (0, 0, 0)
    for i, value in enumerate(values):
        totals = (totals[0] + 1, totals[1] + 100, totals[2] + value)
        frequent.add(value, float(i), 100, totals)
    true = Counter(values)
    assert len(frequent) <= capacity
    assert frequent.lost <= len(values) / (capacity + 1)
    for value, n in true.items():
        seen = frequent.get(value)
        kept = seen.count if seen is not None else 0
        assert n - frequent.lost <= kept <= n
    if len(true) <= capacity:
        assert {value: seen.count for value, seen in frequent.items()} == true


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=200), st.floats(0, 1))
def test_quantiles_are_good_to_two_percent(values: list[int], share: float) -> None:
    quantiles, half = Quantiles(), Quantiles()
    for i, value in enumerate(values):
        (quantiles if i % 2 else half).add(value)
    quantiles.merge(half)
    exact = sorted(values)[int(share * (len(values) - 1))]
    assert quantiles.at(share) == pytest.approx(exact, rel=0.021, abs=1)


def test_quantiles_of_nothing() -> None:
    assert Quantiles().at(0.5) == 0


def test_memory_does_not_grow_with_the_number_of_streams() -> None:
    log = Log()
    for i in range(MOST_STREAMS + 50):
        log.add(at(1e9 + i, user=f"u{i}"))
    assert len(log.streams) == MOST_STREAMS
    assert log.unfollowed == 50
    assert log.total.requests == MOST_STREAMS + 50


def test_streams_that_were_not_followed_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformance.forensics.streams.MOST_STREAMS", 2)
    monkeypatch.setattr("conformance.forensics.streams.MOST_VALUES", 3)
    report = report_of(tmp_path, [at(1.5e9 + i, user=f"u{i % 5}") for i in range(50)])
    assert "30 requests belong to streams beyond the first 2" in flat(report)
    assert {row.name: row.requests for row in report.spreads[3].values} == {
        "u0": 10,
        "u1": 10,
        "u2": 10,
        "(others)": 20,
    }


def test_a_wall_of_different_counts_stays_bounded_and_says_at_least(tmp_path: Path) -> None:
    report = report_of(tmp_path, growing(CLAUDE, 12, 60, cold=0.1))
    assert report.distributions[0].exact is False
    assert "in at least" in flat(report)


def test_granularity_survives_a_few_counts_of_another_origin() -> None:
    log = Log()
    for request in growing(CLAUDE, 8, 50):
        log.add(request)
    assert of_log(log).step == 256
    for i, cached in enumerate((1_001, 4_999)):
        log.add(at(2e9 + i, 10_000, cached, user="odd"))
    found = of_log(log)
    assert (found.step, found.odd, found.measured) == (256, 2, True)


@pytest.mark.parametrize("step", [16, 64, 256, 784, 2_096])
def test_granularity_is_what_the_counts_share(step: int) -> None:
    log = Log()
    for request in growing(CLAUDE, 8, 50, step=step):
        log.add(request)
    assert (of_log(log).step, of_log(log).measured) == (step, True)


def test_factorisations_are_all_said() -> None:
    assert factorisations(17_920) == "280 x 64 = 140 x 128 = 70 x 256 = 35 x 512"
    assert factorisations(1_001) == "1001"


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=60), st.booleans())
def test_sorting_on_disk_is_sorting(pairs: list[tuple[int, int]], falling: bool) -> None:
    requests = [at(1e9 + t, prompt) for t, prompt in pairs]
    found = list(sorted_on_disk(requests, falling=falling))
    expected = sorted(reversed(requests) if falling else requests, key=lambda r: r.time)
    assert found == expected


def test_sorting_works_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "PIECE", 700)
    monkeypatch.setattr(order, "_BATCH", 64)
    requests = synthetic.incident_capture()[:200]
    mixed = list(requests)
    Random(1).shuffle(mixed)
    assert [r.time for r in sorted_on_disk(mixed, falling=False)] == [r.time for r in requests]
    assert set(sorted_on_disk(mixed, falling=False)) == set(requests)


def test_small_disorder_is_mended_in_passing() -> None:
    requests = [at(1e9 + (i ^ 5)) for i in range(2_000)]
    assert [r.time for r in nearly_ordered(requests)] == sorted(r.time for r in requests)


def test_newest_first_is_noticed() -> None:
    with pytest.raises(OutOfOrder) as error:
        list(nearly_ordered([at(2e9 - i) for i in range(2_000)]))
    assert error.value.falling


def test_a_log_in_order_is_read_once() -> None:
    asked: list[int] = []

    def requests() -> list[Request]:
        asked.append(1)
        return [at(1e9 + i) for i in range(2_000)]

    given_: list[Request] = []
    assert in_order(requests, given_.extend) is False
    assert (len(asked), len(given_)) == (1, 2_000)


def test_a_rise_and_its_mirror() -> None:
    rising, falling = Climbs(), Climbs(falling=True)
    for i in range(20):
        for climbs in (rising, falling):
            climbs.add(20_000 + 1_000 * i, 17_920, 60.0 * i, "", 0)
    [runs] = rising.runs()[17_920].values()
    assert (runs.runs, runs.turns, runs.smallest, runs.largest, runs.span) == (1, 20, 20_000, 39_000, 19_000)
    assert runs.held == sum(20_000 + 1_000 * i - 17_920 for i in range(19))
    assert falling.runs() == {}


def test_cold_starts_inside_a_session_do_not_break_its_run() -> None:
    climbs = Climbs()
    for i in range(12):
        climbs.add(20_000 + 1_000 * i, 0 if i % 3 == 2 else 17_920, 60.0 * i, "", 0)
    assert [runs.turns for runs in climbs.runs()[17_920].values()] == [8]


def test_a_count_that_follows_the_prompt_makes_no_run() -> None:
    climbs = Climbs()
    for i in range(40):
        climbs.add(20_000 + 1_000 * i, 19_000 + 1_000 * i, 60.0 * i, "", 0)
    assert climbs.runs() == {}


def test_prompts_that_grow_by_the_answers_are_told_from_those_that_do_not() -> None:
    rng = Random(3)
    appending, sorted_batch = Appending(), Appending()
    for _ in range(200):
        answer = rng.randrange(50, 900)
        appending.add(answer, answer + rng.randrange(100, 1_500))
        sorted_batch.add(answer, rng.randrange(1_000, 2_500))
    assert (appending.shown, appending.refuted) == (True, False)
    assert sorted_batch.shown is False
