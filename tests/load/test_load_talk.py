"""Sessions as they talk: bytes that a real client could have sent."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from conformance.sessions.attribution import body_cch
from load.mixes import MIXES, habit_of
from load.plan import SessionSpec, Step
from load.talk import Outgoing, Talk

CLIENTS = sorted({habit.client for habits in MIXES.values() for habit in habits})


def talk(client: str, *, run: str = "abcdef", fact: bool = False, number: int = 1) -> Talk:
    spec = SessionSpec(number, client, 24_000, fact=fact)
    return Talk.begin(spec, seed=0, run=run, model="llm-prime", max_tokens=16)


def sent(talk: Talk, *steps: Step) -> list[Outgoing]:
    return [outgoing for step in steps for outgoing in talk.requests(step)]


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    assert len(keys) == len(set(keys)), f"a key twice: {keys}"
    return dict(pairs)


@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_sends_json_with_each_key_once_and_asks_for_a_stream(client: str) -> None:
    for outgoing in sent(talk(client, fact=True), Step("turn"), Step("turn", bytes=2_400, recall=True)):
        body = json.loads(outgoing.body, object_pairs_hook=once)
        assert body["stream"] is True
        assert body["temperature"] == 0, "answers are compared"
        assert "stream_options" not in body or body["stream_options"] == {"include_usage": True}
        assert outgoing.entry == ("messages" if outgoing.path == "/v1/messages" else "chat")


def test_a_turn_appends_and_a_repeat_repeats() -> None:
    first, second, again = sent(talk("opencode-1.18.33"), Step("turn"), Step("turn", bytes=1_500), Step("again"))
    old, new = (orjson.loads(o.body)["messages"] for o in (first, second))
    assert new[: len(old)] == old
    assert len(new) > len(old)
    assert again.body == second.body
    assert again.kind == "again"


def test_claude_codes_attribution_follows_from_the_body() -> None:
    requests = sent(talk("claude-code-2.1.116-vscode"), Step("turn"), Step("turn", bytes=900), Step("turn", bytes=900))
    seen = set()
    for outgoing in requests:
        body = orjson.loads(outgoing.body)
        text = body["system"][0]["text"]
        assert text.startswith("x-anthropic-billing-header:")
        del body["stream"]
        assert f"cch={body_cch(body)};" in text
        seen.add(text)
    assert len(seen) == 3


def test_runs_share_no_prefix_and_the_same_run_sends_the_same_bytes() -> None:
    one, same, other = (
        sent(talk("reasonix-1.38.11", run=run), Step("turn"))[0].body for run in ("aaaa", "aaaa", "bbbb")
    )
    assert one == same
    assert len(one) == len(other)
    assert one != other


def test_a_fact_is_told_once_and_asked_for_at_the_end() -> None:
    first, second = sent(talk("claude-code-2.0.77", fact=True), Step("turn"), Step("turn", bytes=2_000, recall=True))
    assert first.expects is None
    assert second.expects is not None
    assert second.body.count(second.expects.encode()) == 1
    assert orjson.loads(second.body)["messages"][-1]["content"][-1]["text"].endswith("recall k1")


def test_sub_agents_go_side_by_side_and_compaction_starts_anew() -> None:
    requests = sent(talk("claude-code-2.1.116-vscode"), Step("turn"), Step("agents", count=2, turns=2), Step("compact"))
    agents = [o for o in requests if o.kind == "sub-agent"]
    assert [o.group for o in agents] == [agents[0].group] * 2 + [agents[2].group] * 2
    compaction, after = requests[-2:]
    assert compaction.kind == "compaction"
    assert len(orjson.loads(after.body)["messages"]) < len(orjson.loads(compaction.body)["messages"])


def test_a_mix_gives_each_client_its_share() -> None:
    names = [habit_of("agents", 5, number).client for number in range(2_000)]
    weights = {habit.client: habit.weight for habit in MIXES["agents"]}
    for client, weight in weights.items():
        assert names.count(client) / 2_000 == pytest.approx(weight / sum(weights.values()), abs=0.04)
