"""Event sequences, exit codes and roots, against tables."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, cast

import pytest

from conformance.evidence.conversation import Conversation, Sent
from conformance.evidence.hotpair import Arm, Pair
from conformance.judgements import warmth
from conformance.judgements.stream import sequence_faults
from conformance.roots import EXPLAINED_BY, ONLY_BY_CODES, link_roots
from conformance.verdicts import Entry, ExitCode, Status, Vantage, Verdict, by_rule, exit_code
from conformance.wire.exchange import StreamEvent

# Event sequences

USAGE = {"input_tokens": 3, "output_tokens": 0}
START = {"type": "message_start", "message": {"usage": USAGE}}
OPEN = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
SAY = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}
CLOSE = {"type": "content_block_stop", "index": 0}
DELTA = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": USAGE}
STOP = {"type": "message_stop"}
PING = {"type": "ping"}
WHOLE = [START, OPEN, SAY, CLOSE, DELTA, STOP]


def at_index(event: dict[str, Any], index: Any) -> dict[str, Any]:
    return {**event, "index": index}


def usage(**values: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {"usage": {**USAGE, **values}}}


SECOND = [at_index(e, 1) for e in (OPEN, SAY, CLOSE)]


@pytest.mark.parametrize(
    ("events", "faults"),
    [
        (WHOLE, []),
        ([PING, START, PING, *WHOLE[1:], PING], []),
        ([{"type": "new_event"}, *WHOLE, {"type": "another"}], []),
        ([START, OPEN, CLOSE, DELTA, STOP], []),
        ([START, OPEN, SAY, CLOSE, *SECOND, DELTA, DELTA, STOP], []),
        ([], ["the stream carries no event"]),
        ([PING], ["the stream carries no event"]),
        ([START, {"type": "error"}], ["the stream carries an error event"]),
        (WHOLE[1:], ["the first event is content_block_start, not message_start"]),
        (WHOLE[:-1], ["the last event is message_delta, not message_stop"]),
        ([START, OPEN, SAY, CLOSE, STOP], ["no message_delta with stop_reason and usage"]),
        ([START, DELTA, STOP], ["no content block"]),
        ([usage(input_tokens=None), *WHOLE[1:]], ["message_start's usage has no integer input_tokens"]),
        ([usage(input_tokens=1.0, output_tokens="0"), *WHOLE[1:]],
         ["message_start's usage has no integer input_tokens and output_tokens"]),
        ([usage(output_tokens=True), *WHOLE[1:]], ["message_start's usage has no integer output_tokens"]),
        ([START, OPEN, SAY, DELTA, STOP], ["content block 0 is still open at message_delta"]),
        ([START, OPEN, SAY, *SECOND, CLOSE, DELTA, STOP], []),  # rolter 0.1.0, openai2claude 0.1.1
        ([START, OPEN, *SECOND, DELTA, STOP], ["content block 0 is still open at message_delta"]),
        ([START, OPEN, SAY, OPEN, SAY, CLOSE, DELTA, STOP], ["content block 0 starts twice"]),  # llm-rosetta 0.13.0
        ([START, OPEN, CLOSE, OPEN, CLOSE, DELTA, STOP], ["content block 0 starts twice"]),
        ([START, OPEN, CLOSE, SAY, DELTA, STOP], ["content_block_delta for block 0, which is not open"]),
        ([START, OPEN, at_index(SAY, 3), CLOSE, DELTA, STOP], ["content_block_delta for block 3, which is not open"]),
        ([START, at_index(OPEN, None), DELTA, STOP], ["content_block_start without an integer index"]),
    ],
)  # fmt: skip
def test_the_order_of_events(events: list[dict[str, Any]], faults: list[str]) -> None:
    assert sequence_faults([StreamEvent(e["type"], e) for e in events]) == faults


def test_an_empty_message_is_a_message() -> None:
    events = [StreamEvent("", e) for e in (START, DELTA, STOP)]
    assert sequence_faults(events, empty=True) == []
    assert sequence_faults(events[:-1], empty=True) == ["the last event is message_delta, not message_stop"]


# Exit codes

FAMILIES = {"C-1": "cache", "C-2": "cache", "U-1": "usage", "S-1": "usage"}
MUSTS = frozenset(("C-1", "C-2", "U-1"))


def verdict(rule: str, status: Status, entry: Entry = Entry.MESSAGES) -> Verdict:
    return Verdict(rule=rule, entry=entry, status=status, reason="", vantage=Vantage.CLIENT, n=1)


def code(*verdicts: Verdict, **options: Any) -> ExitCode:
    options = {"requested": ("cache", "usage"), **options}
    return exit_code(by_rule(verdicts), families_of=FAMILIES, musts=MUSTS, **options)


def spelled_out(cache: Status, other: Status, usage_status: Status) -> ExitCode:
    statuses = (cache, other, usage_status)
    decided = (Status.PASS, Status.FAIL, Status.WARN)
    if Status.ERROR in statuses:
        return ExitCode.SUITE
    if Status.FAIL in statuses:
        return ExitCode.RED
    if usage_status in decided and (cache in decided or other in decided):
        return ExitCode.GREEN
    return ExitCode.INCOMPLETE


def test_exit_codes() -> None:
    def said(cache: Status, other: Status, usage_status: Status) -> ExitCode:
        return code(verdict("C-1", cache), verdict("C-2", other, Entry.CHAT), verdict("U-1", usage_status))

    table = list(itertools.product(Status, repeat=3))
    assert {row: said(*row) for row in table} == {row: spelled_out(*row) for row in table}


@pytest.mark.parametrize(
    ("verdicts", "options", "expected"),
    [
        ((), {}, ExitCode.INCOMPLETE),
        ((), {"requested": ()}, ExitCode.GREEN),
        (("C-1", "U-1"), {}, ExitCode.GREEN),
        (("C-1", "U-1"), {"withheld": ("cache",)}, ExitCode.INCOMPLETE),
        (("C-1", "U-1"), {"withheld": ("cache",), "allowed_unjudged": ("cache",)}, ExitCode.GREEN),
        (("C-1",), {}, ExitCode.INCOMPLETE),
        (("C-1",), {"allowed_unjudged": ("usage",)}, ExitCode.GREEN),
        (("C-1",), {"requested": ("cache",)}, ExitCode.GREEN),
        (("C-1", "S-1"), {}, ExitCode.INCOMPLETE),  # a SHOULD judges no family
    ],
)
def test_families_that_nothing_judged(verdicts: tuple[str, ...], options: dict[str, Any], expected: ExitCode) -> None:
    assert code(*(verdict(rule, Status.PASS) for rule in verdicts), **options) is expected


def test_a_should_that_fails_is_not_red() -> None:
    rest = (verdict("C-1", Status.PASS), verdict("U-1", Status.PASS))
    assert code(*rest, verdict("S-1", Status.FAIL)) is ExitCode.GREEN
    assert code(*rest, verdict("S-1", Status.ERROR)) is ExitCode.SUITE


def test_a_failure_on_one_entry_is_red_though_the_other_passes() -> None:
    both = (verdict("C-1", Status.PASS), verdict("C-1", Status.FAIL, Entry.CHAT), verdict("U-1", Status.PASS))
    assert code(*both) is ExitCode.RED
    assert code(*both, allowed_unjudged=("cache", "usage")) is ExitCode.RED


# Roots


@pytest.mark.parametrize(("rule", "root"), [(rule, root) for rule, roots in EXPLAINED_BY.items() for root in roots])
def test_a_root_explains_its_consequence_on_the_same_entry(rule: str, root: str) -> None:
    code = min(ONLY_BY_CODES.get((rule, root), ("x",)))
    linked = link_roots([verdict(rule, Status.FAIL), replace(verdict(root, Status.FAIL), code=code)])
    assert [v.root for v in linked if v.rule == rule] == [root]
    assert link_roots([verdict(rule, Status.FAIL), verdict(root, Status.FAIL, Entry.CHAT)])[0].root is None
    assert link_roots([verdict(rule, Status.FAIL), verdict(root, Status.PASS)])[0].root is None
    assert link_roots([verdict(rule, Status.PASS), verdict(root, Status.FAIL)])[0].root is None


@pytest.mark.parametrize(
    ("root_code", "code", "root"),
    [
        ("text-dropped", "system-message-dropped", "CON-01"),
        ("text-added", "system-message-dropped", None),
        ("text-dropped", "system-message-moved", None),
    ],
)
def test_a_dropped_note_follows_from_dropped_text_and_from_nothing_else(
    root_code: str, code: str, root: str | None
) -> None:
    failed = [
        replace(verdict("PFX-06", Status.FAIL), code=code),
        replace(verdict("CON-01", Status.FAIL), code=root_code),
    ]
    assert link_roots(failed)[0].root == root


def test_the_likeliest_root_is_named() -> None:
    rules = ("PIN-01", *EXPLAINED_BY["PIN-01"])
    assert link_roots([verdict(rule, Status.FAIL) for rule in rules])[0].root == EXPLAINED_BY["PIN-01"][0]


def test_no_failure_is_explained_in_a_circle() -> None:
    def causes(rule: str, seen: tuple[str, ...] = ()) -> None:
        assert rule not in seen, " <- ".join((*seen, rule))
        for root in EXPLAINED_BY.get(rule, ()):
            causes(root, (*seen, rule))

    for rule in EXPLAINED_BY:
        causes(rule)


# Warmth


@pytest.mark.parametrize("growth", [300, 400])
def test_a_first_turn_that_failed_makes_no_entry_cold(growth: int) -> None:
    def arm(first: Sent, growth: int) -> Arm:
        turns = [Sent(2_000 + 300 * turn, 1_700 + 300 * turn) for turn in range(1, 9)]
        pairs = [Pair(turn, None, new) for turn, new in enumerate(turns, start=1)]
        return Arm("pinned", cast(Conversation, None), growth, first=first, pairs=pairs)

    one, two = arm(Sent(None, None, valid=False), 300), arm(Sent(2_000, 0), growth)
    for each, appended in zip((one, two), warmth.appended(one, two), strict=True):
        assert min(warmth.kept_growth(each, appended)) > 0.8
