"""Gateways in the field have more than one fault: each is named, the right entry is blamed, no other thing is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from conformance.matrix import Cell, run_cell
from conformance.options import Budget
from conformance.roots import link_roots
from conformance.verdicts import Entry, Status, Vantage, Verdict
from reference_gateway import FAULTS
from reference_gateway.faults import prompts, streams, usage
from reference_gateway.seams import JSONObject, Mutations

CACHE_BY_COUNTS = ("PIN-01", "PIN-02", "PIN-03")


class TwiceOnMessages(Mutations):
    """Cached tokens count twice on /v1/messages, and right on the chat entry: llm-rosetta 0.13.0."""

    def messages_usage(self, usage: JSONObject) -> JSONObject:
        return {**usage, "input_tokens": usage["input_tokens"] + usage.get("cache_read_input_tokens", 0)}


class TwiceAndBlockKept(prompts.KeepBillingHeader, TwiceOnMessages):
    """The same, and the attribution block stays: ant2oai 0.1.6."""


class CachedDroppedNothingAsked(usage.DropCached, streams.NoIncludeUsage):
    """No cached tokens in plain answers, no usage asked for in streams: openai2claude 0.1.1, rolter 0.1.0."""


Judge = Callable[..., dict[tuple[str, Entry], Verdict]]


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Judge:
    """Every verdict on the embedded pair with a gateway of one's own."""

    def judge(mutations: type[Mutations], seed: int = 0, **options: object) -> dict[tuple[str, Entry], Verdict]:
        own = replace(FAULTS["drop-cached"], name="own", mutations=mutations)
        monkeypatch.setitem(FAULTS, "own", own)
        return by_rule(run_cell("own", seed, neutralised=None, **options))

    return judge


def by_rule(cell: Cell) -> dict[tuple[str, Entry], Verdict]:
    return {(v.rule, v.entry): v for v in cell.verdicts}


@pytest.mark.parametrize("mutations", [TwiceOnMessages, TwiceAndBlockKept])
@pytest.mark.parametrize("seed", [1, 6])
def test_an_entry_that_counts_twice_is_as_warm_as_its_cached_counts_say(
    judged: Judge, mutations: type[Mutations], seed: int
) -> None:
    """PFX-19 compares shares of what was appended; a total that doubles halves them, and says nothing of warmth."""
    seen = judged(mutations, seed=seed)
    cold = mutations is TwiceAndBlockKept
    assert seen["PFX-19", Entry.MESSAGES].status is (Status.FAIL if cold else Status.PASS)


@pytest.mark.parametrize("recorder", [True, False])
def test_a_total_that_counts_cached_tokens_twice_does_not_hide_the_cache(judged: Judge, recorder: bool) -> None:
    seen = judged(TwiceOnMessages, recorder=recorder, budget=Budget.STANDARD)
    assert {rule: seen[rule, Entry.MESSAGES].status for rule in CACHE_BY_COUNTS} == dict.fromkeys(
        CACHE_BY_COUNTS, Status.PASS
    )
    assert seen["USE-06", Entry.MESSAGES].status is Status.FAIL
    assert [v.reason for v in seen.values() if "only in part" in v.reason] == []


def test_a_pinned_count_is_found_and_placed_behind_the_tools_whatever_the_total_says(judged: Judge) -> None:
    pinned = judged(TwiceAndBlockKept)["PIN-01", Entry.MESSAGES]
    assert (pinned.status, pinned.root) == (Status.FAIL, "PFX-02")
    assert "at the head of the system text, just behind the tools" in pinned.reason


def test_entries_that_disagree_are_told_apart_by_the_upstreams_own_count(judged: Judge) -> None:
    seen = judged(TwiceOnMessages)
    wrong, right = seen["USE-07", Entry.MESSAGES], seen["USE-07", Entry.CHAT]
    assert (wrong.status, wrong.code, wrong.root) == (Status.FAIL, "dialects-differ", "USE-01")
    assert right.status is Status.PASS
    assert "is the upstream's count" in right.reason


def test_counts_the_gateway_drops_are_not_called_the_engines_omission(judged: Judge) -> None:
    seen = judged(CachedDroppedNothingAsked)
    for rule in CACHE_BY_COUNTS:
        assert seen[rule, Entry.MESSAGES].status is Status.NOT_RUN
        assert "though the upstream reports up to" in seen[rule, Entry.MESSAGES].reason
        assert "(see USE-01)" in seen[rule, Entry.MESSAGES].reason
        assert "--enable-prompt-tokens-details" not in seen[rule, Entry.MESSAGES].reason
    # That the total stays is known all the same: the recorder saw the second answer come from cache.
    assert seen["USE-06", Entry.MESSAGES].status is Status.PASS


def test_without_a_recorder_such_counts_leave_the_total_unjudged(judged: Judge) -> None:
    seen = judged(CachedDroppedNothingAsked, recorder=False)
    assert "--enable-prompt-tokens-details" in seen["PIN-01", Entry.MESSAGES].reason
    assert seen["USE-06", Entry.MESSAGES].status is Status.INCONCLUSIVE


def test_plain_answers_that_miscount_are_a_root_of_their_own(judged: Judge) -> None:
    seen = judged(CachedDroppedNothingAsked)
    assert seen["STR-04", Entry.MESSAGES].status is Status.FAIL
    assert (seen["USE-01", Entry.MESSAGES].status, seen["USE-01", Entry.MESSAGES].root) == (Status.FAIL, None)


def test_a_miscount_of_streams_alone_follows_from_the_stream() -> None:
    miscount = by_rule(run_cell("delta-without-input"))["USE-01", Entry.MESSAGES]
    assert (miscount.code, miscount.root) == ("stream-sum-wrong", "STR-03")


@pytest.mark.parametrize(("code", "root"), [("stream-sum-wrong", "STR-04"), ("sum-wrong", None)])
def test_roots_look_at_how_a_rule_failed(code: str, root: str | None) -> None:
    def failed(rule: str, code: str) -> Verdict:
        return Verdict(
            rule=rule,
            entry=Entry.MESSAGES,
            status=Status.FAIL,
            reason="",
            vantage=Vantage.UPSTREAM,
            n=4,
            code=code,
        )

    linked = link_roots([failed("USE-01", code), failed("STR-04", "usage-not-asked")])
    assert linked[0].root == root


def test_excerpts_of_streams_show_the_suites_own_text() -> None:
    verdict = by_rule(run_cell("no-include-usage"))["STR-04", Entry.MESSAGES]
    [excerpt] = verdict.excerpts
    for shown in (excerpt.request, excerpt.upstream_request):
        assert shown is not None
        assert "prefixproof-000000 " in shown, "the salt that opens each of the suite's texts"
        assert "aaaaaaaaaaa" not in shown, "a text of the suite's own is masked"


def test_an_excerpt_masks_what_a_gateway_adds_even_next_to_the_suites_own_text() -> None:
    verdict = by_rule(run_cell("own-system-note"))["CON-01", Entry.MESSAGES]
    [excerpt] = verdict.excerpts
    assert excerpt.upstream_request is not None
    assert "aaaa aaaaaaaaaaaa aa aaaaaa" in excerpt.upstream_request
    assert "platform team" not in excerpt.upstream_request
