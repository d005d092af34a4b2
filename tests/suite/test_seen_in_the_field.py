"""What published gateways do, in doubles: each was first judged wrongly here (docs/targets tells where it was seen)."""

from __future__ import annotations

import pytest
from suite_layers import Asked, Json, Layer, Reply, json_reply, total_of
from suite_targets import Target, judge

from conformance.verdicts import Entry, Status, Verdict

MESSAGES = (Entry.MESSAGES,)


def verdict(target: Target, rule: str, *others: str, recorder: bool = True) -> Verdict:
    judged = judge(target, recorder=recorder, entries=MESSAGES, rules=(rule, *others))
    return next(v for v in judged.verdicts if v.rule == rule)


def mark_in_the_schema(asked: Asked) -> None:
    """LiteLLM 1.108.7: `defer_loading` is copied into the function's parameters."""
    for tool in asked.body.get("tools") or ():
        if tool.pop("defer_loading", False):
            tool["input_schema"] = {**tool["input_schema"], "defer_loading": True}


def test_a_mark_of_deferred_tools_inside_a_schema_is_a_leak() -> None:
    found = verdict(Target(front=Layer(request=mark_in_the_schema)), "PFX-08")
    assert (found.status, found.code) == (Status.FAIL, "marks-leak")
    assert found.change is not None
    assert found.change.part == "tool 1 (deferred_placeholder)"
    assert found.change.field == "the value of `function.parameters.defer_loading`"


def test_a_deferred_tool_listed_without_its_mark_is_no_leak() -> None:
    assert verdict(Target(fault="list-deferred"), "PFX-08").status is Status.PASS


def no_choice_is_refused(asked: Asked) -> Reply | None:
    """LiteLLM 1.81.9: `tool_choice: {"type": "none"}` is answered with a 500."""
    refused = asked.body.get("tool_choice") == {"type": "none"}
    return json_reply({"error": {"message": "Incompatible tool choice"}}, 500) if refused else None


def drops_stop(asked: Asked) -> None:
    asked.body.pop("stop", None)


@pytest.mark.parametrize(
    ("middle", "status", "says"),
    [(Layer(request=drops_stop), Status.FAIL, "the field stop"), (None, Status.INCONCLUSIVE, "HTTP 500")],
)
def test_controls_are_judged_by_the_requests_that_arrive(middle: Layer | None, status: Status, says: str) -> None:
    found = verdict(Target(front=Layer(request=no_choice_is_refused), middle=middle), "CON-03")
    assert found.status is status, found.reason
    assert says in found.reason


def halves_top_k(asked: Asked) -> None:
    if asked.body.get("top_k"):
        asked.body["top_k"] //= 2


def adds_top_k(asked: Asked) -> None:
    if "temperature" not in asked.body:
        asked.body["top_k"] = 20


@pytest.mark.parametrize(
    ("other_make", "middle", "fault", "status", "says"),
    [
        (False, None, None, Status.PASS, ""),
        (False, None, "drop-top-k", Status.FAIL, "the field top_k"),
        (True, None, "drop-top-k", Status.PASS, "top_k does not"),
        (True, Layer(request=halves_top_k), None, Status.FAIL, "value changed"),
        (True, Layer(request=adds_top_k), None, Status.FAIL, "value invented"),
    ],
)
def test_top_k_is_owed_to_an_engine_that_has_it_by_its_own_word(
    other_make: bool, middle: Layer | None, fault: str | None, status: Status, says: str
) -> None:
    """OpenAI refuses `top_k`: a gateway that leaves it out is right there, and wrong in front of a vLLM."""
    found = verdict(Target(vllm="0.31.0", other_make=other_make, middle=middle, fault=fault), "CON-03")
    assert found.status is status, found.reason
    assert says in found.reason
    assert ("top_k" in found.reason) is (says != "")


def counts_badly(asked: Asked) -> Reply | None:
    return json_reply({"input_tokens": 7}) if asked.path.endswith("/count_tokens") else None


@pytest.mark.parametrize("recorder", [True, False])
def test_a_count_off_the_upstreams_own_is_no_consequence_of_wrong_totals(recorder: bool) -> None:
    target = Target(front=Layer(request=counts_badly), fault="input-includes-cached")
    found = verdict(target, "CNT-01", "USE-01", "USE-06", recorder=recorder)
    assert found.status is Status.WARN, found.reason
    assert (found.root is None) is recorder


def another_user_each_time(asked: Asked) -> None:
    asked.body["metadata"] = {"user_id": f"user-{asked.number}"}


@pytest.mark.parametrize(
    ("front", "status"), [(None, Status.PASS), (Layer(request=another_user_each_time), Status.FAIL)]
)
def test_a_relay_keeps_the_session_in_metadata(front: Layer | None, status: Status) -> None:
    """vllm-router 0.1.17 on Messages: the session's id stands where the client put it."""
    found = verdict(Target(front=front, through_messages=True, recorder_first=True), "AFF-02")
    assert found.status is status, found.reason
    assert "the field metadata.user_id" in found.reason


def streams_estimate(asked: Asked, usage: Json) -> Json:
    """LiteLLM 1.81.9: plain answers put the whole prompt into the input, streams carry numbers of their own."""
    total = total_of(asked, usage)
    return {"input_tokens": 7 if asked.streamed else total, "output_tokens": usage.get("output_tokens", 0)}


def test_the_example_of_a_wrong_sum_is_one() -> None:
    found = verdict(Target(front=Layer(usage=streams_estimate)), "USE-01")
    assert (found.status, found.code) == (Status.FAIL, "sum-wrong")
    assert "is reported as 7 in all" in found.reason
