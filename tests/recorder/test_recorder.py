from __future__ import annotations

import asyncio
import socket
import threading

import httpx
import pytest
from recorder_rig import MARKER, Asked, Receive, Send, pieces, rig

from conformance.errors import UsageProblem
from conformance.recorder import Recorder, parse_listen, relay
from conformance.servers import serve

MARKED = b'{"messages": [ "' + MARKER + b'/1" ],\n "n": 1.0, "text": "\\u00fc \xc3\xbc" }'
ANSWER = b'{"id":"x", "usage": null}\n'


def test_bytes_are_the_same_both_ways_and_kept() -> None:
    with rig(pieces(ANSWER, headers={"content-type": "application/json"})) as r:
        response = r.post(MARKED, headers={"content-type": "application/json", "x-session-id": "s-1"})
        (record,) = r.recorder.since(0)
    assert r.engine.asked[0].body == MARKED == record.body
    assert response.content == ANSWER == record.response_body
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert (record.method, record.path, record.status, record.complete) == ("POST", "/v1/chat/completions", 200, True)
    assert record.headers["x-session-id"] == "s-1"
    assert record.json["messages"] == ["prefixproof-run-7/1"]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
def test_any_method_and_path_is_relayed_as_it_came(method: str) -> None:
    path = "/tokenize/a%2Fb/%C3%BC;x=1?q=a%20b&q=+&r"
    with rig(pieces(b"" if method == "HEAD" else b"ok", status=418, headers={"x-engine": "e"})) as r:
        body = MARKED if method in ("POST", "PUT", "PATCH") else b""
        response = r.client.request(method, r.url + path, content=body)
    (asked,) = r.engine.asked
    assert (asked.method, asked.target, asked.body) == (method, path.encode(), body)
    assert (response.status_code, response.headers["x-engine"]) == (418, "e")
    assert response.content == (b"" if method == "HEAD" else b"ok")


def test_a_path_in_the_engine_url_is_kept_and_v1_is_not_doubled() -> None:
    with rig(pieces(b"ok")) as r:
        for suffix in ("/pool", "/pool/v1", "/pool/"):
            with relay((r.recorder.engine_url or "") + suffix) as inner:
                httpx.get(f"{inner.url}/v1/models", trust_env=False)
    assert [asked.target for asked in r.engine.asked] == [b"/pool/v1/models"] * 3


def test_only_requests_with_the_marker_are_kept() -> None:
    with rig(pieces(ANSWER)) as r:
        r.post(b'{"messages": ["a prompt of some other user"]}')
        r.post(MARKED)
        r.client.get(r.url + "/health")
        assert (r.recorder.seen, r.recorder.unrecorded, len(r.recorder.since(0))) == (3, 2, 1)
        r.recorder.marker = b"prefixproof-run-8"
        r.post(MARKED)
        r.recorder.marker = None
        r.post(MARKED)
        assert (r.recorder.seen, r.recorder.unrecorded, len(r.recorder.since(0))) == (5, 4, 1)
    assert [asked.body for asked in r.engine.asked][-2:] == [MARKED, MARKED]


def test_since_a_mark_gives_what_came_after_it_in_order() -> None:
    with rig(pieces(ANSWER)) as r:
        r.post(MARKED)
        mark = r.recorder.mark()
        assert r.recorder.since(mark) == ()
        for number in (2, 3):
            r.post(MARKED.replace(b"/1", b"/%d" % number))
        assert [record.json["messages"] for record in r.recorder.since(mark)] == [
            ["prefixproof-run-7/2"],
            ["prefixproof-run-7/3"],
        ]
        assert r.recorder.since(mark)[0] is r.recorder.since(mark)[0]


