"""Kept connections that their server closes, and imports that would stall a run."""

from __future__ import annotations

import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from load_rig import evict_record, sample
from test_load_run import ROOT, run

from load.conclusion import exit_code
from load.embedded import PairOptions, embedded_pair
from load.errors import LoadExit
from load.gate import Gate, judge

EVENTS = (
    b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":0}'
    b"}}\n\ndata: [DONE]\n\n"
)
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n%s" % (len(EVENTS), EVENTS)


class Target:
    """Answers the first `answers` requests of each connection, and closes it at the next one or after `keeps` seconds.

    `drops` of all connections end at their first request.
    """

    def __init__(self, *, answers: int, keeps: float, drops: int = 0) -> None:
        self.answers, self.keeps, self.drops = answers, keeps, drops
        self.answered = self.closed = 0
        self.lock = threading.Lock()

    def serve(self, connection: socket.socket) -> None:
        with connection:
            for number in range(self.answers + 1):
                connection.settimeout(self.keeps)
                try:
                    whole = request_of(connection)
                except TimeoutError:
                    return
                with self.lock:
                    drop = self.drops > 0
                    self.drops -= drop
                    if not whole or drop or number == self.answers:
                        self.closed += whole
                        return
                    self.answered += 1
                connection.sendall(ANSWER)


def request_of(connection: socket.socket) -> bool:
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65_536)
        if not part:
            return False
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65_536)
    return True


@contextmanager
def serving(target: Target) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        stop, threads = threading.Event(), []

        def accept() -> None:
            while not stop.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                threads.append(threading.Thread(target=target.serve, args=(connection,)))
                threads[-1].start()

        acceptor = threading.Thread(target=accept)
        acceptor.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            stop.set()
            acceptor.join()
            for thread in threads:
                thread.join()


STALLED = """
import sys, time
import locust
from geventhttpclient.connectionpool import ConnectionPool
from gevent import monkey
from locust.contrib.fasthttp import FastHttpSession
from locust.event import EventHook
from load.plan import SessionSpec, Step
from conformance.sessions import CLIENTS
from load.sending import Sender
from load.talk import Talk

real, hub_stops = ConnectionPool._is_socket_alive, monkey.get_original("time", "sleep")

def stalled(self, sock):
    alive = real(self, sock)
    hub_stops(float(sys.argv[2]))  # the server closes the connection now, after it was found to be alive
    return alive

ConnectionPool._is_socket_alive = stalled
client = FastHttpSession(sys.argv[1], EventHook(), None, network_timeout=5.0, connection_timeout=5.0)
sender = Sender(sys.argv[1], client, api_key=None, run="abcdef", timeout_s=10)
chat = next(name for name, client in CLIENTS.items() if client.dialect == "chat")
talk = Talk.begin(SessionSpec(1, chat, 24_000), seed=0, run="abcdef", model="m", max_tokens=8)
for step in (Step("turn"), Step("turn", bytes=500)):
    for outgoing in talk.requests(step):
        sample = sender.send(outgoing, "p", lambda _: None)
        print(sample.status, sample.error, sample.resent)
"""


@pytest.mark.parametrize("stall", [0.9, 2.5])
def test_a_stall_between_the_look_at_a_connection_and_its_use_accuses_nobody(stall: float) -> None:
    target = Target(answers=5, keeps=0.4)
    with serving(target) as url:
        done = subprocess.run(
            [sys.executable, "-c", STALLED, url, str(stall)],
            cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
    assert done.stdout.splitlines() == ["200 None False"] * 2, done.stdout + done.stderr
    assert target.answered == 2


PLAYED = ("storm", "--sessions", "6", "--sdk-share", "0", "--mix", "chat-only", "--timeout", "5")


def test_a_rested_connection_that_is_closed_at_its_next_request_is_no_failure(tmp_path: Path) -> None:
    target = Target(answers=1, keeps=30)
    with serving(target) as url:
        alone = ("--sessions", "1", "--users", "1", "--pause", "0.9")
        code, result, said = run(tmp_path, *PLAYED, *alone, "--host", url)
    assert code == 0, said
    assert (result["total"]["errors"], result["total"]["resent"]) == (0, 0)
    assert (target.answered, target.closed) == (2, 1)


def test_a_connection_that_ends_unrested_is_no_failure_and_no_pass(tmp_path: Path) -> None:
    target = Target(answers=1, keeps=30)
    steps = ("repeats", *PLAYED[1:], "--users", "1")
    with serving(target) as url:
        code, result, said = run(tmp_path, *steps, "--host", url)
    assert code == 12, said
    total = result["total"]
    assert total["errors"] == 0 < total["resent"] == target.closed
    assert "answered on a second try only" in said


def test_a_new_connection_without_an_answer_is_a_failure(tmp_path: Path) -> None:
    target = Target(answers=100, keeps=30, drops=2)
    with serving(target) as url:
        code, result, said = run(tmp_path, *PLAYED, "--host", url)
    assert (code, result["total"]["errors"], result["total"]["resent"]) == (1, 2, 0), said


def test_a_gate_on_errors_does_not_decide_where_second_tries_do() -> None:
    record = evict_record()
    assert exit_code(record, []) is LoadExit.GREEN
    record.samples.add(sample(resent=True))
    assert exit_code(record, []) is LoadExit.INCOMPLETE
    assert [judge(Gate(errors=most), record, None)[0].holds for most in (0, 1)] == [None, True]
    record.samples.add(sample(error="status 500: x"))
    assert [judge(Gate(errors=most), record, None)[0].holds for most in (0, 1, 2)] == [False, None, True]


def test_gateway_and_engine_keep_a_connection_for_longer_than_a_client_rests() -> None:
    with embedded_pair(PairOptions()) as pair:
        kept = []
        for url in (pair.gateway, *pair.engines):
            host, _, port = url.removeprefix("http://").partition(":")
            kept.append(socket.create_connection((host, int(port))))
            kept[-1].sendall(b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n")
            assert kept[-1].recv(65_536).startswith(b"HTTP/1.1 200")
            while select.select([kept[-1]], [], [], 0.3)[0]:
                assert kept[-1].recv(65_536), "the rest of the answer"
        ended, _, _ = select.select(kept, [], [], 7.0)
        for connection in kept:
            connection.close()
    assert not ended, "uvicorn's own 5 s"


LOADED = """
import sys
import locust
from load.sending import load_sdks
from load.shapes import Pressure, build

load_sdks(build("steady", Pressure(sdk_share=float(sys.argv[1]), mix=sys.argv[2])))
print(*sorted({"anthropic", "openai"} & set(sys.modules)))
"""


@pytest.mark.parametrize(
    ("share", "mix", "loaded"),
    [("0", "agents", ""), ("1", "chat-only", "openai"), ("1", "messages-only", "anthropic")],
)
def test_sdks_are_there_before_the_first_session_and_only_those_that_are_used(
    share: str, mix: str, loaded: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, share, mix], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.strip() == loaded, done.stderr
