"""One reading over vLLM's versions, held to scrapes of real engines. `scrapes/` has them as they were answered, without
histogram buckets, creation times and the series of other libraries."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

from engine import cli
from engine.metrics import Counters, between, read, restarted, total
from engine.scrape import MetricsError, Replica, Scrape, fetch, parse

SCRAPES = Path(__file__).parent / "scrapes"


def scrape(name: str) -> Scrape:
    return fetch(str(SCRAPES / f"{name}.txt"))


def text(*lines: str) -> str:
    return "\n".join(lines) + "\n"


def series(name: str, value: float, kind: str = "counter", **labels: str) -> str:
    """One family with one sample, as vLLM exposes it."""
    labels = {"engine": "0", "model_name": "m"} | labels
    shown = ",".join(f'{key}="{held}"' for key, held in labels.items())
    return f"# HELP {name} x\n# TYPE {name} {kind}\n{name}{{{shown}}} {value}"


def test_an_engine_without_a_tier() -> None:
    reading = read(scrape("vllm-0.32.0-no-tier"))
    held = reading.counters
    assert reading.replicas == (Replica("tiny", "0"),)
    assert (reading.block_size, reading.prefix_caching, reading.has_tier) == (32, True, False)
    assert (held.l1_queries, held.l1_hits, held.l2_queries, held.l2_hits) == (369_058, 277_568, 0, 0)
    assert (held.computed, held.from_l1, held.from_l2) == (91_490, 277_568, 0)
    assert (held.store_bytes, held.load_bytes, held.stores, held.loads, held.lookups) == (None,) * 5


def test_a_tier_that_has_not_counted_yet_is_zero_not_unknown() -> None:
    held = read(scrape("vllm-0.32.0-tier-started")).counters
    assert (held.store_bytes, held.load_bytes, held.lookups, held.allocation_failures) == (0, 0, 0, 0)
    assert held.write_only is False
    assert held.stores_skipped is None, "a series that only a tier with a reuse threshold has"


def test_a_tier_that_was_read_back() -> None:
    reading = read(scrape("vllm-0.32.0-tier-loaded"))
    held = reading.counters
    assert (held.store_bytes, held.load_bytes) == (1_769_472, 172_032), "once, though two families count them"
    assert (held.stores, held.loads, held.lookups) == (6, 1, 8)
    assert (held.l2_hits, held.l2_queries, held.from_l2) == (672, 7_709, 672)
    assert (held.load_bytes, held.l2_hits) == (256 * 672, 672), (
        "two layers, one head of 32 keys and values of two bytes"
    )
    assert (held.reads_back, held.write_only) == (True, False)
    assert reading.pinned == 0


def test_an_older_engine_has_the_same_reading() -> None:
    held = read(scrape("vllm-0.29.0-tier-loaded")).counters
    assert held.store_bytes
    assert held.load_bytes
    assert held.l2_hits
    assert held.load_bytes == 256 * held.l2_hits
    assert held.reads_back


def test_the_flat_series_and_the_labelled_are_the_same_bytes() -> None:
    old = [
        series("vllm:kv_offload_total_bytes_total", 700, transfer_type="GPU_to_CPU"),
        'vllm:kv_offload_total_bytes_total{engine="0",model_name="m",transfer_type="CPU_to_GPU"} 30',
    ]
    assert read(parse(text(*old))).counters.store_bytes == 700
    assert read(parse(text(*old))).counters.load_bytes == 30
    new = [series("vllm:kv_offload_store_bytes_total", 700), series("vllm:kv_offload_load_bytes_total", 30)]
    both = read(parse(text(*old, *new))).counters
    assert (both.store_bytes, both.load_bytes) == (700, 30)


def test_a_flat_load_series_that_is_missing_beside_stores_has_not_counted() -> None:
    held = read(parse(text(series("vllm:kv_offload_store_bytes_total", 5)))).counters
    assert (held.load_bytes, held.write_only) == (0, True)


def test_hits_alone_and_bytes_alone_prove_nothing() -> None:
    assert Counters(load_bytes=0, l2_hits=100).reads_back is False
    assert Counters(load_bytes=100, l2_hits=0).reads_back is False
    assert Counters(load_bytes=100, l2_hits=None).reads_back is None
    assert Counters(store_bytes=None, load_bytes=0).write_only is None


def test_the_names_of_very_old_engines_are_read() -> None:
    held = read(
        parse(text(series("vllm:gpu_prefix_cache_queries_total", 9), series("vllm:gpu_prefix_cache_hits_total", 3)))
    )
    assert (held.counters.l1_queries, held.counters.l1_hits) == (9, 3)
    assert held.counters.l1_hit_rate == pytest.approx(1 / 3)


def test_replicas_are_summed_and_kept_apart() -> None:
    lines = [series("vllm:prefix_cache_hits_total", 3), 'vllm:prefix_cache_hits_total{engine="1",model_name="m"} 4']
    both = parse(text(*lines))
    assert both.replicas() == (Replica("m", "0"), Replica("m", "1"))
    assert [read(both, one).counters.l1_hits for one in both.replicas()] == [3, 4]
    assert read(both).counters.l1_hits == 7


def test_the_pool_of_a_hybrid_model_is_what_its_groups_leave() -> None:
    def info(**labels: str) -> str:
        return series("vllm:cache_config_info", 1, "gauge", block_size="32", num_gpu_blocks="4000", **labels)

    said, unsaid = (read(parse(text(info(**more)))) for more in ({"kv_cache_size_tokens": "100824"}, {}))
    assert (said.pool_tokens, unsaid.pool_tokens) == (100_824, 128_000)
    assert total([said, said]).pool_tokens == 201_648
    assert total([said, unsaid]).pool_tokens == 256_000, "an upper bound where one of them does not say"


def test_what_one_server_does_not_know_is_unknown_of_all() -> None:
    knows = read(parse(text(series("vllm:prefix_cache_hits_total", 3), series("vllm:prompt_tokens_total", 9))))
    does_not = read(parse(text(series("vllm:prompt_tokens_total", 1))))
    summed = total([knows, does_not]).counters
    assert (summed.l1_hits, summed.prompt_tokens) == (None, 10)


def test_half_a_scrape_says_what_is_unknown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "half.txt"
    lines = (SCRAPES / "vllm-0.32.0-tier-loaded.txt").read_text().splitlines()
    file.write_text(
        text(*(line for line in lines if "external_prefix" not in line and "prefix_cache_hits" not in line))
    )
    held = read(fetch(str(file))).counters
    assert {"l1_hits", "l2_hits", "l2_queries"} <= set(held.unknown)
    assert held.reads_back is None
    assert cli.main(["inspect", str(file)]) == 0
    said = capsys.readouterr().out
    assert "unknown of 9,341 tokens" in said
    assert "L2 is      cannot be told: bytes or hits are unknown" in said
    assert "unknown    l1_hits, l2_queries, l2_hits: this engine has no such series" in said


def test_two_scrapes_of_one_engine_are_subtracted() -> None:
    before, after = read(scrape("vllm-0.32.0-tier-started")), read(scrape("vllm-0.32.0-tier-loaded"))
    counted = between(before, after)
    assert counted is not None
    assert (counted.store_bytes, counted.load_bytes, counted.l2_hits) == (1_769_472, 172_032, 672)


def test_a_restart_is_seen() -> None:
    before, after = read(scrape("vllm-0.32.0-tier-loaded")), read(scrape("vllm-0.32.0-tier-started"))
    assert restarted(before, after), "a counter fell"
    assert between(before, after) is None
    start = "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {}"
    one, two = (read(parse(text(series("vllm:prompt_tokens_total", 1), start.format(at)))) for at in (100, 200))
    assert restarted(one, two), "another process with higher counters"
    assert not restarted(one, one)


@pytest.mark.parametrize(
    ("held", "says"),
    [
        ("<html>", "no Prometheus metrics"),
        ("", "none of vLLM's"),
        ("# TYPE up gauge\nup 1\n", "none of vLLM's"),
        ("vllm:x{ 1\n", "no Prometheus metrics"),
    ],
)
def test_what_is_no_scrape_of_vllm(held: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "scrape.txt"
    file.write_text(held)
    with pytest.raises(MetricsError, match=says):
        fetch(str(file))
    assert cli.main(["inspect", str(file)]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("source", ["no-such-file.txt", "http://127.0.0.1:9/metrics", "http://user:secret@127.0.0.1:9"])
def test_what_is_not_there_is_one_line_without_secrets(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", source]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "secret" not in said


def test_inspect_says_what_a_person_wants_to_know(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", str(SCRAPES / "vllm-0.32.0-tier-loaded.txt")]) == 0
    said = capsys.readouterr().out
    for line in (
        "pool (L1)  6,400 tokens in blocks of 32 a replica; 0.0 % held by requests",
        "L1         1,632 of 9,341 tokens looked up were hits (17.5 %)",
        "L2 stored  1.77 MB in 6 copies",
        "L2 loaded  172 kB in 1 copies",
        "L2 hits    672 of 7,709 tokens looked up (8.7 %); lookups: 8",
        "L2 is      read back: it loads, and requests hit it",
        "prompts    9,341 tokens: 75.3 % computed, 17.5 % from L1, 7.2 % from L2",
    ):
        assert line in said
    assert "unknown" not in said


def test_inspect_names_a_tier_that_is_never_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "scrape.txt"
    loaded = (SCRAPES / "vllm-0.32.0-tier-loaded.txt").read_text()
    file.write_text(loaded.replace("} 172032.0", "} 0.0").replace("} 672.0", "} 0.0"))
    assert cli.main(["inspect", str(file)]) == 0
    assert "L2 is      WRITE-ONLY: stores and never loads, while L1 was filled 1.1 times" in capsys.readouterr().out


def test_inspect_as_json_holds_every_counter(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", "--json", str(SCRAPES / "vllm-0.32.0-tier-started.txt")]) == 0
    held = json.loads(capsys.readouterr().out)
    assert set(held["counters"]) == {f.name for f in fields(Counters)}
    assert held["counters"]["stores_skipped"] is None
    assert held["verdict"] == "nothing was stored yet"
