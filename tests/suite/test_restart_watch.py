"""Watching a target that is restarted: what counts as a sign that it was away, and what does not."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from conformance.errors import RestartFailed
from conformance.restart_command import Waits, program_name, restart
from conformance.servers import Restartable
from conformance.wire.endpoint import Endpoint

WAITS = Waits(within=10.0, settle=0.8, calm=0.2)
KEY = "k3y-of-somebody-0123456789"


class App:
    """A target of which each start answers in its own way: statuses of its first answers, then 200."""

    def __init__(self, *starts: tuple[int, ...], headers: dict[str, str] | None = None) -> None:
        self._starts = list(starts)
        self._headers = headers or {}
        self.made = 0

    def __call__(self) -> Starlette:
        statuses = list(self._starts[self.made]) if self.made < len(self._starts) else []
        self.made += 1

        async def models(_: Request) -> Response:
            return JSONResponse({}, statuses.pop(0) if statuses else 200, headers=self._headers)

        return Starlette(routes=[Route("/v1/models", models)])


def endpoint(url: str, key: str | None = None) -> Endpoint:
    return Endpoint(url=url, api_key=key, timeout_s=5.0, run_id="000001")


@contextmanager
def meanwhile(work: object, after_s: float = 0.7) -> Iterator[None]:
    """Call `work` on another thread, a little later."""
    assert callable(work)
    timer = threading.Timer(after_s, work)
    timer.start()
    try:
        yield
    finally:
        timer.join()


def test_a_restart_shows_by_the_connection_that_was_kept() -> None:
    with Restartable(App()) as target, meanwhile(target.restart):
        seen = restart(("sleep", "1.1"), endpoint(target.url), WAITS)
    assert seen in ("a connection that it kept open was closed", "connections were refused", "a connection was cut")


def test_the_target_is_back_when_it_answers_as_before_not_when_it_answers() -> None:
    app = App((), (503,) * 8)
    with Restartable(app) as target, meanwhile(target.restart, 0.7):
        began = time.monotonic()
        assert restart(("sleep", "1.1"), endpoint(target.url), WAITS)
        assert time.monotonic() - began > 0.8, "eight looks, a tenth of a second apart"


def test_a_command_that_ends_before_the_target_goes_is_waited_for() -> None:
    with Restartable(App()) as target, meanwhile(target.restart, 0.7):
        assert restart(("true",), endpoint(target.url), WAITS)


def test_a_target_that_goes_after_the_command_ended_is_watched_longer() -> None:
    """A rolling restart that nobody waits for: the second of two replicas goes a while after the first."""
    app = App()
    with Restartable(app) as target, meanwhile(target.restart, 0.7), meanwhile(target.restart, 1.3):
        assert restart(("true",), endpoint(target.url), WAITS)
        assert app.made == 3, "both restarts are over"


def test_a_target_that_limits_the_rate_of_looks_is_there() -> None:
    limited = (429,) * 60
    with Restartable(App((200, 429), limited)) as target, meanwhile(target.restart, 0.7):
        assert restart(("sleep", "1.1"), endpoint(target.url), WAITS), "answered once before it, and no more"
    with Restartable(App((200, 200, *limited))) as target:
        assert restart(("true",), endpoint(target.url), WAITS) == "", "a limit shows no restart"


def test_a_target_that_answered_with_errors_before_is_back_when_it_answers() -> None:
    with Restartable(App((503,) * 60)) as target, meanwhile(target.restart, 0.7):
        assert restart(("sleep", "1.1"), endpoint(target.url), WAITS)


def test_a_short_wait_ends_without_a_sign_and_not_in_a_failure() -> None:
    with Restartable(App()) as target:
        assert restart(("true",), endpoint(target.url), Waits(within=0.5, settle=5.0, calm=0.2)) == ""


@pytest.mark.parametrize("headers", [{}, {"connection": "close"}], ids=["kept", "closed each time"])
def test_a_target_that_stays_shows_nothing(headers: dict[str, str]) -> None:
    with Restartable(App(headers=headers)) as target:
        assert restart(("sleep", "0.3"), endpoint(target.url), WAITS) == ""


@pytest.mark.parametrize("idle_s", [None, 0.03], ids=["after each answer", "after a short while"])
def test_a_server_that_hangs_up_shows_nothing_by_that(idle_s: float | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    peer.settimeout(idle_s)
                    with peer, suppress(TimeoutError):
                        while peer.recv(65536):
                            peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
                            if idle_s is None:
                                break

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            assert restart(("true",), endpoint(f"http://127.0.0.1:{listener.getsockname()[1]}"), WAITS) == ""
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_a_command_that_fails_late_fails_although_the_target_is_back() -> None:
    said = r"`sh \.\.\.` ended with exit code 7: it wrote nothing"
    with (
        Restartable(App()) as target,
        meanwhile(target.restart, 0.7),
        pytest.raises(RestartFailed, match=said),
    ):
        restart(("sh", "-c", "sleep 1.2; exit 7"), endpoint(target.url), WAITS)


def test_a_command_that_cannot_be_run_is_named() -> None:
    with Restartable(App()) as target, pytest.raises(RestartFailed, match="`nothing-here` cannot be run: No such file"):
        restart(("/no/nothing-here",), endpoint(target.url), WAITS)


def test_neither_the_key_nor_long_output_is_shown() -> None:
    loud = (
        f"for i in $(seq 900); do echo {KEY} >&2; done; echo cannot connect with {KEY} as Rumpelstilzchen >&2; exit 1"
    )
    with Restartable(App()) as target, pytest.raises(RestartFailed) as failed:
        restart(("sh", "-c", loud), endpoint(target.url, KEY), WAITS)
    said = str(failed.value)
    assert "cannot connect with" in said
    assert len(said) < 300
    assert KEY[:8] not in said
    assert "Rumpelstilzchen" not in said


def test_the_command_does_not_get_the_target_s_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFIXPROOF_API_KEY", KEY)
    monkeypatch.setenv("OTHER", "kept")
    told = tmp_path / "told"
    with Restartable(App()) as target:
        restart(("sh", "-c", f'echo "$OTHER-$PREFIXPROOF_API_KEY" > {told}'), endpoint(target.url, KEY), WAITS)
    assert told.read_text(encoding="utf-8") == "kept-\n"
    assert os.environ["PREFIXPROOF_API_KEY"] == KEY


def test_a_report_names_the_program_only() -> None:
    assert program_name(("/opt/bin/restart-gw",)) == "`restart-gw`"
    assert program_name(("/usr/bin/sh", "-c", "x --key sk-1")) == "`sh ...`"
