from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from stub_target import StubTarget, answer

from conformance.servers import serve

THREAD = "prefixproof-servers"


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == THREAD]


def get(url: str) -> httpx.Response:
    with httpx.Client(trust_env=False) as client:
        return client.get(url)


def test_apps_share_one_thread_and_loop_which_end_with_the_last() -> None:
    loops = []

    async def home(request: Request) -> JSONResponse:  # noqa: ARG001
        loops.append(asyncio.get_running_loop())
        return JSONResponse({"thread": threading.current_thread().name})

    app = Starlette(routes=[Route("/", home)])
    assert threads() == []
    with serve(app) as first:
        with serve(app) as second:
            assert first.port != second.port
            assert {get(server.url).json()["thread"] for server in (first, second)} == {THREAD}
            assert threads() == [THREAD]
        assert get(first.url).status_code == 200
    assert loops[0] is loops[1]
    assert threads() == []


def test_the_lifespan_runs_and_its_state_reaches_requests() -> None:
    steps: list[str] = []

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, str]]:  # noqa: ARG001
        steps.append("up")
        yield {"word": "hello"}
        steps.append("down")

    async def home(request: Request) -> JSONResponse:
        return JSONResponse(request.state.word)

    with serve(Starlette(routes=[Route("/", home)], lifespan=lifespan)) as server:
        assert steps == ["up"]
        assert get(server.url).json() == "hello"
    assert steps == ["up", "down"]


@pytest.mark.parametrize("fails_at", ["up", "down"])
def test_an_app_that_fails_to_start_or_stop_raises_its_own_error(fails_at: str) -> None:
    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:  # noqa: ARG001
        if fails_at == "up":
            raise ZeroDivisionError("no fuel")
        yield
        raise ZeroDivisionError("no fuel")

    served = []
    with pytest.raises(ZeroDivisionError, match="no fuel"), serve(Starlette(lifespan=lifespan)) as server:
        served.append(server)
    assert bool(served) == (fails_at == "down")
    assert threads() == []


def test_an_app_without_a_lifespan_is_served() -> None:
    with serve(StubTarget([answer({"ok": True})])) as server:
        assert get(server.url).json() == {"ok": True}


def test_a_port_in_use_is_the_callers_error() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(OSError, match="in use"),
        serve(StubTarget([answer({})]), port=taken.getsockname()[1]),
    ):
        pass
    assert threads() == []


def test_an_ipv6_address_makes_a_usable_url() -> None:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with serve(StubTarget([answer({"ok": True})]), host="::1") as server:
        assert server.url == f"http://[::1]:{server.port}"
        assert get(server.url).json() == {"ok": True}


def test_a_request_that_never_ends_does_not_hold_the_server_up() -> None:
    arrived = threading.Event()
    cancelled = threading.Event()

    async def hang(send: object) -> None:  # noqa: ARG001
        arrived.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def ask(url: str) -> None:
        with contextlib.suppress(httpx.HTTPError):
            get(url)

    with serve(StubTarget([hang]), grace_s=0.05) as server:
        asker = threading.Thread(target=ask, args=(server.url,))
        asker.start()
        assert arrived.wait(30)
    assert cancelled.is_set()
    asker.join()


def test_an_idle_connection_does_not_hold_the_server_up_and_the_port_is_free_again() -> None:
    with httpx.Client(trust_env=False) as client:
        with serve(StubTarget([answer({})])) as server:
            assert client.get(server.url).status_code == 200
        with serve(StubTarget([answer({"second": True})]), port=server.port) as again:
            assert client.get(again.url).json() == {"second": True}
