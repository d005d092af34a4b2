from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from stub_target import (
    COMPLETION,
    MESSAGE,
    Asked,
    Step,
    StubTarget,
    answer,
    chunk_sse,
    closed_port,
    completion_chunks,
    dribble,
    event_stream,
    http_bytes,
    message_events,
    message_sse,
    silence,
    tcp_target,
)

from conformance.errors import SendingStopped, TargetProblem
from conformance.recorder import relay
from conformance.servers import serve
from conformance.verdicts import Entry
from conformance.wire.client import LEAST_BYTES_PER_TOKEN, Via, Wire
from conformance.wire.exchange import Exchange

KEY = "a-word-that-no-pattern-takes-for-a-key"
MESSAGES, CHAT = Entry.MESSAGES, Entry.CHAT
BODY = {
    MESSAGES: {"max_tokens": 16, "messages": [{"role": "user", "content": "hello"}]},
    CHAT: {"max_tokens": 16, "messages": [{"role": "user", "content": "hello"}]},
}
PLAIN = {MESSAGES: answer(MESSAGE), CHAT: answer(COMPLETION)}
STREAM = {
    MESSAGES: event_stream(message_sse(message_events(input_tokens=10, cache_read_input_tokens=64))),
    CHAT: event_stream(chunk_sse(completion_chunks(usage=COMPLETION["usage"]))),  # type: ignore[arg-type]
}
both_entries = pytest.mark.parametrize("entry", list(Entry))
WAYS: tuple[Via, Via] = ("sdk", "raw")
both_ways = pytest.mark.parametrize("via", WAYS)
both_kinds = pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])


@contextlib.contextmanager
def wire_to(
    *script: Step, key: str | None = KEY, timeout_s: float = 20, **options: Any
) -> Iterator[tuple[Wire, list[Asked]]]:
    target = StubTarget(list(script))
    with serve(target, grace_s=0.05) as server, Wire(
        server.url, api_key=key, model="llm-prime", timeout_s=timeout_s, recorder=None, run_id="run-1", **options
    ) as wire:  # fmt: skip
        yield wire, target.asked


@both_entries
@both_ways
@both_kinds
def test_every_way_reads_the_same_answer(entry: Entry, via: Via, stream: bool) -> None:
    with wire_to(STREAM[entry] if stream else PLAIN[entry]) as (wire, asked):
        exchange = wire.send(entry, BODY[entry], stream=stream, via=via)
    assert exchange.ok, exchange.error
    assert (exchange.text, exchange.usage.prompt, exchange.usage.cached) == ("the answer", 74, 64)
    assert (exchange.usage.output, exchange.streamed, exchange.status) == (5, stream, 200)
    assert exchange.stop_reason == ("end_turn" if entry is MESSAGES else "stop")
    assert exchange.response_id == ("msg_1" if entry is MESSAGES else "chatcmpl-1")
    assert exchange.headers["content-type"].startswith("text/event-stream" if stream else "application/json")
    assert bool(exchange.events) == (stream and via == "raw")
    assert (exchange.body is None) == (via == "sdk")
    assert exchange.seconds > 0
    (request,) = asked
    assert request.path == entry.path
    assert request.json == exchange.request
    assert request.json["model"] == "llm-prime"
    assert request.json.get("stream", False) == stream


@both_entries
@both_ways
def test_synthetic_traffic_is_marked_and_carries_the_key(entry: Entry, via: Via) -> None:
    with wire_to(PLAIN[entry]) as (wire, asked):
        wire.send(entry, BODY[entry], via=via)
        wire.send(entry, BODY[entry], via=via, headers={"User-Agent": "claude-cli/2.1.116", "X-Session-Id": "s"})
    for request in asked:
        assert request.headers["x-prefixproof-run"] == "run-1"
        assert "prefixproof/" in request.headers["user-agent"]
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert request.headers["x-api-key"] == KEY
    assert asked[1].headers["user-agent"].startswith("claude-cli/2.1.116 prefixproof/")
    assert asked[1].headers["x-session-id"] == "s"
    assert ("anthropic-version" in asked[0].headers) == (entry is MESSAGES)


@both_entries
@both_ways
def test_without_a_key_no_credentials_are_sent(entry: Entry, via: Via, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "sk-of-the-environment")
    with wire_to(PLAIN[entry], key=None) as (wire, asked):
        wire.send(entry, BODY[entry], via=via)
    assert "authorization" not in asked[0].headers
    assert "x-api-key" not in asked[0].headers


