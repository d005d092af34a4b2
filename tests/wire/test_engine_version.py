"""An engine's version from what it answers, and None wherever it does not say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import pytest

from conformance.servers import serve
from conformance.wire.engine_version import EngineSaid, ask_engine
from conformance.wire.jsontext import dumps

VLLM = {"data": [{"id": "m", "owned_by": "vllm"}]}
OTHER = {"data": [{"id": "m", "owned_by": "someone"}]}
METRICS = 'vllm:build_info{engine="0",version="0.33.1"} 1.0\n'


def app(pages: dict[str, Any]) -> Any:
    async def answer(
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        page = pages.get(scope["path"])
        body = page.encode() if isinstance(page, str) else dumps(page)
        await send({"type": "http.response.start", "status": 404 if page is None else 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    return answer


@pytest.mark.parametrize(
    ("pages", "version"),
    [
        ({"/v1/models": VLLM, "/version": {"version": "0.32.0"}}, "0.32.0"),
        ({"/v1/models": OTHER, "/version": {"version": "9.9.9"}}, None),
        ({"/v1/models": VLLM, "/version": {"version": 3}, "/metrics": METRICS}, "0.33.1"),
        ({"/metrics": METRICS}, "0.33.1"),
        ({"/v1/models": "no JSON", "/version": "none", "/metrics": "# nothing"}, None),
        ({}, None),
    ],
)
def test_what_an_engine_says(pages: dict[str, Any], version: str | None) -> None:
    with serve(app(pages), grace_s=0.05) as server:
        for url in (server.url, f"{server.url}/v1"):
            found = ask_engine(url)
            assert (found.vllm.name if found.vllm else None) == version


def test_an_engine_that_is_not_there_says_nothing() -> None:
    with serve(app({}), grace_s=0.05) as server:
        url = server.url
    assert ask_engine(url) == EngineSaid()


@pytest.mark.parametrize(
    ("pages", "has_top_k"),
    [
        ({"/v1/models": VLLM}, True),
        ({"/metrics": METRICS}, True),
        ({"/v1/models": {"data": [{"id": "m", "owned_by": "prefixproof"}]}}, True),
        ({"/v1/models": OTHER}, False),
        ({"/v1/models": {"data": [{"id": "m", "owned_by": None}, "m"]}}, False),
        ({}, False),
    ],
)
def test_which_engines_are_known_to_take_top_k(pages: dict[str, Any], has_top_k: bool) -> None:
    with serve(app(pages), grace_s=0.05) as server:
        assert ask_engine(server.url).has_top_k is has_top_k
