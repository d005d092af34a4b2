"""STR-01 judges each stream by its own bytes: a model may vary, a stream may not lose its text."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from suite_bad_targets import stream_cut
from suite_layers import Asked, Layer, Reply, json_reply
from suite_odd_engines import says_nothing
from suite_targets import Target, judge

from conformance.verdicts import Entry, ExitCode, Status


class SometimesSilent:
    """A model that ends at once, now and then."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def __call__(self, asked: Asked, reply: Reply) -> None:
        if self.rng.random() < 0.5:
            says_nothing(asked, reply)


@pytest.mark.parametrize("recorder", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_a_model_that_is_silent_half_the_time_is_not_accused(seed: int, recorder: bool) -> None:
    target = Target(back=Layer(answer=SometimesSilent(seed)))
    judged = judge(target, recorder=recorder, entries=(Entry.MESSAGES,), rules=("STR-*", "USE-*"))
    assert judged.failed == set(), judged.said
    if recorder:
        assert judged.status("STR-01") is Status.PASS, judged.reason("STR-01")


def done_at_the_end(asked: Asked, reply: Reply) -> None:
    if reply.is_stream and asked.entry is Entry.MESSAGES:
        reply.body += b"data: [DONE]\n\n"


def test_done_after_message_stop_is_no_failure() -> None:
    judged = judge(Target(front=Layer(answer=done_at_the_end)), recorder=True, entries=(Entry.MESSAGES,))
    assert judged.code is ExitCode.GREEN
    assert "[DONE]" in judged.reason("STR-01")


def named_garbage(asked: Asked, reply: Reply) -> None:
    if reply.is_stream and asked.entry is Entry.MESSAGES:
        reply.body += b"event: done\ndata: [DONE]\n\n"


def without_names(asked: Asked, reply: Reply) -> None:
    """Events by `data` alone: the official SDK passes over all of them."""
    if reply.is_stream and asked.entry is Entry.MESSAGES:
        reply.events = [("", data) for _, data in reply.events]


def stop_is_garbage(asked: Asked, reply: Reply) -> None:
    if reply.is_stream and asked.entry is Entry.MESSAGES:
        reply.events = [*reply.events[:-2], ("message_delta", "none"), reply.events[-1]]


@pytest.mark.parametrize("answer", [named_garbage, without_names, stop_is_garbage])
def test_what_the_sdk_cannot_read_fails(answer: Callable[[Asked, Reply], None]) -> None:
    judged = judge(Target(front=Layer(answer=answer)), recorder=False, entries=(Entry.MESSAGES,), rules=("STR-01",))
    assert judged.status("STR-01") is Status.FAIL, judged.said


def without_blocks(asked: Asked, reply: Reply) -> None:
    if reply.is_stream and asked.entry is Entry.MESSAGES:
        reply.events = [(n, d) for n, d in reply.events if not n.startswith("content_block")]


def test_a_stream_without_its_text_fails_by_its_own_upstream_stream_and_is_never_green() -> None:
    target = Target(front=Layer(answer=without_blocks))
    seen = judge(target, recorder=True, entries=(Entry.MESSAGES,))
    assert (seen.status("STR-01"), seen.code) == (Status.FAIL, ExitCode.RED)
    assert "no content block" in seen.reason("STR-01")
    alone = judge(target, recorder=False, entries=(Entry.MESSAGES,), rules=("STR-01",))
    assert (alone.status("STR-01"), alone.code) == (Status.INCONCLUSIVE, ExitCode.INCOMPLETE)


class FailsOnce:
    """An upstream that breaks off in one stream, the first after the preflight's."""

    def __init__(self) -> None:
        self.streams = 0

    def __call__(self, asked: Asked, reply: Reply) -> None:
        self.streams += asked.streamed
        if asked.streamed and self.streams == 2:
            stream_cut(asked, reply)


@pytest.mark.parametrize("recorder", [True, False])
def test_an_upstream_that_fails_once_is_not_the_gateways_stream(recorder: bool) -> None:
    judged = judge(
        Target(back=Layer(answer=FailsOnce())), recorder=recorder, entries=(Entry.MESSAGES,), rules=("STR-01",)
    )
    assert judged.status("STR-01") is Status.INCONCLUSIVE, judged.said


def errors_in_streams(asked: Asked, reply: Reply) -> None:
    if reply.is_stream and asked.entry is Entry.MESSAGES:
        error = {"type": "error", "error": {"type": "api_error", "message": "no"}}
        reply.events = [reply.events[0], ("error", error)]


@pytest.mark.parametrize("recorder", [True, False])
def test_a_gateway_whose_streams_all_end_in_an_error_fails(recorder: bool) -> None:
    target = Target(front=Layer(answer=errors_in_streams))
    judged = judge(target, recorder=recorder, entries=(Entry.MESSAGES,), rules=("STR-01",))
    assert judged.status("STR-01") is Status.FAIL, judged.said


def test_a_stream_that_is_refused_is_not_judged() -> None:
    def refuses(asked: Asked) -> Reply | None:
        return json_reply({"error": {"message": "no"}}, 503) if asked.streamed else None

    judged = judge(Target(front=Layer(request=refuses)), recorder=False, entries=(Entry.MESSAGES,), rules=("STR-01",))
    assert judged.status("STR-01") is Status.INCONCLUSIVE
