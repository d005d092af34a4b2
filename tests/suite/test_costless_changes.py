"""Changes that cost no cached token are no broken prefix, and what is said of a difference says where it is."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from suite_layers import Asked, Layer
from suite_targets import Judged, Target, judge

from conformance.diagnosis.divergence import ends_in_white_space
from conformance.diagnosis.prompt import parse_prompt
from conformance.verdicts import Entry, ExitCode, Status


def accused(judged: Judged) -> dict[str, str]:
    return {k: v for k, v in judged.said.items() if v.startswith(("fail", "warn", "suite error"))}


def ends_in_a_line_break(asked: Asked) -> None:
    """The last message gets a line break, which it has not when it is an earlier one."""
    last = asked.body["messages"][-1]
    if isinstance(last["content"], str):
        last["content"] += "\n"
    elif last["content"] and last["content"][-1].get("type") == "text":
        last["content"][-1] = {**last["content"][-1], "text": last["content"][-1]["text"] + "\n"}


@pytest.mark.parametrize("entry", Entry)
def test_white_space_at_the_end_of_a_prompt_breaks_no_prefix(entry: Entry) -> None:
    judged = judge(Target(middle=Layer(request=ends_in_a_line_break)), recorder=True, entries=(entry,))
    assert accused(judged) == {}
    assert judged.code is ExitCode.GREEN
    assert judged.status("PFX-01", entry) is Status.PASS
    assert "end in white space" in judged.reason("PFX-01", entry)


def strips_earlier(asked: Asked) -> None:
    """White space inside the history changes from turn to turn."""
    for i, message in enumerate(asked.body["messages"]):
        if message["role"] == "user" and isinstance(message["content"], str):
            message["content"] += " " * (len(asked.body["messages"]) - i)


def test_white_space_in_front_of_others_does_break_it() -> None:
    judged = judge(Target(middle=Layer(request=strips_earlier)), recorder=True, entries=(Entry.CHAT,))
    assert judged.status("PFX-01", Entry.CHAT) is Status.FAIL, judged.said


@pytest.mark.parametrize(
    ("earlier", "later", "harmless"),
    [
        (["a", "b"], ["a", "b", "c"], False),  # a prefix as it is
        (["a", "b\n"], ["a", "b", "c"], True),
        (["a", "b"], ["a", "b \n", "c"], True),
        (["a\n", "b"], ["a", "b", "c"], False),
        (["a", "b\n"], ["a", "bc"], False),
        (["a", "b\n"], ["a"], False),
        (["a", " b"], ["a", "b", "c"], False),
    ],
)
def test_what_stands_at_the_end(earlier: list[str], later: list[str], harmless: bool) -> None:
    prompts = [
        parse_prompt("/v1/chat/completions", {"messages": [{"role": "user", "content": text} for text in texts]})
        for texts in (earlier, later)
    ]
    assert prompts[0] is not None
    assert prompts[1] is not None
    assert ends_in_white_space(prompts[0], prompts[1]) is harmless


class Varying:
    def __init__(self) -> None:
        self.rng = random.Random(3)

    def temperature(self, asked: Asked) -> None:
        asked.body["temperature"] = self.rng.random()

    def order(self, asked: Asked) -> None:
        items = list(asked.body.items())
        self.rng.shuffle(items)
        asked.body = dict(items)

    def salt(self, asked: Asked) -> None:
        asked.body["cache_salt"] = str(self.rng.random())


@pytest.mark.parametrize(
    ("change", "says", "costs"),
    [
        (
            Varying().temperature,
            "the prompt is the same, what differs is outside it, in `temperature`",
            "No cached token",
        ),
        (Varying().order, "the prompt and all values are the same, their spelling or order differs", "No cached token"),
        (Varying().salt, "the prompt is the same, what differs is `cache_salt`", ""),
    ],
)
def test_identical_requests_that_differ_outside_the_prompt(
    change: Callable[[Asked], None], says: str, costs: str
) -> None:
    judged = judge(Target(middle=Layer(request=change)), recorder=True, entries=(Entry.MESSAGES,))
    [verdict] = [v for v in judged.verdicts if v.rule == "PFX-14" and v.entry is Entry.MESSAGES]
    assert verdict.status is Status.FAIL, judged.said
    assert says in verdict.reason
    assert verdict.cost.startswith(costs)
    assert bool(verdict.cost) is bool(costs)
