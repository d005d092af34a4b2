"""Content before prefixes: a gateway that drops the system prompt has a perfect prefix."""

from __future__ import annotations

from conformance.casebook import Judge, rule
from conformance.judgements import arguments, fields, history
from conformance.judgements.content import everything_arrives
from conformance.judgements.verdict import upstream_only
from conformance.observe.observed import Observed


@rule("CON-01")
def test_everything_arrives(observed: Observed, judge: Judge) -> None:
    """A client sends system text, tools and a growing conversation; all of it must stand in the upstream request."""
    judge(upstream_only("CON-01", observed, everything_arrives))


@rule("CON-02")
def test_tool_results_follow_their_calls(observed: Observed, judge: Judge) -> None:
    """Three parallel calls; their results come in another order, one in two blocks, one failed, text behind them."""
    judge(upstream_only("CON-02", observed, history.results_follow_their_calls))


@rule("CON-03")
def test_controls_are_mapped(observed: Observed, judge: Judge) -> None:
    """A client asks for every control once, then for three other tool choices, then for nothing at all."""
    judge(upstream_only("CON-03", observed, fields.controls_are_mapped))


@rule("CON-04")
def test_key_order_is_kept(observed: Observed, judge: Judge) -> None:
    """Neither the tools nor the keys of their schemas or of a call's arguments are in alphabetical order."""
    judge(upstream_only("CON-04", observed, arguments.key_order_is_kept))
