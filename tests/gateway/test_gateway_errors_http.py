"""What goes wrong, over real HTTP: the right status, in the client's dialect, never a hang or a traceback."""

import json
import logging
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from gateway_rig import (
    Cut,
    Hang,
    JSONObject,
    Reply,
    ScriptedUpstream,
    Stream,
    chunk,
    completion,
    data_of,
    events_of,
    gateway,
    scripted_upstream,
    text_stream,
)

MESSAGES, CHAT = "/v1/messages", "/v1/chat/completions"
BOTH = pytest.mark.parametrize("path", [MESSAGES, CHAT])
STREAMED = pytest.mark.parametrize("stream", [False, True])
LIMIT = 200_000


@pytest.fixture(scope="module")
def rig() -> Iterator[tuple[ScriptedUpstream, httpx.Client]]:
    with (
        scripted_upstream() as (upstream, url),
        gateway(url, max_body_bytes=LIMIT) as base,
        httpx.Client(base_url=base, trust_env=False, timeout=20) as client,
    ):
        yield upstream, client


@pytest.fixture
def upstream(rig: tuple[ScriptedUpstream, httpx.Client]) -> ScriptedUpstream:
    rig[0].answer(completion())
    return rig[0]


@pytest.fixture
def client(rig: tuple[ScriptedUpstream, httpx.Client]) -> httpx.Client:
    return rig[1]


def ask(model: str = "real", **members: Any) -> JSONObject:
    return {"model": model, "max_tokens": 5, "messages": [{"role": "user", "content": "PROMPT"}]} | members


def error_in(response: httpx.Response) -> tuple[str, str]:
    """The error's type and message, having checked the dialect of the path."""
    body = response.json()
    if response.request.url.path.startswith(MESSAGES):
        assert set(body) == {"type", "error"}
        assert body["type"] == "error"
        assert set(body["error"]) == {"type", "message"}
    else:
        assert set(body) == {"error"}
        assert set(body["error"]) == {"message", "type", "param", "code"}
    assert "Traceback" not in response.text
    return body["error"]["type"], body["error"]["message"]


BAD_BODIES = [
    (b"", "JSON object"),
    (b"{", "JSON object"),
    (b'{"model":"real","messages":[', "JSON object"),
    (b"\xff\xfe", "not UTF-8"),
    (b"[]", "not a JSON object"),
    (b'"text"', "not a JSON object"),
    (b'{"a":' * 3000, "nested"),
    (b'{"model":"real","messages":NaN}', "NaN"),
    (b"{}", "model: is required"),
    (b'{"model":3,"messages":[]}', "model: is required and must be a string"),
    (b'{"model":"real"}', "messages: is required"),
    (b'{"model":"real","messages":[],"max_tokens":1}', "messages: "),
    (b'{"model":"real","messages":"x","max_tokens":1}', "messages: "),
    (b'{"model":"real","messages":[{"role":"user","content":"x"}],"max_tokens":1,"stream":"yes"}', "stream: must be"),
]


@BOTH
@pytest.mark.parametrize(("body", "complaint"), BAD_BODIES)
def test_bad_bodies_are_400(
    upstream: ScriptedUpstream, client: httpx.Client, path: str, body: bytes, complaint: str
) -> None:
    response = client.post(path, content=body)
    assert response.status_code == 400
    kind, message = error_in(response)
    assert kind == "invalid_request_error"
    assert complaint in message
    assert not upstream.requests


def test_deep_tool_input_is_400_not_a_crash(upstream: ScriptedUpstream, client: httpx.Client) -> None:
    deep = '{"a":' * 700 + "1" + "}" * 700
    block = '{"type":"tool_use","id":"t","name":"n","input":' + deep + "}"
    body = '{"model":"real","max_tokens":5,"messages":[{"role":"assistant","content":[' + block + "]}]}"
    response = client.post(MESSAGES, content=body)
    assert response.status_code == 400
    assert "nested too deeply" in error_in(response)[1]
    assert not upstream.requests


@BOTH
def test_an_unknown_model_is_404(client: httpx.Client, path: str) -> None:
    response = client.post(path, json=ask("nobody's"))
    assert response.status_code == 404
    kind, message = error_in(response)
    assert kind == "not_found_error"
    assert "/v1/models" in message
    assert "nobody" not in message


@pytest.mark.parametrize("path", [MESSAGES, CHAT, "/v1/messages/count_tokens"])
def test_a_body_over_the_limit_is_413(upstream: ScriptedUpstream, client: httpx.Client, path: str) -> None:
    body = json.dumps(ask(system="x" * LIMIT)).encode()
    response = client.post(path, content=body)
    assert response.status_code == 413
    assert str(LIMIT) in error_in(response)[1]

    def in_pieces() -> Iterator[bytes]:
        for start in range(0, len(body), 10_000):
            yield body[start : start + 10_000]

    assert client.post(path, content=in_pieces()).status_code == 413
    assert not upstream.requests
    within = json.dumps(ask()).encode()
    assert client.post(MESSAGES, content=within + b" " * (LIMIT - len(within))).status_code == 200


