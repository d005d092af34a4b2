"""Do the reported counts add up?"""

from __future__ import annotations

from conformance.casebook import Judge, rule
from conformance.judgements import usage, usage_client
from conformance.observe.observed import Observed


@rule("USE-01")
def test_messages_usage_adds_up(observed: Observed, judge: Judge) -> None:
    """Every answer on /v1/messages, cold or warm, plain or streamed: its parts sum up to the real prompt."""
    if observed.sees_upstream:
        judge(usage.adds_up_to_upstream(observed))
    else:
        judge(usage_client.adds_up_to_other_entry(observed))


@rule("USE-06")
def test_the_total_is_the_same_cold_and_warm(observed: Observed, judge: Judge) -> None:
    """A prompt nobody sent before, and the same again at once: its parts move, the total stays."""
    judge(usage.same_total_cold_and_warm(observed))


@rule("USE-07")
def test_plain_streamed_and_both_dialects_agree(observed: Observed, judge: Judge) -> None:
    """One warm request in every form a client may use, and one text on both entries."""
    judge(usage.forms_agree(observed))
