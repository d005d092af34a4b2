"""Do the reported counts add up?"""

from __future__ import annotations

from conformance.casebook import Judge, rule
from conformance.judgements import scripted_usage, usage, usage_client
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


@rule("USE-02")
def test_no_count_falls_below_zero(observed: Observed, judge: Judge) -> None:
    """The upstream reports more cached than prompt tokens: what is left of the input is 0, not less."""
    judge(scripted_usage.never_below_zero(observed))


@rule("USE-03")
def test_unknown_is_not_zero(observed: Observed, judge: Judge) -> None:
    """The upstream is silent about its cache, in every way it can be; and once it says 0."""
    judge(scripted_usage.unknown_is_not_zero(observed))


@rule("USE-04")
def test_deepseek_hits_are_read(observed: Observed, judge: Judge) -> None:
    """The upstream counts as DeepSeek does: hit and miss instead of prompt_tokens_details."""
    judge(scripted_usage.reads_hit_and_miss(observed))


@rule("USE-05")
def test_chat_usage_is_kept(observed: Observed, judge: Judge) -> None:
    """A chat client gets the upstream's own usage; without a recorder its parts must at least agree."""
    judge(
        usage.chat_parts_agree(observed) if observed.scripted is None else scripted_usage.chat_usage_is_kept(observed)
    )


@rule("USE-08")
def test_cache_creation_counts_once(observed: Observed, judge: Judge) -> None:
    """The upstream reports written tokens, or none: the total stays, and nothing is written that was not."""
    judge(scripted_usage.creation_counted_once(observed))


@rule("USE-09")
def test_counts_are_integers(observed: Observed, judge: Judge) -> None:
    """The upstream reports null, floats, strings, lists, numbers no machine holds: the client gets integers."""
    judge(scripted_usage.counts_are_integers(observed))


@rule("USE-10")
def test_output_includes_reasoning(observed: Observed, judge: Judge) -> None:
    """The upstream spends tokens on thinking: they were generated, and they are counted."""
    judge(scripted_usage.output_is_complete(observed))
