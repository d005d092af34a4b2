"""Second tier, gate and exit code, over runs made by hand: the broken is told, the innocent is left alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from load_rig import evict_record, sample

from load.affinity import affinity
from load.conclusion import exit_code
from load.errors import LoadExit, LoadProblem
from load.gate import Gate, Held, judge, read_gate
from load.page import page
from load.predicting import predictions, template_floor
from load.recipe import cause_recipe
from load.record import Record
from load.samples import UNFINISHED
from load.second_tier import second_tier
from load.tables import tables

GATE = Gate.model_validate({"errors": 0, "l2_loads_at_least": 0.5, "answers_unchanged": True})


def held(record: Record, gate: Gate = GATE) -> dict[str, Held]:
    return {h.name: h for h in judge(gate, record, second_tier(record))}


def test_a_tier_that_gives_back_what_was_evicted_passes() -> None:
    record = evict_record()
    tier = second_tier(record)
    assert tier is not None
    assert (tier.asked_again, tier.evicted, tier.loaded) == (12_800, 12_800, 12_800)
    assert tier.share_loaded == 1.0
    assert not tier.write_only
    assert all(h.holds for h in held(record).values())
    assert exit_code(record, list(held(record).values())) is LoadExit.GREEN


def test_a_write_only_tier_fails_with_l2_02_and_walks_the_recipe() -> None:
    record = evict_record(loaded=0, load_bytes=0.0, cached_back=256)
    verdict = held(record)["L2 loads"]
    assert verdict.holds is False
    assert verdict.rule == "L2-02"
    assert "200,000 bytes stored, 0 loaded of 12,800 tokens" in verdict.reason
    tier = second_tier(record)
    assert tier is not None
    recipe = cause_recipe(tier)
    assert "lookups: 40 were made" in recipe[1]
    assert any("vetoes every lookup" in line for line in recipe)
    assert exit_code(record, [verdict]) is LoadExit.FAILED


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"l2_tokens": None}, "--l2-tokens"),
        ({"l2_tokens": 20_000}, "--l2-tokens"),
        ({"others": 900_000.0}, "others use this engine"),
        ({"others": -200_000.0}, "count only part"),
        ({"warm_hits": 512.0}, "changes on the way"),
        ({"kept_hits": 512.0}, "changes on the way"),
    ],
)
def test_nobody_is_accused_of_a_write_only_tier_that_may_be_small_or_shared(
    change: dict[str, object], says: str
) -> None:
    record = evict_record(loaded=0, load_bytes=0.0, cached_back=256, **change)  # type: ignore[arg-type]
    verdict = held(record)["L2 loads"]
    assert verdict.holds is None
    assert says in verdict.reason
    assert exit_code(record, [verdict]) is LoadExit.INCOMPLETE


def test_an_engine_without_a_second_tier_is_not_judged() -> None:
    record = evict_record(loaded=0, load_bytes=None, cached_back=256, stored=None)
    assert record.last is not None
    record.last = replace(record.last, l2_queries=None, lookups=None)
    verdict = held(record)["L2 loads"]
    assert verdict.holds is None
    assert "no second tier" in verdict.reason


def test_facts_forgotten_after_a_load_fail_with_l2_03() -> None:
    verdict = held(evict_record(recalled=False))["answers"]
    assert (verdict.holds, verdict.rule) == (False, "L2-03")


def test_other_words_that_still_name_the_fact_accuse_nobody() -> None:
    verdict = held(evict_record(answer="bb"))["answers"]
    assert verdict.holds is None
    assert "nothing forgotten" in verdict.reason


def test_a_restart_during_the_run_leaves_the_tier_unjudged() -> None:
    record = evict_record(loaded=0, load_bytes=0.0, cached_back=256)
    assert record.last is not None
    record.last = replace(record.last, started=1.0)
    verdict = held(record)["L2 loads"]
    assert verdict.holds is None
    assert "started anew" in verdict.reason


def test_a_model_that_never_repeats_itself_is_not_held_to_its_answers() -> None:
    record = evict_record(answer="bb")
    for row in record.samples.rows:
        if row.phase == "warm":
            row.answer = "cc"
        row.recalled = None
    assert held(record)["answers"].holds is None


def test_hit_rates_and_errors_are_held_to_the_gate() -> None:
    gate = Gate.model_validate({"errors": 0, "hit_rate": {"messages": 0.99, "chat": 0.1}})
    record = evict_record()
    record.samples.add(sample(error="status 500: x", status=500))
    verdicts = held(record, gate)
    assert verdicts["hit rate messages"].holds is False
    assert verdicts["hit rate chat"].holds is None, "nothing was sent there, which is no pass"
    assert verdicts["errors"].holds is False
    assert "1 of" in verdicts["errors"].reason


def test_an_answer_without_counts_is_not_a_miss() -> None:
    record = evict_record()
    before = record.samples.total()
    record.samples.add(sample(prompt=None, cached=None))
    after = record.samples.total()
    assert (after.unreported, after.prompt) == (before.unreported + 1, before.prompt)


def test_exit_codes() -> None:
    record = evict_record()
    assert exit_code(record, []) is LoadExit.GREEN
    record.stopped = "the bound of 3 requests"
    assert exit_code(record, []) is LoadExit.INCOMPLETE
    record.target_gone = True
    assert exit_code(record, []) is LoadExit.TARGET
    failed = evict_record()
    failed.samples.add(sample(error="status 500: x", status=500))
    assert exit_code(failed, []) is LoadExit.FAILED


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("errors = -1", "errors"),
        ("l2_loads = 1", "l2_loads"),
        ("[hit_rate]\nmessages = 2", "hit_rate.messages"),
        ("=", "TOML"),
    ],
)
def test_a_gate_file_that_is_wrong_names_the_key(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "gate.toml"
    file.write_text(text)
    with pytest.raises(LoadProblem, match=says):
        read_gate(str(file))


def test_the_shipped_gate_can_be_read() -> None:
    import load

    gate = read_gate(str(Path(load.__file__).with_name("second_tier.toml")))
    assert gate.l2_loads_at_least == 0.5


def test_predictions_tell_what_l1_alone_would_have_given() -> None:
    record = evict_record()
    rows = {
        p.phase: p for p in predictions(record.samples.ordered, block_size=64, pool_tokens=100_000, l2_tokens=400_000)
    }
    assert rows["return"].l1 == 0.0
    assert rows["return"].with_l2 == pytest.approx(1.0)
    assert rows["fill"].l1 == rows["fill"].endless
    assert template_floor(record.samples.ordered[:3], 64) == 0


def test_nothing_is_predicted_of_turns_that_rewrite_their_history() -> None:
    """Two sessions grow; aider's second turn begins like its first for a while only, and its repeat is one."""
    turns = [
        sample(at=float(at), phase=phase, session=session, kind=kind, client=client, prompt=prompt, cached=cached)
        for at, (phase, session, kind, client, prompt, cached) in enumerate(
            [
                ("fill", 0, "turn", "aider-0.86.2", 6_400, 0),
                ("fill", 1, "turn", "pi-0.73.1", 6_400, 0),
                ("grow", 0, "turn", "aider-0.86.2", 7_040, 2_560),
                ("grow", 1, "turn", "pi-0.73.1", 7_040, 6_400),
                ("back", 0, "again", "aider-0.86.2", 7_040, 6_976),
            ]
        )
    ]
    rows = {p.phase: p for p in predictions(turns, block_size=64, pool_tokens=100_000, l2_tokens=None)}
    assert (rows["fill"].n, rows["grow"].n, rows["back"].n) == (2, 1, 1)
    assert rows["grow"].measured == rows["grow"].endless == pytest.approx(6_400 / 7_040)
    assert rows["back"].measured == rows["back"].l1 == pytest.approx(6_976 / 7_040)