@both_entries
@both_kinds
def test_the_environments_proxy_is_not_used_on_loopback(
    entry: Entry, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port()}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with wire_to(STREAM[entry] if stream else PLAIN[entry]) as (wire, _):
        assert wire.send(entry, BODY[entry], stream=stream).ok
        assert wire.send(entry, BODY[entry], stream=stream, via="raw").ok


@both_entries
def test_the_sdk_sends_the_same_members_and_order_inside_them_as_given(entry: Entry) -> None:
    schema = {"type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "number"}}, "required": ["z"]}
    tool: dict[str, Any] = {"name": "T", "description": "d", "input_schema": schema}
    if entry is CHAT:
        tool = {"type": "function", "function": {"name": "T", "description": "d", "parameters": schema}}
    body = {
        **BODY[entry],
        "tools": [tool],
        "context_management": {"edits": []},
        "messages": [{"role": "user", "content": [{"text": "z first", "type": "text", "unknown": 1.0}]}],
    }
    with wire_to(PLAIN[entry]) as (wire, asked):
        wire.send(entry, body)
    sent = json.loads(asked[0].body)
    assert sent == {**body, "model": "llm-prime"}
    for member in ("tools", "messages"):
        assert json.dumps(sent[member]) == json.dumps(body[member])


def test_raw_bytes_go_out_exactly_as_given() -> None:
    body = b'{ "model":"other",  "messages": [], "n": 1.0, "big": 123456789012345678901234567890 }'
    with wire_to(PLAIN[CHAT], answer({"error": {"message": "bad JSON"}}, 400)) as (wire, asked):
        exchange = wire.send(CHAT, body, via="raw")
        refused = wire.send(CHAT, b"\xff{", via="raw")
        with pytest.raises(ValueError, match='via="raw"'):
            wire.send(CHAT, body)
    assert [request.body for request in asked] == [body, b"\xff{"] == [exchange.body, refused.body]
    assert exchange.request["big"] == 123456789012345678901234567890
    assert (refused.request, refused.status, refused.error) == ({}, 400, "HTTP 400: bad JSON")


def test_a_raw_stream_keeps_every_event_and_takes_the_last_usage() -> None:
    events = message_events(input_tokens=10, cache_read_input_tokens=64)
    events[0]["message"]["usage"] = {"input_tokens": 74, "output_tokens": 1}
    text = message_sse(events[:4]) + b": keep-alive\n\nevent: ping\ndata: {}\n\n" + message_sse(events[4:])
    with wire_to(event_stream(text)) as (wire, _):
        exchange = wire.send(MESSAGES, BODY[MESSAGES], stream=True, via="raw")
    assert [event.name for event in exchange.events] == [
        *(event["type"] for event in events[:4]),
        "ping",
        *(event["type"] for event in events[4:]),
    ]
    assert exchange.response_body == text
    assert exchange.start_usage is not None
    assert (exchange.start_usage.prompt, exchange.usage.prompt, exchange.usage.cached) == (74, 74, 64)


@both_entries
@both_ways
@both_kinds
def test_an_http_error_is_an_exchange_with_the_targets_words_and_no_key(entry: Entry, via: Via, stream: bool) -> None:
    words = f"Authentication Error,\n key {KEY} is unknown. " + "x" * 500
    refusal = answer({"error": {"message": words, "type": "auth_error", "code": "401"}}, 401, headers={"x-a": "b"})
    with wire_to(refusal) as (wire, _):
        exchange = wire.send(entry, BODY[entry], via=via, stream=stream)
    assert (exchange.status, exchange.ok, exchange.headers["x-a"]) == (401, False, "b")
    assert exchange.error is not None
    assert exchange.error.startswith("HTTP 401: Authentication Error, key [redacted] is unknown. xxx")
    assert len(exchange.error) < 330


@both_entries
@both_ways
def test_a_redirect_is_not_followed(entry: Entry, via: Via) -> None:
    with wire_to(answer(b"", 307, headers={"location": "/elsewhere"})) as (wire, asked):
        exchange = wire.send(entry, BODY[entry], via=via)
    assert (exchange.status, exchange.error, len(asked)) == (307, "HTTP 307 with an empty body", 1)


@both_entries
@both_kinds
def test_an_sdk_that_fails_at_the_answer_is_recorded(entry: Entry, stream: bool) -> None:
    page = answer(b"<html>welcome</html>", kind="text/html")
    with wire_to(page) as (wire, _):
        exchange = wire.send(entry, BODY[entry], stream=stream)
    assert exchange.status == 200
    assert exchange.error is not None
    if entry is CHAT and stream:
        assert exchange.error == "the stream ended without a finish_reason"  # what this SDK makes of a web page
    else:
        assert exchange.error.startswith("sdk: ")
    assert "\n" not in exchange.error


def test_a_message_start_without_usage_makes_the_sdk_crash_and_the_raw_client_not() -> None:
    events = message_events(input_tokens=10)
    del events[0]["message"]["usage"]
    with wire_to(event_stream(message_sse(events))) as (wire, _):
        by_sdk = wire.send(MESSAGES, BODY[MESSAGES], stream=True)
        by_raw = wire.send(MESSAGES, BODY[MESSAGES], stream=True, via="raw")
    assert by_sdk.error is not None
    assert by_sdk.error.startswith("sdk: AttributeError")
    assert (by_raw.error, by_raw.text, by_raw.start_usage, by_raw.usage.prompt) == (None, "the answer", None, 10)


@both_ways
def test_an_error_event_is_not_an_sdk_failure(via: Via) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "upstream is gone"}}
    with wire_to(
        event_stream(message_sse([*message_events()[:3], error])),
        event_stream(chunk_sse([*completion_chunks()[:1], {"error": {"message": "upstream is gone", "code": 500}}])),
    ) as (wire, _):
        for entry in Entry:
            exchange = wire.send(entry, BODY[entry], stream=True, via=via)
            assert (exchange.status, exchange.error) == (200, "error event: upstream is gone")


