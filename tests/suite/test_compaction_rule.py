"""CMP-01 on made-up observations and on the pair: what it accuses, what it passes, and where it says nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from suite_layers import Asked, Json, Layer, UsageChange
from suite_targets import Target, judge

from conformance.evidence.conversation import Sent
from conformance.evidence.thresholds import THRESHOLDS
from conformance.judgements.compaction import compacts_at_the_true_size
from conformance.matrix import run_cell
from conformance.observe.compaction import Compaction, Reading
from conformance.observe.observed import Observed
from conformance.observe.owed_usage import OWED
from conformance.sessions.compaction import SHARE, ContextMeter, window_for
from conformance.verdicts import Entry, ExitCode, Status, Vantage, Verdict
from conformance.wire.exchange import Exchange, Usage

GOOD = ((1000, 0), (1200, 960), (1400, 1152), (1600, 1344))
"""(size, cached) of four turns of a session."""


def exchange(prompt: int | None = 1000, *, error: str | None = None) -> Exchange:
    return Exchange(Entry.MESSAGES, {}, streamed=True, status=200, usage=Usage(prompt=prompt), error=error)


def sent(prompt: int, cached: int) -> Sent:
    usage = Usage(prompt=prompt, cached=cached)
    answer = Exchange(Entry.MESSAGES, {}, streamed=False, status=200, usage=usage)
    return Sent(prompt=prompt, cached=cached, exchange=answer)


def reading(size: int, cached: int, context: int, full: bool = False, untold: str = "") -> Reading:
    return Reading("turn", True, size, cached, context, exchange(), full, warm=2 * cached >= size, untold=untold)


def judged(
    contexts: list[int] | None = None,
    *,
    again: int = 1000,
    warm: bool = True,
    played: Compaction | None = None,
) -> Verdict:
    """The verdict on a session whose client read `contexts`, and on plain repeats that count `again` for 1,000."""
    seen = contexts or [size for size, _ in GOOD]
    turns = tuple(
        reading(size, cached if warm else 0, context, full=i == len(GOOD) - 1)
        for i, ((size, cached), context) in enumerate(zip(GOOD, seen, strict=True))
    )
    probe = SimpleNamespace(first=sent(1000, 0), repeats=(sent(again, 960),))
    observed = SimpleNamespace(
        entry=Entry.MESSAGES,
        sees_upstream=False,
        thresholds=THRESHOLDS,
        qualification=SimpleNamespace(probes=(probe, probe, probe), floor=0),
        compaction=played or Compaction(1500, turns, (reading(1600, 0, 1600),), (reading(900, 700, 900),)),
        own_text=lambda _: True,
    )
    return compacts_at_the_true_size(cast(Observed, observed))


def test_counts_that_are_right_pass() -> None:
    verdict = judged()
    assert verdict.status is Status.PASS
    assert "1,500 tokens does so at 1,600" in verdict.reason
    assert verdict.n == 12


def test_two_percent_is_the_limit() -> None:
    assert judged([1019, 1223, 1427, 1631]).status is Status.PASS
    assert judged([1000, 1225, 1429, 1600]).status is Status.FAIL


def test_a_context_counted_twice_compacts_early() -> None:
    verdict = judged([1000, 2160, 2552, 2944])
    assert (verdict.status, verdict.code) == (Status.FAIL, "compacts-early")
    assert "does so at about 815" in verdict.reason
    assert verdict.excerpts
    assert verdict.tables[0].rows[1][:5] == ("turn", 1200, 960, 2160, 1.8)


def test_plain_answers_are_judged_too() -> None:
    verdict = judged(again=1960)
    assert (verdict.status, verdict.code) == (Status.FAIL, "compacts-early")
    assert "3 plain answers" in verdict.reason


def test_a_context_counted_short_compacts_late_or_never() -> None:
    assert judged([1000, 240, 248, 256]).code == "compacts-late"
    never = judged([0, 0, 0, 0])
    assert never.code == "compacts-late"
    assert "never compacts" in never.reason


def test_one_odd_answer_accuses_nobody_and_passes_nothing() -> None:
    assert judged([1000, 1200, 2800, 1600]).status is Status.INCONCLUSIVE


def test_a_session_that_was_never_warm_proves_nothing() -> None:
    verdict = judged(warm=False)
    assert verdict.status is Status.INCONCLUSIVE
    assert "from a warm cache" in verdict.reason


def session(*after: Reading, untold: str = "") -> Compaction:
    """Four right turns, the first of them without counts where `untold` says why, and what came behind compacting."""
    turns = [reading(size, cached, size, full=size == GOOD[-1][0]) for size, cached in GOOD]
    if untold:
        turns[:2] = [reading(size, cached, 0, untold=untold) for size, cached in GOOD[:2]]
    return Compaction(1500, tuple(turns), (reading(1600, 0, 1600),), after)


def test_counts_that_nobody_gave_accuse_nobody_and_pass_nothing() -> None:
    verdict = judged(played=session(reading(900, 700, 900), untold=OWED))
    assert (verdict.status, verdict.code) == (Status.INCONCLUSIVE, "counts-missing")
    assert verdict.reason == f"2 of 12 answers prove nothing: {OWED}"
    assert judged(played=session(reading(900, 700, 900))).status is Status.PASS


def test_a_context_that_stays_after_compacting_compacts_again() -> None:
    still = reading(900, 700, 1600, full=True)
    verdict = judged(played=session(still, reading(1100, 896, 1600, full=True)))
    assert (verdict.status, verdict.code) == (Status.FAIL, "compacts-again")
    assert "still 1,600 tokens" in verdict.reason
    assert judged(played=session(still, reading(1100, 896, 1100))).status is Status.INCONCLUSIVE, "a hiccup"


def test_a_failed_turn_is_no_verdict() -> None:
    verdict = judged(played=Compaction(0, (), (), failed=(exchange(error="HTTP 500"),), why="a turn failed: HTTP 500"))
    assert verdict.status is Status.INCONCLUSIVE
    assert "HTTP 500" in verdict.reason


def test_a_client_keeps_the_larger_sum_and_not_the_larger_parts() -> None:
    """vLLM's own /v1/messages starts with the whole prompt as input and ends with less input and the rest as read."""
    meter = ContextMeter(window_for(1000))
    meter.note(final=709, start=709)
    assert meter.context == 709
    meter.note(final=300, start=650)
    assert meter.context == 650
    meter.note(final=None, start=None)
    assert (meter.context, meter.full) == (0, False)
    meter.note(final=1001)
    assert meter.full