def test_a_body_declared_far_over_the_limit_is_refused_unread(client: httpx.Client) -> None:
    with socket.create_connection((client.base_url.host, client.base_url.port or 0), timeout=20) as connection:
        connection.sendall(b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999\r\n\r\n{")
        assert b"413" in connection.recv(4096)


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", MESSAGES, 405), ("GET", CHAT, 405), ("POST", "/v1/x", 404)]
)
def test_wrong_paths_and_methods_speak_the_dialect(client: httpx.Client, method: str, path: str, status: int) -> None:
    response = client.request(method, path)
    assert response.status_code == status
    error_in(response)


@BOTH
@STREAMED
def test_an_unreachable_upstream_is_502(client: httpx.Client, path: str, stream: bool) -> None:
    response = client.post(path, json=ask("dead", stream=stream))
    assert response.status_code == 502
    kind, message = error_in(response)
    assert kind in ("api_error", "server_error")
    assert "cannot be reached" in message


@BOTH
@STREAMED
def test_a_silent_upstream_is_504(upstream: ScriptedUpstream, client: httpx.Client, path: str, stream: bool) -> None:
    upstream.answer(Hang())
    response = client.post(path, json=ask("slow", stream=stream))
    assert response.status_code == 504
    assert "silent for 0.2 s" in error_in(response)[1]
    assert upstream.left.wait(10)


UPSTREAM_ERRORS = [
    (
        400,
        {"error": {"message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded"}},
        "invalid_request_error",
        "too long",
    ),
    (404, {"object": "error", "message": "no model", "code": 404}, "not_found_error", "no model"),
    (422, {"detail": "bad field"}, "invalid_request_error", "bad field"),
    (429, {"error": {"message": "slow down"}}, "rate_limit_error", "slow down"),
    (500, {"error": "boom"}, None, "boom"),
    (503, None, None, "answered 503"),
    (529, {"error": {"message": "overloaded"}}, None, "overloaded"),
]


@BOTH
@STREAMED
@pytest.mark.parametrize(("status", "body", "kind", "said"), UPSTREAM_ERRORS)
def test_upstream_errors_keep_their_status_and_retry_after(
    upstream: ScriptedUpstream,
    client: httpx.Client,
    path: str,
    stream: bool,
    status: int,
    body: Any,
    kind: str | None,
    said: str,
) -> None:
    upstream.answer(Reply(body, status, {"retry-after": "17"}, raw=b"<html>" if body is None else None))
    response = client.post(path, json=ask(stream=stream))
    assert response.status_code == status
    assert response.headers["retry-after"] == "17"
    found, message = error_in(response)
    assert said in message
    assert kind is None or found == kind
    assert len(upstream.requests) == 1


def test_a_chat_client_sees_the_upstreams_own_type_param_and_code(
    upstream: ScriptedUpstream, client: httpx.Client
) -> None:
    error = {"message": "m", "type": "BadRequestError", "param": "messages", "code": 400}
    upstream.answer(Reply({"error": error}, 400))
    assert client.post(CHAT, json=ask()).json() == {"error": error}


@BOTH
def test_the_channels_key_is_never_quoted(
    upstream: ScriptedUpstream, client: httpx.Client, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        for status in (401, 403, 400):
            upstream.answer(Reply({"error": {"message": "Incorrect API key provided: up-secret"}}, status))
            response = client.post(path, json=ask())
            assert response.status_code == status
            assert "up-secret" not in response.text
    own = [record for record in caplog.records if record.name.startswith("reference_gateway")]
    assert "up-secret" not in " ".join(record.getMessage() for record in own)
    assert "PROMPT" not in " ".join(record.getMessage() for record in own)


@BOTH
@STREAMED
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"error": {"message": "overloaded", "code": 429}}, 429),
        ({"error": "boom"}, 502),
        ({"unexpected": 1}, 502),
        ([], 502),
    ],
)
def test_a_200_never_carries_an_error(
    upstream: ScriptedUpstream, client: httpx.Client, path: str, stream: bool, body: Any, status: int
) -> None:
    upstream.answer(Reply(body))
    response = client.post(path, json=ask(stream=stream))
    assert response.status_code == status
    error_in(response)


@BOTH
def test_a_redirecting_or_garbled_upstream_is_502(upstream: ScriptedUpstream, client: httpx.Client, path: str) -> None:
    upstream.answer(Reply({}, 307, {"location": "/elsewhere"}))
    assert "check the channel's url" in error_in(client.post(path, json=ask()))[1]
    upstream.answer(Reply(None, raw=b"<html>"))
    response = client.post(path, json=ask())
    assert response.status_code == 502
    assert "not JSON" in error_in(response)[1]


