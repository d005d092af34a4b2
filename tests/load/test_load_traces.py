"""Traces: read, turned into text with the same prefixes, and given their ceilings."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import orjson
import pytest

from load.errors import LoadProblem
from load.options import LoadOptions
from load.plans import plan_for
from load.record import Record
from load.replaying import TraceTalk, ceilings, text_of
from load.trace_text import WORDS, block_text, own_text
from load.traces import read_trace

MOONCAKE = [
    {"timestamp": 1_000 * n, "input_length": 512 * len(ids) - 100, "output_length": 5, "hash_ids": ids}
    for n, ids in enumerate([[1, 2, 3], [1, 2, 4], [9], [1, 2, 3, 5], [9, 10], [1, 7]])
]
WEKA = {
    "id": "t1",
    "block_size": 64,
    "requests": [
        {"t": 0.0, "type": "n", "in": 130, "out": 3, "hash_ids": [1, 2]},
        {"t": 9.0, "type": "subagent", "requests": [{"t": 4.0, "type": "s", "in": 64, "out": 3, "hash_ids": [8]}]},
        {"t": 5.0, "type": "n", "in": 200, "out": 3, "hash_ids": [1, 2, 3]},
    ],
}


@pytest.fixture
def mooncake(tmp_path: Path) -> str:
    file = tmp_path / "trace.jsonl"
    file.write_bytes(b"\n".join(map(orjson.dumps, MOONCAKE)))
    return str(file)


def test_kinds_are_told_apart_and_ordered_by_arrival(tmp_path: Path, mooncake: str) -> None:
    assert read_trace(mooncake).kind == "mooncake"
    assert [r.at for r in read_trace(mooncake, 3).requests] == [0.0, 1.0, 2.0]
    weka = tmp_path / "weka"
    weka.mkdir()
    (weka / "a.json").write_bytes(orjson.dumps(WEKA))
    (weka / "b.json").write_bytes(orjson.dumps({**WEKA, "id": "t2"}))
    trace = read_trace(str(weka))
    assert (trace.kind, trace.block, len(trace.requests)) == ("weka", 64, 6)
    assert [r.ids for r in trace.requests if r.scope == "t1"] == [(1, 2), (8,), (1, 2, 3)]
    azure = tmp_path / "azure.csv"
    azure.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
    )
    found = read_trace(str(azure))
    assert (found.kind, found.block, [r.prompt for r in found.requests]) == ("azure", 0, [374, 396])
    assert found.requests[1].at == pytest.approx(4.31, abs=0.01)
    own = tmp_path / "own.jsonl"
    own.write_bytes(orjson.dumps({"at": 1.5, "session": "s", "prompt": 100, "block": 32, "ids": [4, 5, 6]}))
    assert read_trace(str(own)).requests[0].scope == "s"


@pytest.mark.parametrize(
    "text", ["", "{}", '{"hash_ids": 5, "timestamp": 1}', "a,b\n1,2\n", '{"timestamp":1,"hash_ids":[1]}']
)
def test_a_file_that_is_none_says_so(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x"
    file.write_text(text)
    with pytest.raises(LoadProblem, match="--trace"):
        read_trace(str(file))


def test_a_block_is_as_many_words_as_tokens_and_parts_from_others_at_once() -> None:
    assert len(set(WORDS)) == len(WORDS) == 256
    texts = [block_text("run", "", number, 64) for number in range(2_000)]
    assert {len(text) for text in texts} == {256}
    assert all(len(word) == 3 for word in texts[0].split())
    assert len({text[:8] for text in texts}) == len(texts)
    assert block_text("run", "", 5, 64) == texts[5] != block_text("other", "", 5, 64)
    assert own_text("run", 1, 3)[:8] != own_text("run", 2, 3)[:8]
    assert own_text("run", 1, 0) == ""


def test_prompts_share_exactly_what_their_ids_share(mooncake: str) -> None:
    trace = read_trace(mooncake)
    texts = [text_of(request, "run", number) for number, request in enumerate(trace.requests)]
    for (a, one), (b, two) in itertools.combinations(zip(trace.requests, texts, strict=True), 2):
        same = next(
            (i for i, (x, y) in enumerate(zip(a.ids, b.ids, strict=False)) if x != y), min(len(a.ids), len(b.ids))
        )
        shared = next((i for i, (x, y) in enumerate(zip(one, two, strict=False)) if x != y), min(len(one), len(two)))
        least = min(same * 2_048, len(one), len(two))
        assert least <= shared < least + 8
    assert [len(text) for text in texts] == [4 * request.prompt for request in trace.requests]


def test_a_replay_is_two_halves_in_order_and_its_ceilings_are_those_of_the_blocks(mooncake: str) -> None:
    options = LoadOptions(shape="replay", host="http://127.0.0.1:1", trace=mooncake, trace_scale=2.0)
    plan = plan_for(options, None)
    assert [[t.steps[0].count for t in phase.tracks] for phase in plan.phases] == [[0, 1, 2], [3, 4, 5]]
    assert [t.steps[0].pause for t in plan.phases[1].tracks] == [0.0, 2.0, 4.0]
    talk = TraceTalk(read_trace(mooncake), "run", "m", 1)
    body = orjson.loads(next(talk.requests(plan.phases[0].tracks[1].steps[0])).body)
    assert len(body["messages"]) == 1
    assert body["stream_options"] == {"include_usage": True}
    record = Record(options, plan, pool_tokens=512 * 4)
    told = ceilings(record)
    lengths = [request.prompt for request in read_trace(mooncake).requests]
    # Full blocks only: request 1 finds 1 and 2; request 3 finds 1, 2 (3 was no full block before); 4 finds nothing.
    assert told["rates"]["endless"]["whole"] == pytest.approx((1_024 + 1_024 + 512) / sum(lengths))
    assert told["rates"]["l1"]["whole"] <= told["rates"]["endless"]["whole"]
    assert told["complete"] is False


def test_an_azure_trace_says_that_it_has_no_prefixes(tmp_path: Path) -> None:
    azure = tmp_path / "azure.csv"
    rows = "".join(f"2023-11-16 18:15:{n:02d}.0,{random.Random(n).randrange(50, 90)},4\n" for n in range(8))
    azure.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + rows)
    options = LoadOptions(shape="replay", host="http://127.0.0.1:1", trace=str(azure))
    plan = plan_for(options, None)
    assert "nothing of prefixes" in plan.notes[0]
    assert ceilings(Record(options, plan)) == {}
