"""The places where a named fault may reach into the gateway; without one, every seam passes its input on.

One ``Mutations`` object is made per request, so a fault may keep what it saw of that request. A seam that changes
nothing returns the very object it was given: callers then keep the bytes they already have.
"""

from collections.abc import Iterable, MutableMapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, ClassVar, Self

from .config import Channel
from .errors import GatewayError

JSONObject = dict[str, Any]


class Mutations:
    """The right behaviour: identity at every seam. Faults override one or two methods.

    The order of calls is: ``channel``, ``stream_options`` (streams only), ``chat_body`` or ``native_body``, then for
    the answer ``upstream_usage`` and, by entry, ``messages_usage`` or ``chat_usage``; in streams also ``start_usage``,
    ``messages_event`` and ``chat_chunk``. ``received`` is the body as the client sent it. ``shared`` is one mapping
    for all requests of an app, for faults in what requests share.
    """

    serves_the_departed: ClassVar[bool] = False
    """Whether a request is served to its end although its client has left."""

    def __init__(self, received: bytes) -> None:
        self.received = received

    @classmethod
    def started(cls) -> type[Self]:
        """The class that serves one process: an app is one, and asks once. For faults in what a start draws."""
        return cls

    def channel(self, channel: Channel) -> Channel:
        """The channel whose switches apply to this request."""
        return channel

    def stream_options(self, sent: JSONObject | None) -> JSONObject | None:
        """The ``stream_options`` of a streamed upstream request, from what the chat client sent (or None)."""
        return {**(sent or {}), "include_usage": True}

    def chat_body(self, body: JSONObject) -> JSONObject:
        """The body for ``/v1/chat/completions``."""
        return body

    def native_body(self, body: JSONObject) -> JSONObject:
        """The body for an upstream that speaks Messages itself."""
        return body

    def upstream_usage(self, usage: JSONObject | None) -> JSONObject | None:
        """The upstream's usage as both entries go on to read it; the gateway's own log keeps the raw one."""
        return usage

    def messages_usage(self, usage: JSONObject) -> JSONObject:
        """The final Anthropic usage, plain or in the last ``message_delta``."""
        return usage

    def chat_usage(self, usage: JSONObject | None) -> JSONObject | None:
        """The usage a chat client gets."""
        return usage

    def start_usage(self, usage: JSONObject) -> JSONObject:
        """The usage in ``message_start``."""
        return usage

    def messages_event(self, event: JSONObject) -> Iterable[JSONObject]:
        """What is sent in place of one event of a Messages stream."""
        return (event,)

    def chat_chunk(self, chunk: JSONObject) -> JSONObject:
        """What is sent in place of one chunk of a chat stream."""
        return chunk

    def kept_usage(self, held: JSONObject | None, seen: JSONObject, *, with_choices: bool) -> JSONObject | None:
        """The usage to hold on to after a stream's chunk carried ``seen``: the last one. Messages only."""
        return seen

    def finish_of_broken(self, *, cut: bool) -> str | None:
        """What to make of an upstream stream that broke off (``cut``) or ended unfinished.

        None: an error. "": nothing, the client's stream just ends. Else the finish_reason to claim.
        """
        return None

    def upstream_error(self, error: GatewayError, shared: MutableMapping[str, Any]) -> GatewayError:
        """The error a client gets for one that served its request."""
        return error

    def tries(self) -> int:
        """How often an upstream call that fails is made."""
        return 1

    def calling(self, shared: MutableMapping[str, Any]) -> AbstractAsyncContextManager[Any]:
        """Held while the upstream has not begun to answer; may raise GatewayError instead of calling."""
        return nullcontext()

    def counted(self, count: int, body: JSONObject) -> int:
        """The answer of count_tokens for a request, from what the upstream counted."""
        return count

    def hides_usage_chunk(self) -> bool:
        """Whether the extra usage chunk is kept from a chat client that did not ask for it."""
        return True