def test_credentials_are_relayed_and_not_kept() -> None:
    secrets = {
        "authorization": "Bearer sk-1234567890",
        "X-Api-Key": "key-1234567890",
        "api-key": "key-1234567890",
        "cookie": "session=1234567890",
        "x-auth-token": "token-1234567890",
        "proxy-authorization": "Basic 1234567890",
    }
    with rig(pieces(ANSWER)) as r:
        r.post(MARKED, headers={**secrets, "x-request-id": "plain"})
        (record,) = r.recorder.since(0)
    relayed = {name.decode(): value.decode() for name, value in r.engine.asked[0].headers}
    assert relayed["authorization"] == secrets["authorization"]
    assert relayed["x-api-key"] == secrets["X-Api-Key"]
    assert "proxy-authorization" not in relayed
    assert "1234567890" not in str(record.headers)
    assert {record.headers[name.lower()] for name in secrets} == {"[redacted]"}
    assert record.headers["x-request-id"] == "plain"


def test_hop_by_hop_headers_end_here_and_repeated_ones_do_not() -> None:
    headers = {"x-hop": "1", "keep-alive": "timeout=5", "x-end": "2", "set-cookie": "a=1"}
    with rig(pieces(ANSWER, headers={**headers, "connection": "x-hop"})) as r:
        response = r.post(
            MARKED,
            headers=[("connection", "x-mine, keep-alive"), ("x-mine", "1"), ("x-two", "a"), ("x-two", "b")],
        )
        (record,) = r.recorder.since(0)
    asked = r.engine.asked[0].headers
    assert [value for name, value in asked if name == b"x-two"] == [b"a", b"b"]
    assert not {b"x-mine", b"connection"} & {name for name, _ in asked}
    assert dict(asked)[b"host"] == (r.recorder.engine_url or "").removeprefix("http://").encode()
    assert dict(asked)[b"accept-encoding"] == b"identity"
    assert not {"x-hop", "keep-alive"} & set(response.headers)
    assert (response.headers["x-end"], response.headers["set-cookie"]) == ("2", "a=1")
    assert record.headers["x-two"] == "a, b"


def test_a_length_given_by_the_engine_is_kept_and_chunks_stay_chunks() -> None:
    with rig(pieces(ANSWER, headers={"content-length": str(len(ANSWER))})) as r:
        assert r.post(MARKED).headers["content-length"] == str(len(ANSWER))
    with rig(pieces(ANSWER)) as r:
        assert r.post(MARKED).headers["transfer-encoding"] == "chunked"


def test_a_compressed_answer_passes_unopened() -> None:
    body = b"\x1f\x8b not really gzip"
    with rig(pieces(body, headers={"content-encoding": "gzip"})) as r:
        with r.client.stream("POST", r.url, content=MARKED) as response:
            assert b"".join(response.iter_raw()) == body
        assert r.recorder.since(0)[0].response_body == body


def test_a_streamed_answer_comes_piece_by_piece() -> None:
    gate = threading.Event()
    with rig(pieces(b"data: 1\n\n", b"data: 2\n\n", b"data: [DONE]\n\n", gate=gate)) as r:
        with r.client.stream("POST", r.url, content=MARKED) as response:
            came = response.iter_raw()
            assert next(came) == b"data: 1\n\n"  # the engine has sent no more than this
            (record,) = r.recorder.since(0, settle_s=0)
            assert (record.complete, record.status, record.response_body) == (False, 200, b"data: 1\n\n")
            gate.set()
            assert next(came) == b"data: 2\n\n"
            gate.set()
            assert list(came) == [b"data: [DONE]\n\n"]
        (record,) = r.recorder.since(0)
    assert record.complete
    assert record.response_body == b"data: 1\n\ndata: 2\n\ndata: [DONE]\n\n"


@pytest.mark.parametrize("headers", [{}, {"content-length": "1000"}], ids=["chunked", "length"])
def test_an_answer_the_engine_breaks_off_is_broken_off_for_the_gateway_too(headers: dict[str, str]) -> None:
    with rig(pieces(b"data: 1\n\n", headers=headers, abort=True)) as r:
        with r.client.stream("POST", r.url, content=MARKED) as response:
            assert response.status_code == 200
            with pytest.raises(httpx.RemoteProtocolError):
                response.read()
        (record,) = r.recorder.since(0)
    assert (record.complete, record.status, record.response_body) == (False, 200, b"data: 1\n\n")


