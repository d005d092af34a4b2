"""Is a prompt counted before it is sent what it then turns out to be?"""

from __future__ import annotations

from conformance.casebook import Judge, rule
from conformance.judgements import count_tokens
from conformance.observe.observed import Observed


@rule("CNT-01")
def test_count_tokens_is_near_the_total(observed: Observed, judge: Judge) -> None:
    """A session is counted and then sent: the count must be near the total, or the entry cleanly absent."""
    judge(count_tokens.count_is_near_the_total(observed))
