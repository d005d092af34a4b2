"""Gateways that send more than the request itself: which of their calls is the client's own goes by content."""

from __future__ import annotations

from typing import Any

import pytest
from suite_layers import Asked, Json, Layer
from suite_odd_engines import RandomText
from suite_targets import Judged, Target, judge

from conformance.diagnosis.prompt import parse_prompt
from conformance.observe.records import matching_records, own_record
from conformance.verdicts import Entry, ExitCode, Status
from conformance.wire.exchange import Exchange, UpstreamRecord, Usage
from conformance.wire.jsontext import dumps


def everything_said(asked: Asked) -> str:
    prompt = parse_prompt(asked.path, asked.body)
    assert prompt is not None
    return "\n".join(part.text for part in prompt.parts)


def guardrail(asked: Asked) -> list[Json]:
    """The last thing the user said, put to a classifier."""
    said = [m["content"] for m in asked.body["messages"] if m["role"] == "user"][-1]
    return [_asking(asked, f"Is this harmful? {said}")]


def moderation(asked: Asked) -> list[Json]:
    """The whole conversation in one text."""
    return [_asking(asked, everything_said(asked))]


def mirror(asked: Asked) -> Json:
    return {**asked.body, "temperature": 0.3, "user": f"mirror-{asked.number}"}


def _asking(asked: Asked, text: str) -> Json:
    return {"model": asked.body["model"], "max_tokens": 4, "messages": [{"role": "user", "content": text}]}


SIDE_CALLS = {
    "a guardrail before it": lambda: Layer(before=guardrail),
    "a guardrail behind it": lambda: Layer(after=guardrail),
    "moderation of the whole conversation behind it": lambda: Layer(after=moderation),
    "moderation on both sides": lambda: Layer(before=moderation, after=moderation),
    "a mirror beside it": lambda: Layer(beside=mirror),
}


OF_THE_DOUBLE = ("CNT-01", "ERR-02")
"""SHOULDs that the doubles break themselves: their side calls run on when a client leaves, and are counted along."""


def accused(judged: Judged) -> dict[str, str]:
    said = {k: v for k, v in judged.said.items() if v.startswith(("fail", "warn", "suite error"))}
    return {k: v for k, v in said.items() if not (v.startswith("warn") and k.startswith(OF_THE_DOUBLE))}


@pytest.mark.parametrize("name", SIDE_CALLS)
def test_calls_beside_the_request_are_not_taken_for_it(name: str) -> None:
    judged = judge(
        Target(middle=SIDE_CALLS[name](), back=Layer(answer=RandomText())), recorder=True, entries=(Entry.MESSAGES,)
    )
    assert accused(judged) == {}
    assert judged.code is ExitCode.GREEN
    for rule in ("CON-01", "PFX-01", "PFX-02", "PFX-09", "PFX-13", "PFX-14", "USE-01"):
        assert judged.status(rule) is Status.PASS, judged.reason(rule)


class ModeratesAndDropsTheSystem:
    """What it moderates is whole; what it forwards is not."""

    def __init__(self) -> None:
        self.whole = ""

    def request(self, asked: Asked) -> None:
        self.whole = everything_said(asked)
        asked.body["messages"] = [m for m in asked.body["messages"] if m["role"] != "system"]

    def beside(self, asked: Asked) -> list[Json]:
        return [_asking(asked, self.whole)]


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_call_that_holds_it_all_does_not_hide_what_the_request_lost(where: str) -> None:
    gateway = ModeratesAndDropsTheSystem()
    layer = Layer(request=gateway.request)
    setattr(layer, where, gateway.beside)
    target = Target(middle=layer, back=Layer(answer=RandomText()))
    judged = judge(target, recorder=True, entries=(Entry.MESSAGES,))
    assert "CON-01" in judged.failed, judged.said


# One exchange, against a table

TOOLS = [{"name": "Bash", "description": "runs", "input_schema": {"type": "object"}}]
REQUEST: Json = {
    "model": "m", "system": "Be brief.", "tools": TOOLS,
    "messages": [{"role": "user", "content": "What is a prefix?"}, {"role": "user", "content": "And a block?"}],
}  # fmt: skip
CHAT: Json = {
    "model": "served", "tools": [{"type": "function", "function": {"name": "Bash"}}],
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is a prefix?"},
                 {"role": "user", "content": "And a block?"}],
}  # fmt: skip
HALF = {**CHAT, "messages": CHAT["messages"][1:]}
GUARD: Json = {"model": "guard", "messages": [{"role": "user", "content": "Safe? And a block?"}]}


def record(body: Json, said: str = "It is.", prompt: int = 100, status: int = 200, ident: str = "x") -> UpstreamRecord:
    answer = {
        "id": ident, "choices": [{"message": {"role": "assistant", "content": said}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": 3},
    }  # fmt: skip
    return UpstreamRecord("POST", "/v1/chat/completions", {}, dumps(body), status, dumps(answer), True)


def exchange(*records: UpstreamRecord, text: str = "It is.", **more: Any) -> Exchange:
    return Exchange(
        entry=Entry.MESSAGES, request=REQUEST, streamed=False, status=200, text=text, upstream=records, **more
    )


OWN = record(CHAT)
RETRY = record(CHAT, prompt=101)
FAILED = record(CHAT, said="", status=500)
OTHER_ANSWER = record({**CHAT, "temperature": 0}, said="Something else.")
GUARDED = record(GUARD, said="safe", prompt=9)


@pytest.mark.parametrize(
    ("records", "found"),
    [
        pytest.param([OWN], OWN, id="the only one"),
        pytest.param([GUARDED, OWN], OWN, id="a guardrail before"),
        pytest.param([OWN, GUARDED], OWN, id="a guardrail behind"),
        pytest.param([FAILED, OWN], OWN, id="a failed try before"),
        pytest.param([OWN, FAILED], OWN, id="a hedge that failed"),
        pytest.param([OWN, RETRY], RETRY, id="tries alike: the last"),
        pytest.param([OWN, OTHER_ANSWER], OWN, id="the one whose answer the client got"),
        pytest.param([GUARDED], None, id="a guardrail and no request: answered from elsewhere"),
        pytest.param([record(GUARD)], record(GUARD), id="all but the question is lost, and answered"),
        pytest.param([record(HALF), GUARDED], record(HALF), id="what holds most, though not all"),
        pytest.param([record(HALF), record(CHAT, said="No.")], None, id="the fullest one's answer is another"),
        pytest.param([], None, id="none"),
    ],
)  # fmt: skip
def test_the_clients_own_request_among_others(records: list[UpstreamRecord], found: UpstreamRecord | None) -> None:
    assert own_record(exchange(*records)) == found


def test_the_usage_decides_between_answers_alike() -> None:
    twin = record({**CHAT, "model": "zzz"}, prompt=80)
    usage = Usage(prompt=100, output=3)
    assert own_record(exchange(OWN, twin, usage=usage)) == OWN
    assert own_record(exchange(twin, OWN, usage=usage)) == OWN
    assert {r.body for r in matching_records(exchange(twin, OWN, GUARDED, usage=usage))} == {twin.body, OWN.body}
