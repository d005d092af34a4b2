"""Faults in how upstream calls are made, and in what becomes of their errors."""

import asyncio
from collections.abc import AsyncGenerator, MutableMapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, ClassVar

from ..errors import GatewayError
from ..jsontext import dumps
from ..seams import JSONObject, Mutations

_STORM = 6
_COOLING = 2
_COOL = "channel_cools_down"
_BYTES_PER_TOKEN = 4


class ErrorAs200(Mutations):
    """Errors are told in the body of a 200."""

    def upstream_error(self, error: GatewayError, shared: MutableMapping[str, Any]) -> GatewayError:
        error.status = 200
        return error


class RetryAfterDropped(Mutations):
    """The upstream's Retry-After is not passed on."""

    def upstream_error(self, error: GatewayError, shared: MutableMapping[str, Any]) -> GatewayError:
        error.headers.pop("retry-after", None)
        return error


class OpenAIErrors(Mutations):
    """Every client is told of errors in OpenAI's shape."""

    def upstream_error(self, error: GatewayError, shared: MutableMapping[str, Any]) -> GatewayError:
        error.dialect = "openai"
        return error


class ErrorsAs503(Mutations):
    """Whatever the upstream refused comes as a 503."""

    def upstream_error(self, error: GatewayError, shared: MutableMapping[str, Any]) -> GatewayError:
        error.status = 503
        return error


class RetryStorm(Mutations):
    """An upstream call that fails is made six times, without a pause."""

    def tries(self) -> int:
        return _STORM


class OneCallAtATime(Mutations):
    """An upstream call waits until the one before it has begun to be answered."""

    def calling(self, shared: MutableMapping[str, Any]) -> AbstractAsyncContextManager[Any]:
        lock: asyncio.Lock = shared.setdefault("one call at a time", asyncio.Lock())
        return lock


class CoolsDown(Mutations):
    """After an upstream error the next two requests are turned away."""

    def upstream_error(self, error: GatewayError, shared: MutableMapping[str, Any]) -> GatewayError:
        if error.code != _COOL and (error.status == 429 or error.status >= 500):
            shared["cooling"] = _COOLING
        return error

    @asynccontextmanager
    async def calling(self, shared: MutableMapping[str, Any]) -> AsyncGenerator[None]:
        if shared.get("cooling"):
            shared["cooling"] -= 1
            raise GatewayError(503, "the channel cools down", code=_COOL)
        yield


class ServesTheDeparted(Mutations):
    """A client that leaves is not noticed."""

    serves_the_departed: ClassVar[bool] = True


class EstimateCount(Mutations):
    """count_tokens answers a quarter of the messages' bytes, tools and system text left out."""

    def counted(self, count: int, body: JSONObject) -> int:
        said = [message for message in body["messages"] if message.get("role") != "system"]
        return len(dumps(said)) // _BYTES_PER_TOKEN