@BOTH
def test_a_plain_answer_cut_short_is_502(upstream: ScriptedUpstream, client: httpx.Client, path: str) -> None:
    upstream.answer(Cut())
    response = client.post(path, json=ask())
    assert response.status_code == 502
    assert "broke off" in error_in(response)[1]


@BOTH
@pytest.mark.parametrize(
    ("stream", "status"),
    [
        (Stream([{"error": {"message": "no room", "code": 429}}]), 429),
        (Stream([{"error": {"message": "no room"}}]), 502),
        (Stream([], "clean"), 502),
        (Stream([], "abort"), 502),
    ],
)
def test_a_stream_that_fails_at_once_has_an_error_status(
    upstream: ScriptedUpstream, client: httpx.Client, path: str, stream: Stream, status: int
) -> None:
    upstream.answer(stream)
    response = client.post(path, json=ask(stream=True))
    assert response.status_code == status
    error_in(response)


BROKEN = {
    "abort": text_stream("a", "b", finish=None, usage=None, end="abort"),
    "abort after the finish": text_stream("a", usage=None, end="abort"),
    "clean end": text_stream("a", "b", finish=None, usage=None, end="clean"),
    "done without a finish": text_stream("a", "b", finish=None),
    "error inside": Stream([chunk({"content": "a"}), {"error": {"message": "boom"}}]),
    "not JSON": Stream([chunk({"content": "a"}), "{oops"]),
    "not a chunk": Stream([chunk({"content": "a"}), "[1]"]),
}


@pytest.mark.parametrize("stream", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_stream_ends_in_an_error_never_in_end_turn(
    upstream: ScriptedUpstream, client: httpx.Client, stream: Stream
) -> None:
    upstream.answer(stream)
    events = events_of(client.post(MESSAGES, json=ask(stream=True)).text)
    assert events[-1]["type"] == "error"
    assert events[-1]["error"]["type"] == "api_error"
    assert not {"message_delta", "message_stop"} & {event["type"] for event in events}
    data = data_of(client.post(CHAT, json=ask(stream=True)).text)
    assert "error" in json.loads(data[-1])
    assert "[DONE]" not in data


def test_a_stream_that_falls_silent_ends_in_an_error(upstream: ScriptedUpstream, client: httpx.Client) -> None:
    upstream.answer(text_stream("a", finish=None, usage=None, end="hang"))
    events = events_of(client.post(MESSAGES, json=ask("slow", stream=True)).text)
    assert events[-1]["error"]["type"] == "timeout_error"
    assert upstream.left.wait(10)


@BOTH
def test_a_finished_stream_needs_no_done(upstream: ScriptedUpstream, client: httpx.Client, path: str) -> None:
    upstream.answer(text_stream("a", end="clean"))
    text = client.post(path, json=ask(stream=True)).text
    assert "error" not in text
    assert text.endswith("[DONE]\n\n" if path == CHAT else '"message_stop"}\n\n')


@BOTH
def test_a_client_that_leaves_mid_stream_cancels_the_upstream(
    upstream: ScriptedUpstream, client: httpx.Client, path: str
) -> None:
    upstream.answer(text_stream("a", finish=None, usage=None, end="hang"))
    with client.stream("POST", path, json=ask(stream=True)) as response:
        pieces = response.iter_raw()  # kept: a collected iterator closes the connection
        next(pieces)
        assert not upstream.left.is_set()
    assert upstream.left.wait(10)
    upstream.answer(completion())
    assert client.post(path, json=ask()).status_code == 200


@BOTH
@STREAMED
def test_a_client_that_leaves_before_the_answer_cancels_the_upstream(
    upstream: ScriptedUpstream, client: httpx.Client, path: str, stream: bool
) -> None:
    upstream.answer(Hang())
    body = json.dumps(ask(stream=stream)).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with socket.create_connection((client.base_url.host, client.base_url.port or 0), timeout=20) as connection:
        connection.sendall(head + body)
        assert upstream.arrived.wait(10)
    assert upstream.left.wait(10)
    metrics = client.get("/metrics").text
    assert 'outcome="client gone"' in metrics


def test_a_client_that_leaves_mid_body_harms_nobody(upstream: ScriptedUpstream, client: httpx.Client) -> None:
    with socket.create_connection((client.base_url.host, client.base_url.port or 0), timeout=20) as connection:
        connection.sendall(b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    assert client.post(MESSAGES, json=ask()).status_code == 200
    assert len(upstream.requests) == 1


def test_one_hung_call_does_not_hold_up_others(upstream: ScriptedUpstream, client: httpx.Client) -> None:
    upstream.script = lambda got: Hang() if b"hang" in got.raw else completion()
    body = json.dumps(ask(system="hang")).encode()
    head = f"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with socket.create_connection((client.base_url.host, client.base_url.port or 0), timeout=20) as connection:
        connection.sendall(head + body)
        assert upstream.arrived.wait(10)
        assert [client.post(MESSAGES, json=ask()).status_code for _ in range(5)] == [200] * 5
    assert upstream.left.wait(10)
