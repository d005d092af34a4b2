"""`/metrics` under vLLM's names, read off a core when scraped; each app has a registry of its own.

Counters are named without `_total`, which the exposition adds. The flat load and store series do not exist before their
first transfer, as in vLLM >= 0.25; absent is not zero. Bytes are tokens times the configured `bytes_per_token`.
"""

import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from engine.embedded.core import EngineCore


class EngineCollector(Collector):
    """All series of one core, labelled with its model name as vLLM does."""

    def __init__(self, core: EngineCore, *, byte_series: bool = True) -> None:
        self._core = core
        self._byte_series = byte_series
        self._labels = {"model_name": core.config.names[0], "engine": "0"}
        self._started = time.time()

    def collect(self) -> Iterator[Metric]:
        """The families, in vLLM's terms."""
        stats, core = self._core.stats, self._core
        yield from self._gauges()
        for name, text, value in (
            ("prefix_cache_queries", "Tokens looked up in the device pool.", stats.prefix_queries),
            ("prefix_cache_hits", "Tokens found in the device pool.", stats.prefix_hits),
            ("external_prefix_cache_queries", "Tokens looked up beyond the device pool.", stats.external_queries),
            ("external_prefix_cache_hits", "Tokens found beyond the device pool.", stats.external_hits),
            ("num_preemptions", "Requests preempted for want of blocks.", stats.preemptions),
            ("prompt_tokens", "Prompt tokens of requests that generated a token.", stats.prompt_tokens),
            ("generation_tokens", "Tokens generated.", stats.generation_tokens),
            ("prompt_tokens_cached", "Prompt tokens taken from either tier.", _cached(core)),
        ):
            yield self._counter(name, text, value)
        yield self._by_label(
            "prompt_tokens_by_source",
            "Prompt tokens by where their keys and values came from.",
            "source",
            {
                "local_compute": stats.prompt_tokens - _cached(core),
                "local_cache_hit": stats.prompt_tokens_local,
                "external_kv_transfer": stats.prompt_tokens_external,
            },
        )
        yield self._by_label(
            "request_success",
            "Requests ended, by how.",
            "finished_reason",
            {"stop": stats.finished_requests, "abort": stats.aborted_requests},
        )
        if core.tier is not None:
            yield from self._offload()

    def _gauges(self) -> Iterator[Metric]:
        core, config = self._core, self._core.config
        for name, text, value in (
            ("kv_cache_usage_perc", "Share of the device pool held by requests, 0..1.", core.pool.usage),
            ("num_requests_running", "Requests being computed.", float(core.num_running)),
            ("num_requests_waiting", "Requests queued.", float(core.num_waiting)),
        ):
            gauge = GaugeMetricFamily(f"vllm:{name}", text, labels=tuple(self._labels))
            gauge.add_metric(tuple(self._labels.values()), value)
            yield gauge
        info = {
            "block_size": str(config.block_size),
            "num_gpu_blocks": str(config.num_blocks),
            "enable_prefix_caching": "True",
            "prefix_caching_hash_algo": "sha256",
            "engine": self._labels["engine"],
        }
        family = GaugeMetricFamily("vllm:cache_config_info", "Sizes of the device pool.", labels=tuple(info))
        family.add_metric(tuple(info.values()), 1.0)
        yield family
        yield GaugeMetricFamily(
            "process_start_time_seconds", "When this engine started, in seconds since 1970.", value=self._started
        )

    def _offload(self) -> Iterator[Metric]:
        stats = self._core.stats
        if stats.store_bytes and self._byte_series:
            yield self._counter("kv_offload_store_bytes", "Bytes copied to the host tier.", stats.store_bytes)
        if stats.load_bytes and self._byte_series:
            yield self._counter("kv_offload_load_bytes", "Bytes read back from the host tier.", stats.load_bytes)
        yield self._counter(
            "kv_offload_stores_skipped", "Stores given up for want of room in the host tier.", stats.store_failures
        )
        lookups = HistogramMetricFamily(
            "vllm:kv_offload_lookup_sync_delay_seconds",
            "Time spent in lookups of the host tier; the model takes none, the count is real.",
            labels=tuple(self._labels),
        )
        lookups.add_metric(tuple(self._labels.values()), [("+Inf", stats.lookups)], 0.0)
        yield lookups

    def _counter(self, name: str, text: str, value: float) -> CounterMetricFamily:
        family = CounterMetricFamily(f"vllm:{name}", text, labels=tuple(self._labels))
        family.add_metric(tuple(self._labels.values()), value)
        return family

    def _by_label(self, name: str, text: str, label: str, values: dict[str, int]) -> CounterMetricFamily:
        family = CounterMetricFamily(f"vllm:{name}", text, labels=(*self._labels, label))
        for key, value in values.items():
            family.add_metric((*self._labels.values(), key), value)
        return family


def engine_registry(core: EngineCore, *, byte_series: bool = True) -> CollectorRegistry:
    """A registry with one core's series and nothing else; without `byte_series` those of L2's traffic are missing."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(EngineCollector(core, byte_series=byte_series))
    return registry


def _cached(core: EngineCore) -> int:
    return core.stats.prompt_tokens_local + core.stats.prompt_tokens_external
