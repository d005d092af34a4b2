"""The attribution text: kept out in every form, towards the right upstreams only, and nothing else with it."""

from __future__ import annotations

from conformance.casebook import Judge, rule
from conformance.judgements import attribution_forms
from conformance.judgements.verdict import upstream_only
from conformance.observe.observed import Observed


@rule("PFX-03")
def test_every_form_is_kept_out(observed: Observed, judge: Judge) -> None:
    """Six forms of the text, each sent twice with other values in it: two requests, one prompt."""
    judge(upstream_only("PFX-03", observed, attribution_forms.every_form_is_kept_out))


@rule("PFX-04")
def test_only_that_is_removed(observed: Observed, judge: Judge) -> None:
    """A conversation about the text quotes it in a system text and in three messages: all four quotations arrive."""
    judge(upstream_only("PFX-04", observed, attribution_forms.only_that_is_removed))


@rule("PFX-05")
def test_a_messages_upstream_gets_the_blocks_as_they_came(observed: Observed, judge: Judge) -> None:
    """Three system blocks, the text first, go to an upstream that speaks Messages itself."""
    judge(upstream_only("PFX-05", observed, attribution_forms.native_system_is_left_alone))