@both_entries
@both_ways
def test_a_stream_that_breaks_off_or_just_ends_is_no_whole_answer(entry: Entry, via: Via) -> None:
    start = message_sse(message_events()[:3]) if entry is MESSAGES else chunk_sse(completion_chunks()[:2], done=False)
    missing = {MESSAGES: "the stream ended without message_stop", CHAT: "the stream ended without a finish_reason"}
    with wire_to(event_stream(start, abort=True), event_stream(start)) as (wire, _):
        cut = wire.send(entry, BODY[entry], stream=True, via=via)
        ended = wire.send(entry, BODY[entry], stream=True, via=via)
    assert cut.error is not None
    assert cut.error.startswith("the answer broke off (reset: ")
    assert ended.error == missing[entry]
    if via == "raw":
        assert cut.text.startswith("the ")
        assert cut.events == ended.events != ()


def test_odd_values_in_usage_stay_in_raw_on_every_way() -> None:
    usage = {"input_tokens": "10", "output_tokens": 5.0, "cache_read_input_tokens": None, "extra": [1]}
    with wire_to(answer({**MESSAGE, "usage": usage})) as (wire, _):
        for via in WAYS:
            exchange = wire.send(MESSAGES, BODY[MESSAGES], via=via)
            assert exchange.usage.raw == usage
            assert (exchange.usage.prompt, exchange.usage.output) == (None, None)


@both_ways
def test_a_target_that_cannot_be_reached_is_a_target_problem(via: Via) -> None:
    def problem(url: str) -> str:
        with Wire(url, api_key=KEY, model="m", timeout_s=0.3, recorder=None, run_id="r") as wire:
            with pytest.raises(TargetProblem) as raised:
                wire.send(CHAT, BODY[CHAT], via=via)
            assert wire.sent_requests == 1
        assert KEY not in str(raised.value)
        return str(raised.value)

    url = f"http://127.0.0.1:{closed_port()}"
    assert problem(url) == (
        f"{url} does not answer (connection refused): is the gateway running, and is the port right?"
    )
    assert "does not resolve" in problem("http://gateway.invalid:3000")
    with serve(StubTarget([silence()]), grace_s=0.05) as server:
        assert "sent no answer within 0.3 s" in problem(server.url)
        assert "no TLS connection" in problem(server.url.replace("http:", "https:"))
    with tcp_target([b""]) as closing:
        assert "closed the connection without an answer" in problem(closing)


@both_ways
def test_after_a_first_answer_timeouts_and_resets_are_exchanges(via: Via) -> None:
    with wire_to(PLAIN[CHAT], silence(), timeout_s=0.3) as (wire, _):
        assert wire.send(CHAT, BODY[CHAT], via=via).ok
        late = wire.send(CHAT, BODY[CHAT], via=via)
    assert (late.status, late.error, late.ok) == (0, "no answer within 0.3 s", False)
    with tcp_target([http_bytes(COMPLETION), b""]) as url, Wire(
        url, api_key=None, model="m", timeout_s=5, recorder=None, run_id="r"
    ) as wire:  # fmt: skip
        assert wire.send(CHAT, BODY[CHAT], via=via).ok
        reset = wire.send(CHAT, BODY[CHAT], via=via)
    assert reset.status == 0
    assert reset.error is not None
    assert reset.error.startswith("the connection broke before an answer")


