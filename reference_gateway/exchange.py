"""What is known of one request while it is served."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .channels import ChannelTable, Route
from .clients import Clients
from .config import GatewayConfig
from .counts import read_counts
from .errors import GatewayError
from .jsontext import Document, JSONTextError, parse
from .log import log_usage
from .metrics import Metrics
from .routing import replica
from .seams import Mutations
from .upstream import Upstream


@dataclass
class Gateway:
    """What all requests of an app share."""

    config: GatewayConfig
    channels: ChannelTable
    metrics: Metrics
    mutations: type[Mutations]
    clients: Clients
    shared: dict[str, Any] = field(default_factory=dict)
    """For faults in what requests share; nothing else uses it."""


@dataclass
class Exchange:
    """One request to one entry.

    ``usage`` is the upstream's raw usage, for the gateway's own log and metrics; nothing rewrites it.
    """

    gateway: Gateway
    entry: str
    received: bytes
    headers: Mapping[str, str]
    query: str = ""
    mutations: Mutations = field(init=False)
    document: Document = field(init=False)
    model: str | None = None
    route: Route | None = None
    streamed: bool = False
    usage: Any = None
    _started: float = field(default_factory=time.perf_counter)
    _open: bool = True

    def __post_init__(self) -> None:
        self.mutations = self.gateway.mutations(self.received)
        self.gateway.metrics.in_flight.inc()

    def read(self) -> Route:
        """Parse the body and find its channel.

        Raises:
            GatewayError: 400 not a JSON object or no model, 404 a model that no channel offers.
        """
        try:
            self.document = parse(self.received)
        except JSONTextError as error:
            raise GatewayError(400, f"the body must be a JSON object: {error}") from error
        model = self.document.value.get("model")
        if not isinstance(model, str) or not model:
            raise GatewayError(400, "model: is required and must be a string")
        route = self.gateway.channels.route(model)
        channel = replica(self.mutations.channel(route.channel), self.headers, self.document.value)
        self.model, self.route = model, Route(channel, route.model)
        return self.route

    def upstream(self) -> Upstream:
        """The upstream that ``read`` found."""
        if self.route is None:
            raise RuntimeError("read the exchange first")
        gateway = self.gateway
        return Upstream(gateway.clients, self.route.channel, self.headers, self.mutations, gateway.shared)

    def finish(self, outcome: str, status: int) -> None:
        """Log and count the request, once."""
        if not self._open:
            return
        self._open = False
        channel = self.route.channel.name if self.route else ""
        metrics = self.gateway.metrics
        metrics.in_flight.dec()
        metrics.count(self.entry, channel, status, outcome, read_counts(self.usage))
        log_usage(
            {
                "entry": self.entry,
                "channel": channel,
                "model": self.model if self.route else None,
                "upstream_model": self.route.model if self.route else None,
                "stream": self.streamed,
                "status": status,
                "outcome": outcome,
                "duration_ms": round((time.perf_counter() - self._started) * 1000),
                "usage": self.usage,
            }
        )
