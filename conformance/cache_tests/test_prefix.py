"""Is the prompt's prefix kept from turn to turn?"""

from __future__ import annotations

from conformance.casebook import Judge, rule
from conformance.judgements import across_restart, hot_pairs, prefix
from conformance.judgements.verdict import Judging
from conformance.observe.observed import Observed
from conformance.verdicts import Vantage


@rule("PFX-01")
def test_an_append_only_conversation_keeps_its_prefix(observed: Observed, judge: Judge) -> None:
    """A session without any varying text grows turn by turn; each upstream prompt must begin the next one."""
    if observed.sees_upstream:
        judge(prefix.prefix_kept(observed))
    else:
        judge(hot_pairs.prefix_kept(observed))


@rule("PFX-02")
def test_the_attribution_block_stays_out_of_the_prompt(observed: Observed, judge: Judge) -> None:
    """Claude Code 2.1.116 puts a block that changes with every request in front of its system text."""
    if observed.sees_upstream:
        judge(prefix.attribution_kept_out(observed))
    else:
        judge(hot_pairs.attribution_kept_out(observed))


@rule("PFX-09")
def test_tools_keep_their_order(observed: Observed, judge: Judge) -> None:
    """The same tool section is sent on every turn, and after a restart of the gateway: one order, of keys too."""
    if observed.sees_upstream:
        judge(across_restart.tools_keep_their_order(observed))
    else:
        judge(hot_pairs.tools_keep_their_order(observed))


@rule("PFX-14")
def test_identical_requests_give_identical_bodies(observed: Observed, judge: Judge) -> None:
    """One short request, byte for byte the same, twenty times, and once more after a restart: one upstream body."""
    if observed.sees_upstream:
        judge(across_restart.identical_requests_give_identical_bodies(observed))
    else:
        judge(Judging("PFX-14", observed.entry, Vantage.UPSTREAM).not_run(observed.needs_recorder))
