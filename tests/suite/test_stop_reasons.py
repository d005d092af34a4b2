"""A finished answer says how it ended: by scripts (STR-09), and by one answer plain and streamed (STR-01)."""

from __future__ import annotations

import orjson
import pytest
from suite_layers import Answer, Asked, Layer, Reply
from suite_targets import Target, judge

from conformance.verdicts import Entry, Status


def cut_by_length(asked: Asked, reply: Reply) -> None:
    """An engine whose every answer ends at its token limit."""
    if asked.entry is Entry.CHAT:
        reply.body = reply.body.replace(b'"finish_reason":"stop"', b'"finish_reason":"length"')


def streams_cut_by_length(asked: Asked, reply: Reply) -> None:
    """An engine that says `length` of streams only."""
    if asked.streamed:
        cut_by_length(asked, reply)


def streams_end_their_turn(asked: Asked, reply: Reply) -> None:
    if reply.is_stream and asked.entry is Entry.MESSAGES:
        reply.body = reply.body.replace(b'"stop_reason":"max_tokens"', b'"stop_reason":"end_turn"')


def plain_without_reason(asked: Asked, reply: Reply) -> None:
    """As openai2claude 0.1.1: a plain message has no stop_reason member."""
    if not reply.is_stream and asked.entry is Entry.MESSAGES:
        message = orjson.loads(reply.body)
        message.pop("stop_reason", None)
        reply.body = orjson.dumps(message)


def window_full(asked: Asked, reply: Reply) -> None:
    """A gateway that knows that the window, not max_tokens, cut the answer."""
    if asked.entry is Entry.MESSAGES:
        reply.body = reply.body.replace(b'"max_tokens"', b'"model_context_window_exceeded"')


def judged(
    rule: str, *, back: Answer | None = None, front: Answer | None = None, recorder: bool = True
) -> tuple[Status, str]:
    target = Target(
        back=Layer(answer=back) if back is not None else None, front=Layer(answer=front) if front is not None else None
    )
    found = judge(target, recorder=recorder, entries=(Entry.MESSAGES,), rules=(rule,))
    return found.status(rule), found.reason(rule)


@pytest.mark.parametrize(("recorder", "status"), [(True, Status.FAIL), (False, Status.INCONCLUSIVE)])
def test_a_stream_that_ends_otherwise_than_the_plain_answer(recorder: bool, status: Status) -> None:
    seen, reason = judged("STR-01", back=cut_by_length, front=streams_end_their_turn, recorder=recorder)
    assert seen is status
    assert "ends in max_tokens plain and in end_turn streamed" in reason


@pytest.mark.parametrize(("recorder", "status"), [(True, Status.PASS), (False, Status.INCONCLUSIVE)])
def test_an_engine_that_ends_its_streams_otherwise_is_no_fault_of_the_gateway(recorder: bool, status: Status) -> None:
    assert judged("STR-01", back=streams_cut_by_length, recorder=recorder)[0] is status


def test_an_engine_that_cuts_every_answer_is_no_fault_of_the_gateway() -> None:
    for rule in ("STR-01", "STR-09"):
        assert judged(rule, back=cut_by_length)[0] is Status.PASS


def test_a_plain_answer_without_a_stop_reason_fails() -> None:
    seen, reason = judged("STR-09", front=plain_without_reason)
    assert seen is Status.FAIL
    assert "tool calls end in no stop reason plain, not tool_use" in reason
    assert "finished answers end in no stop reason plain, not end_turn" in reason


def test_a_full_window_is_a_reason_too() -> None:
    assert judged("STR-09", front=window_full)[0] is Status.PASS
