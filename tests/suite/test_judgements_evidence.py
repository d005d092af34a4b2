"""Pinned counts, granularity, qualification and hot pairs, against tables and naive versions of themselves."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.evidence.conversation import Sent
from conformance.evidence.hotpair import Arm, Count, Loss, Pair, count_again, count_fresh, count_new
from conformance.evidence.pinned import find_pinned, long_enough, one_constant
from conformance.evidence.qualify import CacheState, Probe, Qualification, _read, granularity
from conformance.evidence.thresholds import THRESHOLDS

G = 64
PIN = THRESHOLDS.pinned
QUALIFY = THRESHOLDS.qualify
HOT = THRESHOLDS.hot_pair


def sents(*counts: tuple[int, int | None]) -> list[Sent]:
    return [Sent(prompt, cached) for prompt, cached in counts]


def turns(cached: list[int | None], *, start: int = 2000, growth: int = 4 * G) -> list[Sent]:
    return sents(*((start + growth * i, c) for i, c in enumerate(cached)))


WARM = sents((2000, 1984), (3000, 2944))


# Pinned counts


def test_a_constant_over_enough_turns_is_pinned() -> None:
    found = find_pinned(turns([640] * 6), WARM, 0, G, PIN)
    assert found is not None
    assert (found.count, found.turns, found.first_prompt, found.last_prompt) == (640, 6, 2000, 2000 + 5 * 4 * G)


@pytest.mark.parametrize(
    ("cached", "growth", "repeats", "floor"),
    [
        pytest.param([640] * 5, 4 * G, WARM, 0, id="one turn too few"),
        pytest.param([640] * 3 + [704] + [640] * 3, 4 * G, WARM, 0, id="one turn moved"),
        pytest.param([640] * 6, 4 * G - 1, WARM, 0, id="turns grow by too little"),
        pytest.param([640] * 6, 4 * G, WARM, 640 - 2 * G, id="within two granules of the floor"),
        pytest.param([640] * 6, 4 * G, sents((2000, 640), (3000, 640)), 0, id="repeats are constant too"),
        pytest.param([640] * 6, 4 * G, sents((3000, 2944)), 0, id="one repeat cannot grow"),
        pytest.param([640] * 6, 4 * G, [Sent(2000, 1984, valid=False), *WARM[1:]], 0, id="a repeat that failed"),
        pytest.param([2944] * 6, 4 * G, WARM, 0, id="repeats do not grow past it"),
        pytest.param([None] * 6, 4 * G, WARM, 0, id="nothing reported"),
        pytest.param([600 + 64 * i for i in range(8)], 4 * G, WARM, 0, id="growing"),
    ],
)
def test_what_is_not_pinned(cached: list[int | None], growth: int, repeats: list[Sent], floor: int) -> None:
    assert find_pinned(turns(cached, growth=growth), repeats, floor, G, PIN) is None


@given(
    st.lists(st.tuples(st.sampled_from([0, 640, 704, 2944]), st.sampled_from([0, 255, 256, 300])), max_size=14),
    st.sampled_from([0, 512, 640]),
)
def test_pinned_is_the_longest_constant_run(steps: list[tuple[int, int]], floor: int) -> None:
    prompt, seen = 2000, []
    for cached, growth in steps:
        prompt += growth
        seen.append(Sent(prompt, cached))
    best: tuple[int, int] | None = None  # (length, count): the first of the longest
    for i, j in itertools.combinations(range(len(seen) + 1), 2):
        window = seen[i:j]
        grown = all((b.prompt or 0) - (a.prompt or 0) >= 256 for a, b in itertools.pairwise(window))
        if len({s.cached for s in window}) == 1 and grown and len(window) >= 6 and (best is None or j - i > best[0]):
            best = j - i, window[0].cached or 0
    if best is not None and (best[1] <= floor + 2 * G or best[1] >= 2944):
        best = None
    found = find_pinned(seen, WARM, floor, G, PIN)
    assert (found and (found.turns, found.count)) == best


@pytest.mark.parametrize(
    ("growths", "enough"), [([256] * 6, True), ([256] * 5, False), ([256] * 3 + [255] + [256] * 3, False)]
)
def test_turns_must_grow_long_enough(growths: list[int], enough: bool) -> None:
    prompts = list(itertools.accumulate(growths, initial=2000))
    assert long_enough(prompts, G, PIN) is enough


@pytest.mark.parametrize(
    ("repeats", "constant"),
    [
        (sents((2000, 640), (3000, 640)), 640),
        (sents((2000, 640), (3000, 704)), None),
        (sents((2000, 300), (3000, 300)), None),  # may be the preamble
        (sents((2000, 640), (3000, 640), (3000, 0), (3000, None)), 640),  # cold repeats say nothing
        (sents((2000, 640), (3000, 640), (700, 600)), 640),  # a prompt not much longer may be capped at its length
        (sents((2000, 640), (700, 640)), None),  # one long prompt is no pattern
        ([*sents((2000, 640), (3000, 640)), Sent(3000, 704, valid=False)], 640),
        (sents((2000, 0)), None),
        ([], None),
    ],
)
def test_one_constant(repeats: list[Sent], constant: int | None) -> None:
    assert one_constant(repeats, 300) == constant


@given(st.lists(st.integers(0, 10_000)))
def test_granularity_is_the_largest_step_all_counts_share(counts: list[int]) -> None:
    step = granularity(counts)
    if not any(counts):
        assert step is None
        return
    assert step == math.gcd(*counts)
    assert step is not None
    assert all(count % step == 0 for count in counts)
    assert granularity([*counts, 7 * step]) == step


# Qualification

SECTIONS = {"": 0, "system": 1833, "tools": 2111, "message": 2377}


def probes(
    preamble: int = 300,
    rates: dict[str, float] | None = None,
    cached: Any = lambda prompt, send: (0, (prompt - 1) // G * G, (prompt - 1) // G * G)[send],
    ids: Any = lambda i, send: f"{i}/{send}",
    repeats: int = 1,
) -> tuple[Probe, ...]:
    """Probes of a target that counts `rates` tokens per byte of each section: base 4,000 bytes, split 2:1:1."""
    rate = rates or dict.fromkeys(("system", "tools", "message"), 0.24)
    base = preamble + 2000 * rate["system"] + 1000 * rate["tools"] + 1000 * rate["message"]
    found = []
    for i, (longer, added) in enumerate(SECTIONS.items()):
        prompt = round(base + added * rate.get(longer, 0))
        sent = [Sent(prompt, cached(prompt, send), ids(i, send)) for send in range(1 + repeats)]
        found.append(Probe(longer, added, 4000 + added, sent[0], tuple(sent[1:])))
    return tuple(found)


def read(found: tuple[Probe, ...]) -> Qualification:
    return _read(found, QUALIFY, 1.0)


def test_a_good_target_qualifies() -> None:
    q = read(probes())
    assert q.state is CacheState.HITS
    assert (q.warm_send, q.floor) == (2, 0)
    assert q.counted == dict.fromkeys(("system", "tools", "message"), True)
    assert q.tokens_per_byte == pytest.approx(0.24, abs=0.01)


@given(
    st.integers(0, 3000),
    st.fixed_dictionaries({name: st.floats(0.2, 0.227) for name in ("system", "tools", "message")}),
)
def test_the_bound_is_never_below_what_stands_before_our_text(preamble: int, rates: dict[str, float]) -> None:
    """Rates of ordinary text differ by less than an eighth between sections."""
    assert read(probes(preamble, rates)).preamble_bound >= preamble


@pytest.mark.parametrize("section", ["system", "tools", "message"])
def test_a_section_that_is_not_counted_is_noticed(section: str) -> None:
    rates = {name: 0.0 if name == section else 0.24 for name in ("system", "tools", "message")}
    q = read(probes(rates=rates))
    assert q.counted[section] is False
    assert q.all_counted is False


def test_totals_that_are_not_reported_count_nothing() -> None:
    silent = tuple(replace(p, first=replace(p.first, prompt=None)) for p in probes())
    q = read(silent)
    assert not any(q.counted.values())
    assert q.tokens_per_byte == 0.25


@pytest.mark.parametrize(
    ("cached", "state"),
    [
        (lambda *_: None, CacheState.NOT_REPORTED),
        (lambda _, send: None if send else 0, CacheState.NONE_SEEN),
        (lambda *_: 0, CacheState.NONE_SEEN),
        (lambda *_: 192, CacheState.NONE_SEEN),  # no more than the preamble
        (lambda prompt, send: prompt - 1 if send and prompt % 2 else 0, CacheState.UNRELIABLE),
        (lambda prompt, send: prompt - 1 if send else 0, CacheState.HITS),
    ],
)
def test_the_state_of_the_cache(cached: Any, state: CacheState) -> None:
    found = probes(cached=cached)
    if state is CacheState.UNRELIABLE:
        assert len({p.first.prompt % 2 for p in found if p.first.prompt}) == 2, "some prompts hit and some do not"
    assert read(found).state is state


def test_requests_that_failed_say_nothing_of_the_cache() -> None:
    def silent(sent: Sent) -> Sent:
        return replace(sent, cached=None, valid=False)

    failed = tuple(replace(p, first=silent(p.first), repeats=tuple(map(silent, p.repeats))) for p in probes())
    assert read(failed).state is CacheState.UNKNOWN
    repeats_failed = tuple(replace(p, repeats=tuple(replace(r, valid=False) for r in p.repeats)) for p in probes())
    assert read(repeats_failed).state is CacheState.UNKNOWN


def test_one_id_for_both_sends_is_a_response_cache() -> None:
    assert read(probes(ids=lambda i, _: f"{i}")).state is CacheState.RESPONSE_CACHE
    assert read(probes(ids=lambda *_: None)).state is CacheState.HITS, "no ids, no evidence"
    assert read(probes(ids=lambda i, send: "same" if i < 3 else f"{i}/{send}")).state is CacheState.HITS


def test_hits_from_the_third_send() -> None:
    q = read(probes(cached=lambda prompt, send: prompt - 1 if send == 2 else 0, repeats=2))
    assert (q.state, q.warm_send) == (CacheState.HITS, 3)


# Hot pairs


def pairs(*rows: tuple[int, int]) -> Arm:
    """An arm of pairs (cached of the repeat, cached of the new turn), prompts of 2,000 tokens."""
    arm = Arm("a", None, 300)  # type: ignore[arg-type]
    arm.pairs = [Pair(i, Sent(2000, a), Sent(2300, b), Sent(2000, b), Sent(2300, b)) for i, (a, b) in enumerate(rows)]
    return arm


@pytest.mark.parametrize(
    ("rows", "count", "loss"),
    [
        ([(1984, 1984)] * 8, Count(8, 0), Loss.KEPT),
        ([(1984, 0)] * 8, Count(8, 8), Loss.LOST),
        ([(1984, 0)] * 7 + [(1984, 1984)], Count(8, 7), Loss.LOST),
        ([(1984, 0)] * 6 + [(1984, 1984)] * 2, Count(8, 6), Loss.MIXED),
        ([(1984, 0)] * 2 + [(1984, 1984)] * 6, Count(8, 2), Loss.MIXED),
        ([(1984, 1984 - 2 * G)] * 8, Count(8, 0), Loss.KEPT),  # within two granules
        ([(1984, 1984 - 2 * G - 1)] * 8, Count(8, 8), Loss.LOST),
        ([(0, 0)] * 8, Count(0, 0), Loss.TOO_FEW),  # repeats that were cold show nothing
        ([(300 + 2 * G, 0)] * 8, Count(0, 0), Loss.TOO_FEW),  # too near the floor
        ([(1984, 0)] * 5 + [(0, 0)] * 3, Count(5, 5), Loss.TOO_FEW),
    ],
)
def test_what_pairs_amount_to(rows: list[tuple[int, int]], count: Count, loss: Loss) -> None:
    arm = pairs(*rows)
    assert count_new(arm, 300, G, HOT) == count
    assert count_again(arm, 300, G, HOT) == count_fresh(arm, 300, G, HOT) == count
    assert count.says(HOT) is loss


def test_a_pair_with_a_failed_answer_does_not_count() -> None:
    arm = pairs(*[(1984, 0)] * 8)
    arm.pairs = [replace(p, new=replace(p.new, valid=False)) for p in arm.pairs[:3]] + arm.pairs[3:]
    assert count_new(arm, 300, G, HOT) == Count(5, 5)