def test_a_gateway_that_leaves_is_followed_by_the_engines_request() -> None:
    left = threading.Event()

    async def handler(asked: Asked, receive: Receive, send: Send) -> None:  # noqa: ARG001
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        assert (await receive())["type"] == "http.disconnect"
        left.set()

    with rig(handler) as r:
        with r.client.stream("POST", r.url, content=MARKED) as response:
            next(response.iter_raw())
        assert left.wait(30)
        (record,) = r.recorder.since(0)
    assert (record.complete, record.status) == (False, 200)


def test_an_answer_that_ends_just_after_the_gateway_left_is_whole() -> None:
    async def handler(asked: Asked, receive: Receive, send: Send) -> None:  # noqa: ARG001
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": True})
        await asyncio.to_thread(left.wait, 30)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    left = threading.Event()
    with rig(handler, linger_s=30) as r:
        with r.client.stream("POST", r.url, content=MARKED) as response:
            assert next(response.iter_raw()) == b"data: [DONE]\n\n"
        left.set()
        (record,) = r.recorder.since(0, settle_s=30)
    assert (record.complete, record.response_body) == (True, b"data: [DONE]\n\n")


def test_a_gateway_that_leaves_before_the_answer_is_followed_too() -> None:
    arrived, left = threading.Event(), threading.Event()

    async def handler(asked: Asked, receive: Receive, send: Send) -> None:  # noqa: ARG001
        arrived.set()
        assert (await receive())["type"] == "http.disconnect"
        left.set()

    with rig(handler) as r:
        with socket.create_connection(("127.0.0.1", int(r.url.rpartition(":")[2]))) as connection:
            head = f"POST /v1 HTTP/1.1\r\nhost: x\r\ncontent-length: {len(MARKED)}\r\n\r\n"
            connection.sendall(head.encode() + MARKED)
            assert arrived.wait(30)
        assert left.wait(30)
        (record,) = r.recorder.since(0)
    assert (record.complete, record.status) == (False, None)


def test_a_request_cut_in_its_body_never_reaches_the_engine() -> None:
    with rig(pieces(ANSWER)) as r:
        with socket.create_connection(("127.0.0.1", int(r.url.rpartition(":")[2]))) as connection:
            connection.sendall(b"POST /v1 HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nabc")
        assert r.post(MARKED).status_code == 200
    assert [asked.body for asked in r.engine.asked] == [MARKED]


def test_an_engine_that_is_down_is_a_502_in_openai_shape() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        engine = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with relay(engine, marker=MARKER) as recorder, httpx.Client(trust_env=False) as client:
        response = client.post(f"{recorder.url}/v1/chat/completions", content=MARKED)
        (record,) = recorder.since(0)
    error = response.json()["error"]
    assert response.status_code == 502
    assert error["message"] == f"prefixproof recorder: the engine at {engine} does not accept connections"
    assert set(error) == {"message", "type", "param", "code"}
    assert (record.status, record.complete, record.response_body) == (None, False, b"")


def test_an_engine_that_hangs_up_without_an_answer_is_a_502() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def hang_up() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)

    thread = threading.Thread(target=hang_up)
    thread.start()
    with listener, relay(f"http://127.0.0.1:{listener.getsockname()[1]}") as recorder:
        response = httpx.post(f"{recorder.url}/v1", content=MARKED, trust_env=False)
        thread.join()
    assert response.status_code == 502
    assert "closed the connection without an answer" in response.json()["error"]["message"]


def test_many_requests_at_once_do_not_mix() -> None:
    async def echo(asked: Asked, receive: Receive, send: Send) -> None:  # noqa: ARG001
        await asyncio.sleep(0.001 * (asked.body[-2] % 7))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": asked.body, "more_body": False})

    bodies = [MARKED + b"%03d" % number for number in range(60)]

    async def all_at_once(url: str) -> list[bytes]:
        async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
            responses = await asyncio.gather(*(client.post(url, content=body) for body in bodies))
        return [response.content for response in responses]

    with rig(echo) as r:
        assert asyncio.run(all_at_once(r.url)) == bodies
        records = r.recorder.since(0)
    assert sorted(record.body for record in records) == bodies
    assert all(record.body == record.response_body and record.complete for record in records)


