"""Errors inside a Messages stream."""

from ..errors import GatewayError, anthropic_error
from ..sse import named_event


def error_event(error: GatewayError) -> bytes:
    """The ``error`` event that ends a stream which cannot be finished."""
    return named_event(anthropic_error(error))
