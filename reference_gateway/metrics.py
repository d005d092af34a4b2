"""The gateway's Prometheus metrics. Counts are the upstream's, before any switch."""

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from .counts import Counts

_ENTRY = ["entry", "channel"]


class Metrics:
    """One registry per app, so that several apps can live in a process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.in_flight = Gauge("gateway_requests_in_flight", "Requests being served.", registry=self.registry)
        self._requests = Counter(
            "gateway_requests",
            "Finished requests by entry, channel, HTTP status and outcome.",
            [*_ENTRY, "status", "outcome"],
            registry=self.registry,
        )
        self._prompt = Counter("gateway_prompt_tokens", "Upstream prompt tokens.", _ENTRY, registry=self.registry)
        self._cached = Counter(
            "gateway_cached_tokens", "Upstream cached prompt tokens.", _ENTRY, registry=self.registry
        )
        self._completion = Counter(
            "gateway_completion_tokens", "Upstream completion tokens.", _ENTRY, registry=self.registry
        )

    def count(self, entry: str, channel: str, status: int, outcome: str, counts: Counts) -> None:
        """Count a finished request. Unknown counts add nothing, and no series: absent is not zero."""
        self._requests.labels(entry, channel, str(status), outcome).inc()
        reported = ((self._prompt, counts.prompt), (self._cached, counts.cached), (self._completion, counts.completion))
        for counter, tokens in reported:
            if tokens is not None:
                counter.labels(entry, channel).inc(tokens)

    def render(self) -> bytes:
        """The text exposition format."""
        return generate_latest(self.registry)