def test_repeats_tell_routing_from_a_warm_replica() -> None:
    def repeats(pattern: str) -> list[object]:
        flags = [0, *(int(c) for c in pattern)]
        return [
            sample(at=n + i / 100, session=n, kind="turn" if i == 0 else "again", cached=6_336 * flag)
            for n in range(8)
            for i, flag in enumerate(flags)
        ]

    steady = affinity(repeats("11111"))  # type: ignore[arg-type]
    spread = affinity(repeats("01011"))  # type: ignore[arg-type]
    assert steady is not None
    assert spread is not None
    assert (steady.hit_rate, steady.drop_rate) == (1.0, 0.0)
    assert spread.by_send == (0.0, 1.0, 0.0, 1.0, 1.0)
    assert (spread.drops, spread.chances) == (8, 16)
    assert affinity([]) is None


def test_a_report_shows_what_was_found() -> None:
    record = evict_record(loaded=0, load_bytes=0.0, cached_back=256)
    tier = second_tier(record)
    assert tier is not None
    verdicts, recipe = judge(GATE, record, tier), cause_recipe(tier)
    text = tables(record, tier, [], verdicts, recipe)
    assert "FAILS      L2 loads" in text
    html = page(record, held=verdicts, recipe=recipe)
    assert "write-only" in html
    assert "<script" not in html
    assert "http://" not in html.replace("http://www.w3.org", "")
    assert html.count("<svg") >= 2


def test_prompt_tokens_count_where_no_cached_count_is_reported_and_the_terminal_says_how_often() -> None:
    record = evict_record()
    silent = Record(record.options, record.plan)
    for _ in range(3):
        silent.samples.add(sample(cached=None))
    total = silent.samples.total()
    assert (total.prompt, total.cached, total.unreported, total.hit_rate) == (19_200, 0, 3, None)
    said = tables(silent, None, [], [], [])
    assert "19,200 prompt tokens, not reported cached" in said
    assert "3 of 3 answers reported no cached count" in said
    silent.samples.add(sample(cached=3_200))
    assert silent.samples.total().hit_rate == 0.5, "of the one that says both"
    assert "25,600 prompt tokens, 3,200 cached" in tables(silent, None, [], [], [])
    assert "no cached count" not in tables(record, None, [], [], [])


def test_an_answer_that_the_end_cut_off_is_no_failure_and_no_pass_where_it_was_overdue() -> None:
    record = evict_record()
    record.samples.add(sample(error=UNFINISHED, status=0, total=0.5))
    total = record.samples.total()
    assert (total.errors, total.unfinished, record.samples.errors) == (0, 1, {})
    assert exit_code(record, []) is LoadExit.GREEN
    assert "1 requests had no whole answer yet" in tables(record, None, [], [], [])
    record.samples.add(sample(error=UNFINISHED, status=0, total=0.7))
    assert exit_code(record, []) is LoadExit.INCOMPLETE
    assert "0.2 s at most: not judged" in tables(record, None, [], [], [])


def test_what_was_not_asked_is_not_told() -> None:
    record = evict_record()
    for row in record.samples.rows:
        row.recalled = None
    assert held(record)["answers"].reason == "2 of 2 repeats after eviction answered as before"