def test_at_the_memory_cap_it_relays_on_and_says_that_it_keeps_no_more() -> None:
    big = MARKED + b" " * 1000
    with rig(pieces(b"y" * 1000), max_bytes=3000) as r:
        for _ in range(2):
            assert r.post(big).content == b"y" * 1000
        assert r.recorder.notice is not None  # the second answer went over the cap
        assert r.post(big).content == b"y" * 1000
        assert r.post(MARKED).content == b"y" * 1000
        kept = r.recorder.since(0)
        assert [(record.body, record.response_body) for record in kept] == [(big, b"y" * 1000)]
        assert r.recorder.dropped == 3
        assert "3 marked requests were relayed but not kept" in r.recorder.notice
    assert len(r.engine.asked) == 4


@pytest.mark.parametrize("marker", [b"", b"a b", b'"quoted"', "ü".encode(), b"line\n"])
def test_a_marker_that_json_may_escape_is_refused(marker: bytes) -> None:
    with pytest.raises(UsageProblem, match="marker"):
        Recorder("http://127.0.0.1:1", marker=marker)


@pytest.mark.parametrize("engine", ["vllm:8000", "http://me:secret@vllm", "ftp://vllm"])
def test_an_engine_url_that_cannot_be_used_is_refused(engine: str) -> None:
    with pytest.raises(UsageProblem) as problem:
        Recorder(engine)
    assert "secret" not in str(problem.value)


@pytest.mark.parametrize(
    ("listen", "address"),
    [("127.0.0.1:9100", ("127.0.0.1", 9100)), ("[::1]:0", ("::1", 0)), ("0.0.0.0:80", ("0.0.0.0", 80))],  # noqa: S104
)
def test_addresses_to_listen_on(listen: str, address: tuple[str, int]) -> None:
    assert parse_listen(listen) == address


@pytest.mark.parametrize("listen", ["9100", ":9100", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000"])
def test_what_is_no_address_is_refused(listen: str) -> None:
    with pytest.raises(UsageProblem, match="HOST:PORT"):
        parse_listen(listen)


def test_an_address_in_use_is_a_usage_problem() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UsageProblem, match="cannot listen on"), relay("http://127.0.0.1:1", listen=listen):
            pass


def test_it_listens_where_it_is_told_to() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with relay("http://127.0.0.1:1", listen=f"127.0.0.1:{port}") as recorder:
        assert recorder.url == f"http://127.0.0.1:{port}"


def test_a_recorder_in_front_of_a_recorder() -> None:
    with rig(pieces(ANSWER)) as r, relay(r.url, marker=MARKER) as outer:
        assert httpx.post(f"{outer.url}/v1", content=MARKED, trust_env=False).content == ANSWER
        assert outer.since(0)[0].body == r.recorder.since(0)[0].body == MARKED


def test_closing_while_a_request_is_open_leaves_nothing_behind() -> None:
    arrived = threading.Event()

    async def hang(asked: Asked, receive: Receive, send: Send) -> None:  # noqa: ARG001
        arrived.set()
        await receive()

    outcome: list[str] = []

    def ask(url: str) -> None:
        try:
            outcome.append(str(httpx.post(url, content=MARKED, trust_env=False, timeout=30).status_code))
        except httpx.HTTPError as exc:
            outcome.append(type(exc).__name__)

    with rig(hang) as r:
        with serve(Recorder(r.recorder.engine_url, marker=MARKER), grace_s=0.05) as second:
            asker = threading.Thread(target=ask, args=(second.url,))
            asker.start()
            assert arrived.wait(30)
        asker.join()
    assert outcome != ["200"]
    assert "prefixproof-servers" not in [thread.name for thread in threading.enumerate()]
