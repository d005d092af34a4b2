"""What counts alone show may be the engine's doing: without a recorder or a direct arm nobody is accused of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from suite_bad_targets import all_cached
from suite_layers import Asked, Json, Layer, set_cached
from suite_odd_engines import head_only
from suite_targets import Judged, Target, judge

from conformance.options import Budget
from conformance.verdicts import Entry, ExitCode, Status


def counts_messages(asked: Asked) -> None:
    """The number of messages at the head of the system text: repeats hit, new turns start anew behind the tools."""
    for message in asked.body["messages"]:
        if message["role"] == "system":
            message["content"] = f"{len(asked.body['messages'])} messages so far.\n{message['content']}"


def names_the_time_in_tools(asked: Asked) -> None:
    for tool in asked.body.get("tools", [])[:1]:
        tool["function"]["description"] = f"At {asked.number}: " + tool["function"]["description"]


def accused(judged: Judged) -> dict[str, str]:
    return {k: v for k, v in judged.said.items() if v.startswith(("fail", "warn", "suite error"))}


LOSSES = {"PFX-01": counts_messages, "PFX-09": names_the_time_in_tools}


@pytest.mark.parametrize("rule", LOSSES)
@pytest.mark.parametrize("place", ["back", "middle"])
@pytest.mark.parametrize("entry", Entry)
def test_by_counts_alone_a_loss_is_withheld(rule: str, place: str, entry: Entry) -> None:
    target = Target()
    setattr(target, place, Layer(request=LOSSES[rule]))
    judged = judge(target, recorder=False, budget=Budget.STANDARD, entries=(entry,))
    assert accused(judged) == {}
    assert judged.code is ExitCode.INCOMPLETE
    assert judged.status(rule, entry) is Status.INCONCLUSIVE
    assert "not told apart" in judged.reason(rule, entry)


@pytest.mark.parametrize("rule", LOSSES)
def test_a_direct_arm_clears_the_gateway_of_its_engines_template(rule: str) -> None:
    target = Target(back=Layer(request=LOSSES[rule]))
    judged = judge(target, recorder=False, direct=True, budget=Budget.STANDARD, entries=(Entry.MESSAGES,))
    assert accused(judged) == {}
    assert judged.code is ExitCode.INCOMPLETE
    assert "straight to the engine" in judged.reason(rule)


@pytest.mark.parametrize("rule", LOSSES)
def test_a_direct_arm_convicts_the_gateway(rule: str) -> None:
    target = Target(middle=Layer(request=LOSSES[rule]))
    judged = judge(target, recorder=False, direct=True, budget=Budget.STANDARD, entries=(Entry.MESSAGES,))
    assert judged.status(rule) is Status.FAIL, judged.said
    assert judged.code is ExitCode.RED


@pytest.mark.parametrize("rule", LOSSES)
def test_a_recorder_clears_the_gateway_of_its_engines_template(rule: str) -> None:
    judged = judge(Target(back=Layer(request=LOSSES[rule])), recorder=True)
    assert accused(judged) == {}
    assert judged.status(rule) is Status.PASS


@pytest.mark.parametrize(("direct", "recorder"), [(False, False), (True, False), (False, True)])
def test_a_count_pinned_by_the_engine_is_not_the_gateways(direct: bool, recorder: bool) -> None:
    target = Target(back=Layer(request=counts_messages))
    judged = judge(target, recorder=recorder, direct=direct)
    assert accused(judged) == {}
    for entry in Entry:
        assert judged.status("PIN-01", entry) is Status.INCONCLUSIVE
        assert "pinned at exactly" in judged.reason("PIN-01", entry)
    assert judged.code is ExitCode.INCOMPLETE  # nobody is accused, and nothing was seen to grow


def test_a_count_pinned_by_the_gateway_is_named_with_a_direct_arm() -> None:
    judged = judge(Target(middle=Layer(request=counts_messages)), recorder=False, direct=True, entries=(Entry.CHAT,))
    assert judged.status("PIN-01", Entry.CHAT) is Status.FAIL, judged.said


def test_the_attribution_block_is_named_by_the_session_without_it() -> None:
    judged = judge(Target(strips=False), recorder=False, entries=(Entry.MESSAGES,))
    assert judged.status("PIN-01") is Status.FAIL, judged.said
    [verdict] = [v for v in judged.verdicts if v.rule == "PIN-01" and v.status is Status.FAIL]
    assert "the session that differs only by the attribution block grew" in " ".join(verdict.ruled_out)


def always(cached: int) -> Callable[[Asked, Json], Json]:
    return lambda asked, usage: set_cached(asked, usage, cached)


@pytest.mark.parametrize(
    ("place", "usage", "recorder", "direct", "status"),
    [
        pytest.param("back", head_only(1024), False, False, Status.INCONCLUSIVE, id="an engine's head, counts alone"),
        pytest.param("back", head_only(1024), False, True, Status.INCONCLUSIVE, id="an engine's head, direct arm"),
        pytest.param("back", head_only(1024), True, False, Status.INCONCLUSIVE, id="an engine's head, recorder"),
        pytest.param("front", always(1024), False, False, Status.INCONCLUSIVE, id="a gateway's, counts alone"),
        pytest.param("front", always(1024), False, True, Status.FAIL, id="a gateway's, direct arm"),
        pytest.param("front", always(1024), True, False, Status.FAIL, id="a gateway's, recorder"),
    ],
)
def test_one_constant_count(
    place: str, usage: Callable[[Asked, Json], Json], recorder: bool, direct: bool, status: Status
) -> None:
    target = Target(block_size=64)
    setattr(target, place, Layer(usage=usage))
    judged = judge(target, recorder=recorder, direct=direct, entries=(Entry.MESSAGES,))
    assert judged.status("PIN-03") is status, judged.said
    if place == "back":
        assert accused(judged) == {}
        assert judged.code is not ExitCode.RED


class Anywhere:
    """An engine that reuses any text it knows, wherever it stands: windows of 16 tokens."""

    def __init__(self) -> None:
        self.known: set[int] = set()

    def __call__(self, asked: Asked, tokens: list[int], usage: Json) -> Json:
        windows = [hash(tuple(tokens[i : i + 16])) for i in range(len(tokens) - 15)]
        covered: set[int] = set()
        for i, window in enumerate(windows):
            if window in self.known:
                covered.update(range(i, i + 16))
        self.known.update(windows)
        return set_cached(asked, usage, min(len(covered), len(tokens) - 1))


@pytest.mark.parametrize("recorder", [True, False])
def test_an_engine_that_reuses_text_anywhere_invents_nothing(recorder: bool) -> None:
    judged = judge(Target(back=Layer(tokenized=Anywhere())), recorder=recorder)
    assert accused(judged) == {}
    for entry in Entry:
        assert judged.status("PIN-02", entry) is Status.INCONCLUSIVE
        assert "wherever it stands" in judged.reason("PIN-02", entry)


@pytest.mark.parametrize("place", ["back", "front"])
def test_hits_of_prompts_without_one_known_line_are_invented(place: str) -> None:
    target = Target()
    setattr(target, place, Layer(usage=all_cached))
    judged = judge(target, recorder=False, entries=(Entry.MESSAGES,))
    assert judged.status("PIN-02") is Status.FAIL
    seen = judge(target, recorder=True, entries=(Entry.MESSAGES,))
    assert seen.status("PIN-02") is (Status.FAIL if place == "front" else Status.INCONCLUSIVE), seen.said
