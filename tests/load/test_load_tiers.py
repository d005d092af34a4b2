"""Reading an engine's metrics: names of several versions, absent apart from zero."""

from __future__ import annotations

import pytest

from load.tiers import Tiers, read_tiers

FLAT = """\
# HELP vllm:prefix_cache_queries_total Tokens
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 100.0
vllm:prefix_cache_queries_total{engine="1",model_name="m"} 11.0
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 40.0
vllm:external_prefix_cache_queries_total{engine="0"} 60.0
vllm:external_prefix_cache_hits_total{engine="0"} 0.0
vllm:kv_offload_store_bytes_total{engine="0"} 5e6
vllm:kv_offload_total_bytes_total{transfer_type="GPU_to_CPU"} 5e6
vllm:cache_config_info{block_size="256",num_gpu_blocks="101"} 1.0
vllm:kv_offload_lookup_sync_delay_seconds_count{engine="0"} 7.0
process_start_time_seconds 1000.0
vllm:broken_line{ nonsense
vllm:num_preemptions_total NaN
"""


def test_series_are_summed_over_engines_and_never_over_two_names_of_one_thing() -> None:
    tiers = read_tiers(FLAT)
    assert (tiers.l1_queries, tiers.l1_hits, tiers.l2_queries, tiers.l2_hits) == (111, 40, 60, 0)
    assert tiers.store_bytes == 5e6
    assert tiers.load_bytes == 0.0, "a load series does not exist before its first load"
    assert (tiers.pool_tokens, tiers.block_size) == (25_600, 256)
    assert tiers.lookups == 7
    assert tiers.preemptions is None
    assert tiers.has_l2


@pytest.mark.parametrize(("said", "pool"), [("100824", 100_824), ("128000", 127_968), ("None", 127_968)])
def test_the_pool_of_a_hybrid_model_is_what_its_groups_leave(said: str, pool: int) -> None:
    labels = f'block_size="32",kv_cache_size_tokens="{said}",num_gpu_blocks="4000"'
    assert read_tiers(f"vllm:cache_config_info{{{labels}}} 1.0").pool_tokens == pool


def test_the_older_transfer_series_serve_where_the_flat_ones_are_missing() -> None:
    name = "vllm:kv_offload_total_bytes_total"
    text = f'{name}{{transfer_type="CPU_to_GPU"}} 3\n{name}{{transfer_type="GPU_to_CPU"}} 9\n'
    tiers = read_tiers(text)
    assert (tiers.load_bytes, tiers.store_bytes) == (3, 9)


@pytest.mark.parametrize("text", ["", "# nothing\n", "go_goroutines 5\n"])
def test_what_is_absent_is_not_zero(text: str) -> None:
    tiers = read_tiers(text)
    assert tiers == Tiers()
    assert not tiers.has_l2


def test_a_counter_that_appears_meanwhile_began_at_zero_and_a_restart_ends_the_comparison() -> None:
    before, after = Tiers(started=1.0, l1_hits=5), Tiers(started=1.0, l1_hits=9, load_bytes=70.0)
    delta = after.since(before)
    assert (delta["l1_hits"], delta["load_bytes"], delta["l2_hits"]) == (4, 70.0, None)
    assert set(Tiers(started=2.0, l1_hits=9).since(before).values()) == {None}