def test_a_target_that_stops_listening_is_a_target_problem_that_says_since_when() -> None:
    with serve(StubTarget([PLAIN[CHAT]])) as server:
        wire = Wire(server.url, api_key=None, model="m", timeout_s=5, recorder=None, run_id="r")
        wire.send(CHAT, BODY[CHAT], via="raw")
    with wire, pytest.raises(TargetProblem, match=r"answered 1 request and then refused to connect"):
        wire.send(CHAT, BODY[CHAT], via="raw")


@both_ways
def test_a_stream_that_pings_for_ever_ends_with_the_deadline(via: Via) -> None:
    ping = {MESSAGES: b"event: ping\ndata: {}\n\n", CHAT: b": ping\n\n"}
    for entry in Entry:
        with wire_to(dribble(ping[entry], 0.02, 10_000), timeout_s=0.4) as (wire, _):
            exchange = wire.send(entry, BODY[entry], stream=True, via=via)
        assert exchange.error == "the answer broke off (timeout: the answer took over 2 s)"


@both_ways
def test_three_429_in_a_row_stop_the_run(via: Via) -> None:
    busy = answer({"error": {"message": "slow down"}}, 429, headers={"retry-after": "30"})
    with wire_to(busy) as (wire, asked):
        for _ in range(3):
            assert wire.send(CHAT, BODY[CHAT], via=via).status == 429
        for _ in range(2):
            with pytest.raises(SendingStopped, match=r"answered 429 three times in a row \(Retry-After 30 s\)"):
                wire.send(MESSAGES, BODY[MESSAGES], via=via)
    assert len(asked) == wire.sent_requests == 3


def test_what_was_sent_is_counted_and_observed() -> None:
    observed: list[Exchange] = []
    silent = answer({**MESSAGE, "usage": {}})
    body = {"max_tokens": 16, "messages": [{"role": "user", "content": "hello " * 100}]}
    with wire_to(PLAIN[MESSAGES], silent, silent, on_exchange=observed.append) as (wire, asked):
        exchanges = [wire.send(MESSAGES, body, via=via) for via in (*WAYS, "sdk")]
    assert observed == exchanges
    assert wire.sent_requests == 3
    assert wire.prompt_tokens_sent == 74 + sum(len(request.body) // 4 for request in asked[1:])


def test_what_a_target_misreports_does_not_eat_the_budget() -> None:
    with wire_to(*(answer({**MESSAGE, "usage": {"input_tokens": n}}) for n in (10**12, -5))) as (wire, asked):
        wire.send(MESSAGES, BODY[MESSAGES])
        assert wire.prompt_tokens_sent == len(asked[0].body) // LEAST_BYTES_PER_TOKEN
        wire.send(MESSAGES, BODY[MESSAGES])
    assert wire.prompt_tokens_sent == len(asked[0].body) // LEAST_BYTES_PER_TOKEN


@both_ways
@both_kinds
def test_the_recorders_records_of_a_request_are_in_its_exchange(via: Via, stream: bool) -> None:
    engine = StubTarget([STREAM[CHAT] if stream else PLAIN[CHAT]])
    with serve(engine) as server, relay(server.url, marker=b"salt-77") as recorder:
        assert recorder.url is not None
        with Wire(recorder.url, api_key=KEY, model="m", timeout_s=20, recorder=recorder, run_id="r") as wire:
            first = wire.send(CHAT, {**BODY[CHAT], "user": "salt-77/1"}, via=via, stream=stream)
            other = wire.send(CHAT, BODY[CHAT], via=via, stream=stream)
            second = wire.send(CHAT, {**BODY[CHAT], "user": "salt-77/2"}, via=via, stream=stream)
    assert [record.json["user"] for record in first.upstream + second.upstream] == ["salt-77/1", "salt-77/2"]
    assert other.upstream == ()
    assert first.upstream[0].complete
    assert KEY not in str(first.upstream[0].headers)


def test_a_claude_model_past_its_date_is_only_a_name(recwarn: pytest.WarningsRecorder) -> None:
    with serve(StubTarget([PLAIN[MESSAGES]])) as server:
        for model in ("claude-3-opus-20240229", "claude-opus-4-6"):
            with Wire(server.url, api_key=None, model=model, timeout_s=9, recorder=None, run_id="r") as wire:
                body = {**BODY[MESSAGES], "thinking": {"type": "enabled", "budget_tokens": 1024}}
                assert wire.send(MESSAGES, body).ok
    assert len(recwarn) == 0
