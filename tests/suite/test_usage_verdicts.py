"""USE rules name a cause only where arithmetic proves it, and blame the entry whose numbers are off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from suite_bad_targets import Constant, on, usage_null
from suite_layers import Asked, Json, Layer, UsageChange
from suite_targets import Judged, Target, judge

from conformance.evidence.conversation import Sent
from conformance.judgements.usage import cached_moves_total
from conformance.verdicts import Entry, ExitCode, Status

BOTH = tuple(Entry)


def accused(judged: Judged) -> dict[str, str]:
    return {k: v for k, v in judged.said.items() if v.startswith(("fail", "warn", "suite error"))}


def only_on(entry: Entry, change: UsageChange) -> UsageChange:
    return lambda asked, usage: change(asked, usage) if asked.entry is entry else usage


def cached_of(usage: Json) -> int:
    found = usage.get("cache_read_input_tokens") or (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    return int(found or 0)


def added(_: Asked, usage: Json) -> Json:
    name = "input_tokens" if "input_tokens" in usage else "prompt_tokens"
    return {**usage, name: usage[name] + cached_of(usage)}


def left_out(asked: Asked, usage: Json) -> Json:
    """On the chat entry only: a Messages total is the sum of its parts."""
    return (
        usage
        if asked.entry is Entry.MESSAGES
        else {**usage, "prompt_tokens": usage["prompt_tokens"] - cached_of(usage)}
    )


# Causes


@pytest.mark.parametrize(
    ("pairs", "cause"),
    [
        pytest.param([(1000, 0, 1900, 900), (1200, 0, 2300, 1100)], "added to", id="added"),
        pytest.param([(1000, 0, 100, 900), (1200, 0, 100, 1100)], "left out of", id="left out"),
        pytest.param([(1000, 64, 1836, 900), (1200, 64, 2236, 1100)], "added to", id="by what was warmer"),
        pytest.param([(1000, 0, 1900, 900), (1200, 0, 2290, 1100)], None, id="one is off by ten"),
        pytest.param([(1000, 0, 1900, 900), (1200, 0, 1200, 1100)], None, id="one does not move"),
        pytest.param([(1000, 0, 1900, 900), (1200, 0, 100, 1100)], None, id="to both sides"),
        pytest.param([(1000, 0, 1900, 900)], None, id="one observation"),
        pytest.param([(1000, 0, 1500, 0), (1200, 0, 1700, 0)], None, id="nothing cached"),
        pytest.param([(10, 0, 910, 900), (12, 0, 1112, 1100), (900, 0, 950, 0)], "added to", id="a cold one beside"),
        pytest.param([], None, id="none"),
    ],
)  # fmt: skip
def test_a_cause_needs_arithmetic(pairs: list[tuple[int, int, int, int]], cause: str | None) -> None:
    sent = [(Sent(a, b), Sent(c, d)) for a, b, c, d in pairs]
    assert cached_moves_total(sent) == cause


class Drifts:
    """A total that grows with every answer, by nothing that is cached."""

    def __init__(self) -> None:
        self.n = 0

    def __call__(self, asked: Asked, usage: Json) -> Json:
        self.n += 1
        name = "input_tokens" if asked.entry is Entry.MESSAGES else "prompt_tokens"
        return {**usage, name: usage[name] + 97 * self.n}


@pytest.mark.parametrize(
    ("usage", "cause", "entry"),
    [
        (lambda: added, "added to the total", Entry.MESSAGES),
        (lambda: added, "added to the total", Entry.CHAT),
        (lambda: left_out, "left out of the total", Entry.CHAT),
        (Drifts, None, Entry.MESSAGES),
        (Drifts, None, Entry.CHAT),
    ],
)
def test_a_moving_total_is_named_with_its_cause_or_with_its_numbers(
    usage: Callable[[], Any], cause: str | None, entry: Entry
) -> None:
    judged = judge(Target(front=Layer(usage=usage())), recorder=False, entries=(entry,))
    assert judged.status("USE-06", entry) is Status.FAIL, judged.said
    assert ("cached" in judged.reason("USE-06", entry)) is (cause is not None)
    assert (cause or "the first time and") in judged.reason("USE-06", entry)


def test_a_total_that_moves_upstream_is_not_the_gateways() -> None:
    judged = judge(Target(back=Layer(usage=added)), recorder=True, entries=(Entry.CHAT,))
    assert judged.status("USE-06", Entry.CHAT) is Status.INCONCLUSIVE
    assert "the upstream's own total does" in judged.reason("USE-06", Entry.CHAT)
    assert judged.code is ExitCode.INCOMPLETE


# Whose fault


@pytest.mark.parametrize(("guilty", "change"), [(Entry.MESSAGES, added), (Entry.CHAT, added), (Entry.CHAT, left_out)])
@pytest.mark.parametrize("direct", [True, False])
def test_only_the_entry_whose_total_moves_is_blamed(guilty: Entry, direct: bool, change: UsageChange) -> None:
    judged = judge(Target(front=Layer(usage=only_on(guilty, change))), recorder=False, direct=direct, entries=BOTH)
    assert judged.status("USE-06", guilty) is Status.FAIL
    other = next(entry for entry in Entry if entry is not guilty)
    assert judged.status("USE-06", other) is Status.PASS
    if guilty is Entry.MESSAGES:
        assert judged.status("USE-01") is Status.FAIL
        assert "requests sent twice it moved by exactly" in judged.reason("USE-01")
    else:
        assert judged.status("USE-01") is (Status.PASS if direct else Status.INCONCLUSIVE), judged.reason("USE-01")


# A usage that is not there


@pytest.mark.parametrize("recorder", [True, False])
def test_a_missing_usage_is_said_to_be_missing_and_nothing_else_is_said_of_it(recorder: bool) -> None:
    judged = judge(Target(front=Layer(usage=only_on(Entry.MESSAGES, usage_null))), recorder=recorder, entries=BOTH)
    scripted = {"STR-06", "USE-09"} if recorder else set()  # a null is passed on there too
    assert judged.failed == {"USE-01", "STR-01", "STR-03"} | scripted, judged.said
    [verdict] = [v for v in judged.verdicts if v.rule == "USE-01" and v.status is Status.FAIL]
    assert verdict.code == "usage-missing"
    assert "usage" in verdict.reason
    for v in judged.verdicts:
        if v.rule in ("PIN-01", "PIN-02", "USE-06", "PFX-09") and v.entry is Entry.MESSAGES:
            assert v.status in (Status.INCONCLUSIVE, Status.NOT_RUN, Status.PASS)
            assert "does not grow" not in v.reason
            assert "do not grow" not in v.reason


class Sometimes:
    def __init__(self) -> None:
        self.number = -1

    def __call__(self, asked: Asked, usage: Json) -> Json | None:
        return None if asked.number % 3 == 1 else usage


def test_a_usage_that_is_missing_now_and_then_is_not_a_total_that_ignores_the_prompt() -> None:
    judged = judge(Target(front=Layer(usage=Sometimes())), recorder=False, entries=(Entry.MESSAGES,))
    [verdict] = [v for v in judged.verdicts if v.rule == "USE-01" and v.entry is Entry.MESSAGES]
    assert (verdict.status, verdict.code) == (Status.INCONCLUSIVE, "usage-missing")
    assert judged.code is not ExitCode.GREEN


# Totals that do not grow


def cut_to_the_head(asked: Asked) -> None:
    """An engine that cuts what is too long for it, and counts what is left."""
    asked.body["messages"] = asked.body["messages"][:2]
    for message in asked.body["messages"]:
        if isinstance(message.get("content"), str):
            message["content"] = message["content"][:400]


@pytest.mark.parametrize("direct", [True, False])
def test_an_engine_that_cuts_its_prompts_and_counts_honestly_is_not_accused(direct: bool) -> None:
    judged = judge(Target(back=Layer(request=cut_to_the_head)), recorder=False, direct=direct, entries=BOTH)
    assert accused(judged) == {}
    assert judged.status("USE-01") is Status.INCONCLUSIVE
    assert "honest count of a prompt that is cut" in judged.reason("USE-01")
    assert judged.code is ExitCode.INCOMPLETE


def test_a_total_made_up_by_the_gateway_is_told_by_asking_the_engine() -> None:
    target = Target(front=Layer(request=on(Entry.MESSAGES, Constant(1024, 5000, ids=True))))
    alone = judge(target, recorder=False, entries=BOTH)
    assert (alone.status("USE-01"), alone.code) == (Status.INCONCLUSIVE, ExitCode.INCOMPLETE)
    asked = judge(target, recorder=False, direct=True, entries=BOTH)
    assert asked.status("USE-01") is Status.FAIL
    assert "asked directly of the engine" in asked.reason("USE-01")