@pytest.mark.parametrize("threshold", [1, 999, 1845, 108_000])
def test_a_window_gives_its_threshold_back(threshold: int) -> None:
    assert abs(ContextMeter(window_for(threshold)).threshold - threshold) <= 1
    assert window_for(threshold) >= threshold / SHARE - 1


def cell(fault: str | None, **options: Any) -> Verdict:
    return next(v for v in run_cell(fault, **options).verdicts if v.rule == "CMP-01")


def test_without_a_recorder_the_cold_counts_tell() -> None:
    clean = cell(None, recorder=False)
    assert (clean.status, clean.vantage) == (Status.PASS, Vantage.CLIENT)
    broken = cell("exclude-cache-off", recorder=False)
    assert (broken.status, broken.code) == (Status.FAIL, "compacts-early")


def test_its_root_is_told() -> None:
    assert cell("start-estimate").root == "STR-02"
    assert cell("no-include-usage").root == "STR-04"


def no_prompt_tokens(asked: Asked, usage: Json) -> Json:
    return {**usage, "prompt_tokens": 0, "prompt_tokens_details": None} if asked.streamed else usage


def not_in_streams(asked: Asked, usage: Json) -> Json | None:
    return None if asked.streamed else usage


class Seldom:
    """An upstream that leaves usage out of one stream in three."""

    def __init__(self) -> None:
        self.streams = 0

    def __call__(self, asked: Asked, usage: Json) -> Json | None:
        self.streams += asked.streamed
        return None if asked.streamed and self.streams % 3 == 0 else usage


@pytest.mark.parametrize("usage", [not_in_streams, no_prompt_tokens, pytest.param(Seldom(), id="seldom")])
def test_what_the_engine_does_not_count_is_not_held_against_the_gateway(usage: UsageChange) -> None:
    """STR-06 asks a gateway for zeros then: a context of 0 is all that its client can read."""
    judged = judge(Target(back=Layer(usage=usage)), recorder=True, entries=tuple(Entry))
    assert judged.failed == set(), judged.said
    assert judged.status("CMP-01") is Status.INCONCLUSIVE
    assert OWED in judged.reason("CMP-01")
    assert judged.code is ExitCode.INCOMPLETE


def test_from_the_clients_side_a_stream_of_zeros_is_nobodys() -> None:
    judged = judge(Target(back=Layer(usage=not_in_streams)), recorder=False, entries=(Entry.MESSAGES,))
    assert judged.status("CMP-01") is Status.INCONCLUSIVE
    assert "the engine may do as well as the gateway" in judged.reason("CMP-01")


@pytest.mark.parametrize("recorder", [True, False])
def test_a_gateway_that_gives_streams_no_usage_is_other_rules_business(recorder: bool) -> None:
    judged = judge(Target(front=Layer(usage=not_in_streams)), recorder=recorder, entries=(Entry.MESSAGES,))
    assert judged.status("CMP-01") is Status.INCONCLUSIVE
    assert "carry no prompt tokens (see STR-03" in judged.reason("CMP-01")
    assert {"STR-01", "STR-03"} <= judged.failed


@pytest.mark.parametrize(("fault", "root"), [("delta-without-input", "STR-03"), ("no-include-usage", "STR-04")])
def test_zeros_where_the_upstream_counts_or_was_not_asked_follow_from_their_root(fault: str, root: str) -> None:
    verdict = cell(fault)
    assert (verdict.status, verdict.code, verdict.root) == (Status.FAIL, "compacts-late", root)


@pytest.mark.parametrize("recorder", [True, False])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_session_whose_counts_never_fall_breaks_this_rule_alone(seed: int, recorder: bool) -> None:
    found = run_cell("session-high-water", seed, recorder=recorder)
    assert found.broken == {"CMP-01"}
    assert {v.code for v in found.verdicts if v.status is Status.FAIL} == {"compacts-again"}
