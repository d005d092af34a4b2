"""What is not prompt text but decides what is shared: tools, images, keys, names, tenants, sessions, entries."""

from __future__ import annotations

from conformance.casebook import Judge, rule
from conformance.judgements import fields, tools_and_images, warmth
from conformance.judgements.verdict import upstream_only
from conformance.observe.observed import Observed


@rule("PFX-16")
def test_deferred_tools_stay_out(observed: Observed, judge: Judge) -> None:
    """A tool marked defer_loading stands between two others; after a tool search a second one does."""
    judge(upstream_only("PFX-16", observed, tools_and_images.deferred_tools_stay_out))


@rule("PFX-17")
def test_images_arrive_unchanged(observed: Observed, judge: Judge) -> None:
    """The pictures A, A, B in one message."""
    judge(upstream_only("PFX-17", observed, tools_and_images.images_arrive_unchanged))


@rule("PFX-18")
def test_cache_keys_are_forwarded(observed: Observed, judge: Judge) -> None:
    """The client names its session, its cache key and its salt, as far as its dialect can."""
    judge(upstream_only("PFX-18", observed, fields.cache_keys_are_forwarded))


@rule("PFX-19")
def test_both_entries_are_equally_warm(observed: Observed, judge: Judge) -> None:
    """Each entry's real client grows its conversation; both must keep as much of it."""
    judge(warmth.both_entries_are_equally_warm(observed))


@rule("PFX-20")
def test_an_alias_is_only_a_name(observed: Observed, judge: Judge) -> None:
    """One request under the alias, then under the name the upstream was seen to use."""
    judge(upstream_only("PFX-20", observed, fields.an_alias_is_only_a_name))


@rule("ISO-01")
def test_tenants_are_kept_apart(observed: Observed, judge: Judge) -> None:
    """One prompt under the salts a, a, b: cold, hit, cold."""
    judge(warmth.tenants_are_kept_apart(observed))


@rule("AFF-02")
def test_the_session_is_recognisable(observed: Observed, judge: Judge) -> None:
    """A session's turns carry the client's session id; a key that reaches the upstream must follow it."""
    judge(upstream_only("AFF-02", observed, warmth.the_session_is_recognisable))
