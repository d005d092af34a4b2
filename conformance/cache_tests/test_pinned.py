"""Are cached counts measured, and do they move with the prompt?"""

from __future__ import annotations

from conformance.casebook import Judge, rule
from conformance.judgements import pinned
from conformance.observe.observed import Observed


@rule("PIN-01")
def test_cached_counts_are_not_pinned(observed: Observed, judge: Judge) -> None:
    """The entry's real client grows its conversation; the count of each new turn must grow as its repeats do."""
    judge(pinned.not_pinned(observed))


@rule("PIN-02")
def test_a_fresh_prompt_reports_no_hit(observed: Observed, judge: Judge) -> None:
    """Prompts with a salt at the head of tools, system text and message share nothing but the template's preamble."""
    judge(pinned.fresh_prompts_report_no_hit(observed))


@rule("PIN-03")
def test_cached_counts_move_with_the_prompt(observed: Observed, judge: Judge) -> None:
    """Exact repeats of prompts of many lengths, with different tool sections, cannot all be warm by one constant."""
    judge(pinned.counts_move_with_the_prompt(observed))


@rule("PIN-04")
def test_no_more_is_cached_than_was_sent(observed: Observed, judge: Judge) -> None:
    """Every answer so far, cold or warm, plain or streamed: its cached part is a part of its prompt."""
    judge(pinned.no_more_cached_than_sent(observed))
