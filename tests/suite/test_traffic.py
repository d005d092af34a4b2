"""What may be said of an entry beside what became of its requests."""

from __future__ import annotations

import pytest

from conformance.conclusions import conclude, left_open
from conformance.evidence.qualify import CacheState
from conformance.traffic import facts, traffic, withheld
from conformance.verdicts import Entry, Status, Vantage, Verdict
from conformance.wire.exchange import Exchange, UpstreamRecord

RECORD = UpstreamRecord("POST", "/v1/chat/completions", {}, b"{}", 200, b"{}", True)


def exchange(status: int = 200, *, seen: bool = True, odd: bool = False, error: str | None = None) -> Exchange:
    return Exchange(
        Entry.CHAT, {}, False, status, odd=odd, error=error or (None if status == 200 else f"HTTP {status}"),
        upstream=(RECORD,) if seen else (),
    )  # fmt: skip


def verdict(rule: str = "CON-01", status: Status = Status.PASS, vantage: Vantage = Vantage.UPSTREAM) -> Verdict:
    return Verdict(rule=rule, entry=Entry.CHAT, status=status, reason="seen", vantage=vantage, n=1)


@pytest.mark.parametrize(
    ("failed", "sent", "troubled"), [(1, 3, False), (2, 41, False), (2, 40, False), (2, 39, True), (5, 100, False)]
)
def test_over_five_in_a_hundred_and_at_least_two(failed: int, sent: int, troubled: bool) -> None:
    found = traffic(Entry.CHAT, [exchange(500)] * failed + [exchange()] * (sent - failed), recorder=True)
    assert (found.failed, found.sent, found.troubled) == (failed, sent, troubled)
    assert withheld(verdict(), found).status is (Status.INCONCLUSIVE if troubled else Status.PASS)
    assert facts(found)[0].value.startswith(f"{failed} of {sent} requests to /v1/chat/completions failed ({failed} x ")


def test_what_a_gateway_may_refuse_counts_neither_way() -> None:
    found = traffic(Entry.CHAT, [exchange(400, odd=True)] * 5 + [exchange(odd=True), exchange()], recorder=True)
    assert (found.sent, found.failed, found.answered, found.recorded, facts(found)) == (2, 0, 2, 2, ())


def test_a_broken_stream_is_no_failed_request_and_was_seen() -> None:
    found = traffic(Entry.CHAT, [exchange(error="broke off")] * 9, recorder=True)
    assert (found.failed, found.answered, found.blind) == (0, 0, False)


def test_every_status_is_named() -> None:
    found = traffic(Entry.CHAT, [exchange(500), exchange(429), exchange(500), exchange(0)], recorder=False)
    assert found.failure_line == (
        "4 of 4 requests to /v1/chat/completions failed (1 x no answer, 1 x HTTP 429, 2 x HTTP 500)"
    )
    assert found.recorded is None
    assert not found.blind


def test_one_answer_past_the_recorder_withholds_what_it_passes() -> None:
    found = traffic(Entry.CHAT, [exchange(), exchange(seen=False)], recorder=True)
    assert withheld(verdict(), found).reason == (
        "it passes on the rest, but the recorder saw 1 of 2 answered requests to /v1/chat/completions"
    )
    assert withheld(verdict(vantage=Vantage.CLIENT), found).status is Status.PASS


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PASS])
def test_only_what_passes_is_withheld(status: Status) -> None:
    found = traffic(Entry.CHAT, [exchange(500)] * 9, recorder=True)
    assert withheld(verdict(status=status), found) == verdict(status=status)


def opened(verdicts: list[Verdict], exchanges: list[Exchange], **more: object) -> set[tuple[str, str]]:
    traffics = {Entry.CHAT: traffic(Entry.CHAT, exchanges, recorder=True)}
    options = {
        "entries": (Entry.CHAT,), "families": ("cache", "usage"), "musts": frozenset(("CON-01", "USE-01", "PFX-01")),
        "family_of": {"CON-01": "cache", "PFX-01": "cache", "USE-01": "usage", "PFX-15": "cache"},
        "states": (CacheState.HITS,), "stopped": None, "blind": lambda _: None, "traffics": traffics,
    } | more  # fmt: skip
    found = left_open(verdicts, conclude(verdicts, traffics), **options)  # type: ignore[arg-type]
    return {(family, reason.why.split(" ")[0]) for reason in found for family in reason.families}


def test_families_stay_open_for_what_was_withheld_in_them() -> None:
    both = [verdict("CON-01"), verdict("USE-01", vantage=Vantage.CLIENT)]
    assert opened(both, [exchange()]) == set()
    assert opened(both, [exchange(), exchange(seen=False)]) == {("cache", "the")}
    assert opened(both, [exchange(500)] * 3) == {("cache", "3"), ("usage", "3")}
    assert opened([verdict("PFX-15")], [exchange(500)] * 3) == set(), "a SHOULD opens no family"


def test_a_decisive_rule_that_is_undecided_leaves_the_cache_open() -> None:
    undecided = verdict("PFX-01", Status.INCONCLUSIVE)
    assert opened([undecided], [exchange()]) == {("cache", "no")}
    assert opened([verdict("PIN-01"), undecided], [exchange()]) == {("cache", "PFX-01")}
    assert opened([verdict("CON-01", Status.INCONCLUSIVE)], [exchange()]) == {("cache", "CON-01")}


def test_what_ends_or_blinds_a_run_opens_everything() -> None:
    everything = {("cache", "stopped"), ("usage", "stopped")}
    assert opened([], [exchange()], stopped="it failed") == everything
    assert opened([], [exchange()], blind=lambda entry: f"unseen {entry}") == {("cache", "unseen"), ("usage", "unseen")}
    assert opened([], [exchange()], states=(CacheState.NONE_SEEN,)) == {("cache", "no")}
