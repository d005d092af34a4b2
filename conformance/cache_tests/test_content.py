"""Content before prefixes: a gateway that drops the system prompt has a perfect prefix."""

from __future__ import annotations

from conformance.casebook import Judge, rule
from conformance.judgements.content import everything_arrives
from conformance.judgements.verdict import Judging
from conformance.observe.observed import Observed
from conformance.verdicts import Vantage


@rule("CON-01")
def test_everything_arrives(observed: Observed, judge: Judge) -> None:
    """A client sends system text, tools and a growing conversation; all of it must stand in the upstream request."""
    if observed.sees_upstream:
        judge(everything_arrives(observed))
    else:
        judge(Judging("CON-01", observed.entry, Vantage.UPSTREAM).not_run(observed.needs_recorder))
