"""A conversation's history is translated the same way in every turn, whatever form the client gives it."""

from __future__ import annotations

from conformance.casebook import Judge, rule
from conformance.judgements import additions, arguments, history, renderings
from conformance.judgements.verdict import upstream_only
from conformance.observe.observed import Observed


@rule("PFX-06")
def test_later_system_messages_stay(observed: Observed, judge: Judge) -> None:
    """Two notes of the client's harness are appended, one in the middle of what follows and one at the very end."""
    judge(upstream_only("PFX-06", observed, history.later_system_messages_stay))


@rule("PFX-07")
def test_strings_and_lists_of_one_text_render_alike(observed: Observed, judge: Judge) -> None:
    """One conversation with every content as a list of blocks, and once more with strings where a string will do."""
    judge(upstream_only("PFX-07", observed, renderings.forms_render_alike))


@rule("PFX-08")
def test_cache_marks_do_not_leak(observed: Observed, judge: Judge) -> None:
    """One conversation without marks, and once more with marks on the system, a tool, a result and the last block."""
    judge(upstream_only("PFX-08", observed, renderings.marks_do_not_leak))


@rule("PFX-10")
def test_arguments_keep_their_values(observed: Observed, judge: Judge) -> None:
    """A call carries 1.0, 12345678901234567890 and unicode; it is replayed, and replayed one turn later."""
    judge(upstream_only("PFX-10", observed, arguments.values_stay))


@rule("PFX-11")
def test_call_ids_are_stable(observed: Observed, judge: Judge) -> None:
    """A history with three tool calls is sent twice, and once more one turn later."""
    judge(upstream_only("PFX-11", observed, history.call_ids_are_stable))


@rule("PFX-12")
def test_results_and_texts_keep_their_order(observed: Observed, judge: Judge) -> None:
    """Results of parallel calls come back in the order in which the tools were done, now and one turn later."""
    judge(upstream_only("PFX-12", observed, history.results_keep_their_order))


@rule("PFX-13")
def test_nothing_varying_is_added(observed: Observed, judge: Judge) -> None:
    """A growing conversation and a short one: whatever the gateway adds must be one constant text."""
    judge(upstream_only("PFX-13", observed, additions.nothing_varying_is_added))


@rule("PFX-15")
def test_old_thinking_is_treated_alike(observed: Observed, judge: Judge) -> None:
    """Two answers carry their thinking; one turn later they still do, or still do not."""
    judge(upstream_only("PFX-15", observed, history.old_thinking_is_treated_alike))


@rule("PFX-21")
def test_effort_and_old_results_leave_the_history_alone(observed: Observed, judge: Judge) -> None:
    """One conversation with a long tool result at low and at high effort, then one turn on."""
    judge(upstream_only("PFX-21", observed, renderings.effort_is_mapped_constantly))
