"""Which channel serves a model name, and what the model is called there."""

from dataclasses import dataclass

from .config import Channel
from .errors import GatewayError


@dataclass(frozen=True)
class Route:
    """A channel and the upstream's own name of the model asked for."""

    channel: Channel
    model: str


class ChannelTable:
    """Looks up names; built once per app."""

    def __init__(self, channels: tuple[Channel, ...]) -> None:
        self._routes: dict[str, Route] = {}
        for channel in channels:
            self._routes.update({model: Route(channel, model) for model in channel.models})
            self._routes.update({alias: Route(channel, real) for alias, real in channel.aliases.items()})

    def names(self) -> dict[str, str]:
        """Every name a client may use, with the name of its channel, in the order of the configuration."""
        return {name: route.channel.name for name, route in self._routes.items()}

    def route(self, model: str) -> Route:
        """The route of a model name.

        Raises:
            GatewayError: 404, no channel offers it.
        """
        try:
            return self._routes[model]
        except KeyError:
            message = "model: no channel offers this name; GET /v1/models lists those there are"
            raise GatewayError(404, message, code="model_not_found") from None
