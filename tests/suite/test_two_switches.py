"""Only both of the incident's switches give a client its whole window and a warm prefix."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.sessions.compaction import ContextMeter
from conformance.two_switches import GROWTH_BYTES, WINDOW, Outcome, Setting, outcomes, table

DOCS = Path(__file__).parents[2] / "docs" / "compaction.md"
THRESHOLD = ContextMeter(WINDOW).threshold
TURN = GROWTH_BYTES / 3.5
"""More tokens than a turn grows by."""


@pytest.fixture(scope="module")
def found() -> dict[Setting, Outcome]:
    return {outcome.setting: outcome for outcome in outcomes()}


def test_the_table_in_the_docs_is_what_is_measured(found: dict[Setting, Outcome]) -> None:
    text = DOCS.read_text(encoding="utf-8")
    shown = text.partition("<!-- measured -->\n")[2].partition("\n<!-- /measured -->")[0]
    assert shown == table(list(found.values()))


@pytest.mark.parametrize("streamed", [False, True])
def test_right_counts_compact_at_the_size_the_client_means(found: dict[Setting, Outcome], streamed: bool) -> None:
    for strip in (False, True):
        outcome = found[Setting(strip, True, streamed)]
        assert outcome.compactions >= 2
        assert all(THRESHOLD <= size < THRESHOLD + TURN for size in outcome.compacted_at)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_warm_prefix_counted_twice_compacts_at_half_the_window(found: dict[Setting, Outcome], streamed: bool) -> None:
    twice, right = found[Setting(True, False, streamed)], found[Setting(True, True, streamed)]
    assert twice.compactions > 4 * right.compactions
    assert twice.mean_size < 0.6 * THRESHOLD


@pytest.mark.parametrize("streamed", [False, True])
def test_right_counts_alone_leave_the_prefix_cold(found: dict[Setting, Outcome], streamed: bool) -> None:
    kept, stripped = found[Setting(False, True, streamed)], found[Setting(True, True, streamed)]
    assert kept.compactions == stripped.compactions, "the fault does not show in how often the client compacts"
    assert kept.cold_tokens > 5 * stripped.cold_tokens
    assert kept.hit_rate < 0.5 < 0.85 < stripped.hit_rate


@pytest.mark.parametrize("streamed", [False, True])
def test_both_switches_are_best_in_every_column(found: dict[Setting, Outcome], streamed: bool) -> None:
    both = found[Setting(True, True, streamed)]
    others = [o for s, o in found.items() if s.streamed is streamed and s != both.setting]
    assert len(others) == 3
    for other in others:
        assert both.compactions <= other.compactions
        assert both.cold_tokens < other.cold_tokens
        assert both.hit_rate > other.hit_rate
