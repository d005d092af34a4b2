"""What becomes of an upstream's trouble?"""

from __future__ import annotations

from conformance.casebook import Judge, rule
from conformance.judgements import upstream_errors
from conformance.observe.observed import Observed


@rule("ERR-01")
def test_upstream_errors_are_passed_on(observed: Observed, judge: Judge) -> None:
    """The upstream refuses, is busy, is down, or hides an error in a 200: the client is told, in its own dialect."""
    judge(upstream_errors.errors_are_passed_on(observed))


@rule("ERR-02")
def test_trouble_stays_ones_own(observed: Observed, judge: Judge) -> None:
    """One call hangs, another fails, a client leaves: everyone else is served."""
    judge(upstream_errors.trouble_stays_ones_own(observed))
