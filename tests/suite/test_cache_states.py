"""Why no exact repeat hits: upstream bytes tell an engine without a cache from a gateway that changes every prompt."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest
from suite_bad_targets import BAD, clock_in_first_tool
from suite_layers import Asked, Layer
from suite_targets import Target, judge

from conformance.evidence.conversation import Sent
from conformance.evidence.qualify import NEVER_HIT, CacheState
from conformance.observe.none_hit import why_few_hit
from conformance.verdicts import Entry, ExitCode, Status
from conformance.wire.exchange import Exchange, UpstreamRecord


@pytest.mark.parametrize(
    ("name", "recorder", "state"),
    [
        ("engine without cache", True, CacheState.OFF),
        ("engine without cache", False, CacheState.NONE_SEEN),
        ("clock in first tool", True, CacheState.CHANGED),
        ("clock in first tool", False, CacheState.NONE_SEEN),
    ],
)
def test_the_state_is_said_and_is_never_green(name: str, recorder: bool, state: CacheState) -> None:
    judged = judge(BAD[name](), recorder=recorder, entries=(Entry.CHAT,))
    assert judged.report is not None
    assert {f.name: f.value for f in judged.report.facts}["chat: cache"] == state.value
    [pin] = [v for v in judged.verdicts if v.rule == "PIN-01" and v.entry is Entry.CHAT]
    assert pin.status is Status.INCONCLUSIVE
    assert "no cache seen" in pin.reason or "token budget is used up" in pin.reason
    assert judged.code in (ExitCode.RED, ExitCode.INCOMPLETE)


class ClockNowAndThen:
    """Of four requests two in a row get the time: some repeats go up as they first did, most do not."""

    def __init__(self) -> None:
        self._n = 0

    def __call__(self, asked: Asked) -> None:
        self._n += 1
        if self._n % 4 in (0, 1):
            clock_in_first_tool(asked)


def test_a_prompt_that_changes_now_and_then_is_no_routing() -> None:
    target = Target(middle=Layer(request=ClockNowAndThen()))
    judged = judge(target, recorder=True, entries=(Entry.CHAT,))
    assert judged.report is not None
    assert {f.name: f.value for f in judged.report.facts}["chat: cache"] == CacheState.VARYING.value


def send(text: str, *, seen: bool = True) -> Sent:
    body = orjson.dumps({"messages": [{"role": "user", "content": text}]})
    record = UpstreamRecord("POST", "/v1/chat/completions", {}, body, 200, b"{}", complete=True)
    exchange = Exchange(Entry.CHAT, {}, streamed=False, status=200, upstream=(record,) if seen else ())
    return Sent(900, 0, exchange=exchange)


@pytest.mark.parametrize(
    ("missed", "state"),
    [
        ([(send("one"), send("other"))], CacheState.VARYING),
        ([(send("one"), send("other")), (send("two"), send("two"))], CacheState.UNRELIABLE),
        ([(send("one"), send("other", seen=False))], CacheState.UNRELIABLE),
        ([], CacheState.UNRELIABLE),
    ],
)
def test_repeats_that_miss_vary_only_where_every_one_was_seen_to(
    missed: list[tuple[Sent, Sent]], state: CacheState
) -> None:
    hit = replace(send("three"), cached=896)
    assert why_few_hit([*missed, (send("three"), hit)], 64.0) is state


def test_every_state_without_hits_has_words_of_its_own() -> None:
    assert len({state.value for state in NEVER_HIT}) == len(NEVER_HIT) == 3
