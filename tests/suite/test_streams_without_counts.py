"""Streams without prompt tokens, seen from the client alone: the engine's habit, or the gateway's fault?"""

from __future__ import annotations

import pytest
from suite_layers import Asked, Json, Layer
from suite_targets import Judged, Target, judge

from conformance.verdicts import Entry, Status

MESSAGES, BOTH = (Entry.MESSAGES,), (Entry.MESSAGES, Entry.CHAT)
RULES = ("STR-03", "USE-07")


def plain_only(asked: Asked, usage: Json) -> Json | None:
    return None if asked.streamed else usage


def judged(
    target: Target, *, entries: tuple[Entry, ...] = MESSAGES, recorder: bool = False, direct: bool = False
) -> Judged:
    return judge(target, recorder=recorder, direct=direct, entries=entries, rules=RULES)


def engine_without_usage_in_streams() -> Target:
    return Target(back=Layer(usage=plain_only))


@pytest.mark.parametrize("entries", [MESSAGES, BOTH])
@pytest.mark.parametrize("vantage", ["client", "direct", "recorder"])
def test_an_engine_that_counts_no_streams_is_no_fault_of_the_gateway(entries: tuple[Entry, ...], vantage: str) -> None:
    found = judged(
        engine_without_usage_in_streams(), entries=entries, recorder=vantage == "recorder", direct=vantage == "direct"
    )
    assert found.failed == set(), found.said
    for entry in entries:
        assert found.status("USE-07", entry) is Status.INCONCLUSIVE, found.said
    says = {"client": "nothing here rules that out", "direct": "asked directly", "recorder": "the upstream reports no"}
    assert says[vantage] in found.reason("STR-03")


def test_a_gateway_that_does_not_ask_is_told_apart_where_anything_tells() -> None:
    target = Target(fault="no-include-usage")
    alone = judged(target)
    assert {alone.status(rule) for rule in RULES} == {Status.INCONCLUSIVE}, alone.said
    for vantage, entries in (("direct", MESSAGES), ("client", BOTH), ("recorder", MESSAGES)):
        found = judged(target, entries=entries, recorder=vantage == "recorder", direct=vantage == "direct")
        assert {found.status(rule) for rule in RULES} == {Status.FAIL}, found.said


def drops_chat_stream_usage(asked: Asked, usage: Json) -> Json | None:
    return None if asked.streamed and asked.entry is Entry.CHAT else usage


def test_a_gateway_that_drops_the_usage_of_chat_streams_fails_by_its_other_entry() -> None:
    found = judged(Target(front=Layer(usage=drops_chat_stream_usage)), entries=BOTH)
    assert found.status("USE-07", Entry.CHAT) is Status.FAIL, found.said
    assert found.status("USE-07") is Status.PASS, found.said
    alone = judged(Target(front=Layer(usage=drops_chat_stream_usage)), entries=(Entry.CHAT,))
    assert alone.status("USE-07", Entry.CHAT) is Status.INCONCLUSIVE, alone.said
