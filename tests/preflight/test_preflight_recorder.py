from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from preflight_gateway import CHAT, MARKER, Gateway, check, completion, found, no_tools
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from conformance.errors import TargetProblem
from conformance.preflight import LOOKS, nothing_arrived
from conformance.recorder import Recorder, relay
from conformance.servers import serve


@contextlib.contextmanager
def relayed(engine: Starlette, *, through: bool, strip: bool = False) -> Iterator[tuple[str, Recorder]]:
    """(gateway, recorder): a gateway that forwards to the recorder, or answers by itself."""
    with serve(engine) as engine_server, relay(engine_server.url, marker=MARKER.encode()) as recorder:

        def forward(request: Request, body: dict[str, Any]) -> Response:
            if not through:
                return completion(request, body)
            if strip:
                body = {**body, "messages": [{"role": "user", "content": "something else"}], "tools": []}
            upstream = httpx.post(f"{recorder.url}{request.url.path}", json=body, trust_env=False)
            return Response(upstream.content, upstream.status_code, media_type=upstream.headers["content-type"])

        async def endpoint(request: Request) -> Response:
            body = await request.json()
            # The relay is served by this very loop.
            import anyio.to_thread

            return await anyio.to_thread.run_sync(forward, request, body)

        with serve(Starlette(routes=[Route(CHAT.path, endpoint, methods=["POST"])])) as gateway:
            yield gateway.url, recorder


def test_the_recorder_sees_the_requests_or_a_note_says_that_it_does_not() -> None:
    engine = Gateway().app()
    with relayed(engine, through=True) as (url, recorder):
        preflight = check(url, recorder=recorder, entries=(CHAT,))
        assert (preflight.recorder_sees, preflight.notes, preflight.requests) == (frozenset((CHAT,)), (), 1)
    with relayed(engine, through=False) as (url, recorder):
        preflight = check(url, recorder=recorder, entries=(CHAT,))
        assert (preflight.recorder_sees, preflight.requests) == (frozenset(), LOOKS)
        assert preflight.notes == (nothing_arrived(recorder.url or "", preflight.model),)
        assert (
            f"no request of the target arrived at {(recorder.url or '').removeprefix('http://')}: "
            in preflight.notes[0]
        )
    with relayed(engine, through=True, strip=True) as (url, recorder):
        (note,) = check(url, recorder=recorder, entries=(CHAT,)).notes
        assert note.endswith("(requests without the suite's marker that passed meanwhile: 3)")
    assert not found(Gateway()).recorder_sees


def test_tools_that_fail_behind_the_recorder_are_for_the_rules_to_judge() -> None:
    with relayed(no_tools("tools[0].type must be function").app(), through=True) as (url, recorder):
        preflight = check(url, recorder=recorder, entries=(CHAT,))
    assert preflight.recorder_sees
    assert preflight.notes == (
        "/v1/chat/completions fails with tools and works without (HTTP 400: tools[0].type must be function)",
    )


def test_an_engine_that_is_down_behind_the_recorder_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        engine_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with relay(engine_url, marker=MARKER.encode()) as recorder:
        assert recorder.url is not None
        with pytest.raises(TargetProblem) as raised:
            check(recorder.url, recorder=recorder, entries=(CHAT,))
    assert str(raised.value) == (
        f"{recorder.url} works, but the engine at {engine_url} does not answer the recorder: is --engine right?"
    )
