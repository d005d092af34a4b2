"""The day of the incident: its inputs, its clients, and its fit."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from conformance.sessions.compaction import ContextMeter
from load.day.acts import Act, day
from load.day.arm import Arm
from load.day.inputs import Inputs, part_of, read_inputs
from load.day.model import simulate, write_traffic
from load.day.tables import arm_text, distribution_off, distribution_on, warm_turns
from load.day.talks import CLAUDE, DayTalks
from load.day.usage_log import logged
from load.errors import LoadProblem, TargetGone
from load.lru import Cache
from load.samples import Sample


def test_the_day_has_the_reports_requests_and_nobody_marks_one_cold() -> None:
    inputs = read_inputs()
    acts = day(inputs)
    counted = Counter[str]()
    for act in acts:
        counted[act.who] += act.requests
    assert (counted["claude"], counted["reasonix"], counted["opencode"]) == (451, 444, 7)
    assert [act.at for act in acts] == sorted(act.at for act in acts)
    assert day(inputs) == acts
    assert {act.what for act in acts} == {"turn", "title", "compact", "begin"}


def test_the_committed_fit_is_the_reports_day_on_the_cache_model() -> None:
    off = simulate(read_inputs(), strip=False)
    values = off.values()
    assert abs(values[17_920] - 383) <= 10
    assert abs(values[256] - 40) <= 5
    assert 100 * off.rate("claude") == pytest.approx(14.29, abs=0.5)
    assert 100 * off.rate("reasonix") == pytest.approx(83.67, abs=1.5)


@pytest.mark.parametrize("strip", [False, True])
def test_the_day_as_a_trace_holds_the_models_prompts_block_by_block(strip: bool, tmp_path: Path) -> None:
    inputs = small()
    write_traffic(inputs, tmp_path / "day.jsonl", strip=strip)
    rows = [orjson.loads(line) for line in (tmp_path / "day.jsonl").read_bytes().splitlines()]
    cache = Cache(inputs.block_size, inputs.pool_tokens // inputs.block_size)
    cached = sum(cache.serve(row["ids"], row["prompt"], private=1).cached for row in rows)
    model = simulate(inputs, strip=strip)
    assert sum(row["prompt"] for row in rows) == sum(map(model.prompt, model.rows))
    assert all(len(row["ids"]) == row["prompt"] // inputs.block_size for row in rows)
    assert cached == sum(hit for row in model.rows.values() for _, hit in row)


def small() -> Inputs:
    return replace(part_of(read_inputs(), 0.02), first_bytes=140_000)


def test_attribution_alone_changes_between_turns_and_neighbours_have_salts_of_their_own() -> None:
    talks = DayTalks(small())
    first, second = (orjson.loads(next(talks.requests(act)).body) for act in (
        Act(0, "claude", "begin"), Act(1, "claude", "turn", 3_000)))  # fmt: skip
    assert first["tools"] == second["tools"]
    assert first["system"][1:] == second["system"][1:]
    assert first["system"][0] != second["system"][0]
    assert second["messages"][: len(first["messages"]) - 1] == first["messages"][:-1]
    salts = {
        orjson.loads(next(talks.requests(Act(2, "neighbour", "turn", number=n))).body)["cache_salt"] for n in (0, 1, 0)
    }
    assert len(salts) == 2
    assert "cache_salt" not in first


def sample(prompt: int, kind: str = "turn", cached: int = 0) -> Sample:
    return Sample(
        at=0, phase="x", session=0, conversation="main", kind=kind, entry="messages", client=CLAUDE, sdk=False,
        sent_bytes=1, prompt=prompt, cached=cached,
    )  # fmt: skip


def test_constant_huge_usage_makes_a_client_compact_once_a_turn_and_not_for_ever() -> None:
    talks = DayTalks(small(), meter=ContextMeter(200_000))
    kinds = []
    for act in (Act(0, "claude", "begin"), *(Act(n, "claude", "turn", 2_000) for n in range(1, 4))):
        for outgoing in talks.requests(act):
            kinds.append(outgoing.kind)
            talks.note(sample(10**9))
    assert kinds == ["turn"] + ["compaction", "turn"] * 3


def test_with_a_meter_the_client_compacts_by_its_own_count_and_without_one_where_the_acts_say() -> None:
    metered = DayTalks(small(), meter=ContextMeter(200_000))
    assert [o.kind for o in metered.requests(Act(0, "claude", "compact", 20_000))] == ["turn"]
    assert [o.kind for o in DayTalks(small()).requests(Act(0, "claude", "compact", 20_000))] == ["compaction", "turn"]


def test_the_tables_say_what_was_counted() -> None:
    arm = Arm("on", strip=True, exclude=True, inputs=Inputs())
    for prompt, cached in ((40_000, 0), (41_000, 39_936), (45_000, 40_960), (46_000, 256)):
        arm.samples.append(sample(prompt, cached=cached))
        arm.truth.append((prompt, cached))
        arm.moments.append(0.0)
    arm.cpu = {"client": 0.1, "engine": 0.2, "gateway": 0.1}
    assert distribution_on(arm.truth) == {"0": 1, "256": 1, "below 64 k": 2, "64 to 128 k": 0, "above 128 k": 0}
    assert distribution_off([(1, 0), (1, 17_920), (1, 5)]) == {"0": 1, "256": 0, "exactly 17,920": 1, "other": 1}
    assert (warm_turns(arm).turns, warm_turns(arm).exact) == (2, 2)
    text = arm_text(arm, None)
    assert "CPU per request: client 25.0, engine 50.0, gateway 25.0 ms, 100.0 ms in all, within the budget" in text
    assert "47.18 %" in text, "81,152 of 172,000"


def test_a_part_of_the_day_is_asked_for_in_shares() -> None:
    assert part_of(read_inputs(), 1) == read_inputs()
    for part in (0, 1.5, -1):
        with pytest.raises(LoadProblem, match="--part"):
            part_of(read_inputs(), part)


def usage_line(prompt: int, cached: int | None) -> bytes:
    details = None if cached is None else {"cached_tokens": cached}
    return orjson.dumps({"usage": {"prompt_tokens": prompt, "prompt_tokens_details": details}}) + b"\n"


def test_the_last_lines_of_the_usage_log_are_waited_for_and_half_a_line_is_none(tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    last = usage_line(30, 20)
    log.write_bytes(usage_line(1, 1) + usage_line(10, 5) + usage_line(20, None) + last[:9])

    def later() -> None:
        with log.open("ab") as file:
            file.write(last[9:])

    writer = threading.Timer(0.2, later)
    writer.start()
    try:
        assert logged(log, 3, before=1) == [(10, 5), (20, 0), (30, 20)]
    finally:
        writer.join()


def test_lines_that_never_come_are_said(tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    with pytest.raises(TargetGone, match="logged 0 of 2 requests"):
        logged(log, 2, patience_s=0.1)
    log.write_bytes(usage_line(10, 5) + b'{"usage": null}\n')
    assert logged(log, 2) == [(10, 5), (0, 0)]
    with pytest.raises(TargetGone, match="logged 2 of 3 requests"):
        logged(log, 3, patience_s=0.1)
