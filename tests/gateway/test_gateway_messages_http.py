"""``/v1/messages`` over HTTP against a scripted upstream."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from gateway_rig import (
    USAGE,
    JSONObject,
    Reply,
    ScriptedUpstream,
    Stream,
    chunk,
    completion,
    events_of,
    gateway,
    scripted_upstream,
    text_stream,
    usage_chunk,
)

HEADER = "x-anthropic-billing-header: cc_version=2.1.116.d8c; cc_entrypoint=claude-vscode; cch=0a1b2;"


@pytest.fixture(scope="module")
def rig() -> Iterator[tuple[ScriptedUpstream, httpx.Client]]:
    with (
        scripted_upstream() as (upstream, url),
        gateway(url) as base,
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


def ask(model: str = "alias", **members: Any) -> JSONObject:
    return {"model": model, "max_tokens": 16, "messages": [{"role": "user", "content": "hi"}]} | members


def test_a_plain_answer(upstream: ScriptedUpstream, client: httpx.Client) -> None:
    response = client.post("/v1/messages", json=ask())
    assert response.status_code == 200
    assert response.json() == {
        "id": "msg_chatcmpl-1",
        "type": "message",
        "role": "assistant",
        "model": "alias",
        "content": [{"type": "text", "text": "hello"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "stop_details": None,
        "usage": {"input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 50},
    }
    assert upstream.last.body == {
        "model": "real",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 16,
    }
    assert upstream.last.headers["authorization"] == "Bearer up-secret"


def test_a_streamed_answer_holds_the_truth_in_its_last_delta(upstream: ScriptedUpstream, client: httpx.Client) -> None:
    upstream.answer(text_stream("hel", "lo"))
    response = client.post("/v1/messages", json=ask(stream=True))
    assert response.headers["content-type"].startswith("text/event-stream")
    events = events_of(response.text)
    assert [event["type"] for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert events[0]["message"]["usage"] == {"input_tokens": 0, "output_tokens": 0}
    assert events[-2]["usage"] == {"input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 50}
    assert upstream.last.body["stream_options"] == {"include_usage": True}


def test_with_the_cache_switch_off_input_is_inclusive_and_the_start_is_a_generous_guess(
    upstream: ScriptedUpstream, client: httpx.Client
) -> None:
    assert client.post("/v1/messages", json=ask("bare")).json()["usage"]["input_tokens"] == 1000
    upstream.answer(text_stream("x", usage={"prompt_tokens": 20, "completion_tokens": 1}))
    body = ask("bare", stream=True)
    events = events_of(client.post("/v1/messages", json=body).text)
    start, final = events[0]["message"]["usage"]["input_tokens"], events[-2]["usage"]["input_tokens"]
    assert final == 20
    assert start > final
    again = events_of(client.post("/v1/messages", json=body).text)
    assert again[0]["message"]["usage"]["input_tokens"] == start


@pytest.mark.parametrize(("model", "text"), [("alias", "You are X."), ("bare", HEADER + "You are X.")])
def test_the_attribution_switch_is_per_channel(
    upstream: ScriptedUpstream, client: httpx.Client, model: str, text: str
) -> None:
    system = [{"type": "text", "text": HEADER}, {"type": "text", "text": "You are X."}]
    client.post("/v1/messages", json=ask(model, system=system))
    assert upstream.last.body["messages"][0] == {"role": "system", "content": text}


def test_alias_and_real_name_give_the_same_upstream_bytes(upstream: ScriptedUpstream, client: httpx.Client) -> None:
    client.post("/v1/messages", json=ask("alias", system="s"))
    client.post("/v1/messages", json=ask("real", system="s"))
    assert upstream.requests[0].raw == upstream.requests[1].raw


def test_number_spelling_survives_to_the_upstream(upstream: ScriptedUpstream, client: httpx.Client) -> None:
    body = json.dumps(
        ask(tools=[{"name": "t", "input_schema": {"type": "object", "default": 12345678901234567890123, "x": "1.0"}}])
    ).replace('"1.0"', "1.0")
    client.post("/v1/messages", content=body)
    assert b'"default":12345678901234567890123,"x":1.0}' in upstream.last.raw


def test_reasoning_becomes_thinking_only_for_clients_that_asked(
    upstream: ScriptedUpstream, client: httpx.Client
) -> None:
    reply = completion("hello")
    reply.body["choices"][0]["message"]["reasoning_content"] = "hm"
    upstream.answer(reply)
    asked = client.post("/v1/messages", json=ask(thinking={"type": "enabled", "budget_tokens": 1024})).json()
    assert asked["content"][0] == {"type": "thinking", "thinking": "hm", "signature": ""}
    unasked = client.post("/v1/messages", json=ask()).json()
    assert [block["type"] for block in unasked["content"]] == ["text"]


def test_several_usage_chunks_the_last_one_holds(upstream: ScriptedUpstream, client: httpx.Client) -> None:
    first = {"prompt_tokens": 1000, "completion_tokens": 1}
    riding = chunk({"content": "a"}, usage=first)
    upstream.answer(Stream([riding, chunk({}, "stop"), usage_chunk(first), usage_chunk(USAGE)]))
    events = events_of(client.post("/v1/messages", json=ask(stream=True)).text)
    assert [event["usage"] for event in events if event["type"] == "message_delta"] == [
        {"input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 50}
    ]


def test_usage_on_the_finishing_chunk_counts(upstream: ScriptedUpstream, client: httpx.Client) -> None:
    upstream.answer(Stream([chunk({"content": "a"}), chunk({}, "stop", usage=USAGE)]))
    events = events_of(client.post("/v1/messages", json=ask(stream=True)).text)
    assert events[-2]["usage"]["output_tokens"] == 50


def test_an_upstream_without_usage_gives_integers_and_claims_nothing(
    upstream: ScriptedUpstream, client: httpx.Client
) -> None:
    upstream.answer(text_stream("a", usage=None))
    events = events_of(client.post("/v1/messages", json=ask(stream=True)).text)
    assert events[-1]["type"] == "message_stop"
    assert events[-2]["usage"] == {"input_tokens": 0, "output_tokens": 0}
    upstream.answer(completion(usage=None))
    assert client.post("/v1/messages", json=ask()).json()["usage"] == {"input_tokens": 0, "output_tokens": 0}


def test_count_tokens_asks_the_upstream_with_the_translated_prompt(
    upstream: ScriptedUpstream, client: httpx.Client
) -> None:
    upstream.answer(Reply({"count": 77, "max_model_len": 1000, "tokens": [1, 2]}))
    tools = [{"name": "t", "input_schema": {"type": "object"}}]
    body = {"model": "alias", "system": HEADER + "\nS", "messages": [{"role": "user", "content": "hi"}], "tools": tools}
    response = client.post("/v1/messages/count_tokens", json=body)
    assert (response.status_code, response.json()) == (200, {"input_tokens": 77})
    assert upstream.last.path == "/tokenize"
    assert upstream.last.body == {
        "model": "real",
        "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "hi"}],
        "tools": [{"type": "function", "function": {"name": "t", "parameters": {"type": "object"}}}],
    }


@pytest.mark.parametrize("status", [404, 405, 501])
def test_count_tokens_without_an_upstream_tokenizer_is_a_clean_404(
    upstream: ScriptedUpstream, client: httpx.Client, status: int
) -> None:
    upstream.answer(Reply({"detail": "Not Found"}, status))
    response = client.post("/v1/messages/count_tokens", json={"model": "real", "messages": ask()["messages"]})
    assert response.status_code == 404
    assert response.json()["type"] == "error"
    assert response.json()["error"]["type"] == "not_found_error"


def test_towards_claude_only_the_model_changes(upstream: ScriptedUpstream, client: httpx.Client) -> None:
    answer = b'{"type":"message", "usage":{"input_tokens":3,"cache_read_input_tokens":9,"output_tokens":1}}'
    upstream.answer(Reply(None, raw=answer))
    sent = (
        '{"system": [{"type":"text","text":"' + HEADER + '"},  {"type":"text","text":"caf\\u00e9",'
        '"cache_control":{"type":"ephemeral"}}],\n "model" : "opus", "unknown": 1.0,'
        ' "messages": [{"role":"user","content":"hi"}], "max_tokens": 5}'
    )
    headers = {"anthropic-beta": "b1", "x-api-key": "mine"}
    response = client.post("/v1/messages?beta=true", content=sent, headers=headers)
    assert response.content == answer
    assert (upstream.last.path, upstream.last.query) == ("/v1/messages", "beta=true")
    assert upstream.last.raw.decode() == sent.replace('"opus"', '"claude"')
    assert upstream.last.headers["x-api-key"] == "sk-claude"
    assert upstream.last.headers["anthropic-beta"] == "b1"
    assert upstream.last.headers["anthropic-version"] == "2023-06-01"


def test_towards_claude_streams_and_counts_pass_as_they_are(upstream: ScriptedUpstream, client: httpx.Client) -> None:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 709, "output_tokens": 0}}}
    delta = {"type": "message_delta", "usage": {"input_tokens": 69, "cache_read_input_tokens": 640, "output_tokens": 4}}
    upstream.answer(Stream([start, delta, {"type": "message_stop"}], "clean"))
    text = client.post("/v1/messages", json=ask("claude", stream=True)).text
    assert [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: ")] == [
        start,
        delta,
        {"type": "message_stop"},
    ]
    upstream.answer(Reply({"input_tokens": 12}))
    assert client.post("/v1/messages/count_tokens", json=ask("claude")).json() == {"input_tokens": 12}
    assert upstream.last.path == "/v1/messages/count_tokens"


def test_towards_claude_a_stream_cut_short_ends_in_an_error(upstream: ScriptedUpstream, client: httpx.Client) -> None:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 1, "output_tokens": 0}}}
    for end in ("clean", "abort"):
        upstream.answer(Stream([start], end))
        text = client.post("/v1/messages", json=ask("claude", stream=True)).text
        assert events_of(text.split("\n\n", 1)[1])[-1]["type"] == "error"


def test_session_headers_reach_the_upstream_and_others_do_not(upstream: ScriptedUpstream, client: httpx.Client) -> None:
    headers = {"x-claude-code-session-id": "s1", "x-forwarded-for": "1.2.3.4", "x-api-key": "client-key"}
    client.post("/v1/messages", json=ask(), headers=headers)
    assert upstream.last.headers["x-claude-code-session-id"] == "s1"
    assert "x-forwarded-for" not in upstream.last.headers
    assert "x-api-key" not in upstream.last.headers


def test_the_usage_log_keeps_raw_usage_and_no_prompt(
    upstream: ScriptedUpstream, client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    raw = {**USAGE, "prompt_tokens": "1000", "odd": None}
    upstream.answer(completion("SECRET ANSWER", usage=raw))
    with caplog.at_level(logging.INFO, logger="reference_gateway.usage"):
        client.post("/v1/messages", json=ask(system="SECRET PROMPT"), headers={"x-api-key": "SECRET KEY"})
    (record,) = [json.loads(entry.getMessage()) for entry in caplog.records if entry.name == "reference_gateway.usage"]
    assert record["usage"] == raw
    assert (record["entry"], record["channel"], record["model"], record["upstream_model"], record["outcome"]) == (
        "messages",
        "vllm",
        "alias",
        "real",
        "ok",
    )
    assert "SECRET" not in caplog.text
    assert "up-secret" not in caplog.text


def test_connections_of_finished_streams_are_used_again(upstream: ScriptedUpstream, client: httpx.Client) -> None:
    upstream.answer(text_stream("a"))
    for path in ("/v1/messages", "/v1/chat/completions"):
        for _ in range(3):
            client.post(path, json=ask(stream=True))
    assert len({request.port for request in upstream.requests}) < len(upstream.requests)


def test_models_metrics_and_health(upstream: ScriptedUpstream, client: httpx.Client) -> None:
    listed = client.get("/v1/models").json()
    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == ["real", "alias", "bare", "claude", "opus", "dead", "slow"]
    anthropic = client.get("/v1/models", headers={"anthropic-version": "2023-06-01"}).json()
    assert (anthropic["has_more"], anthropic["data"][1]["type"]) == (False, "model")
    assert client.get("/v1/models/alias").json()["id"] == "alias"
    assert client.get("/v1/models/none").status_code == 404
    assert client.get("/health").json() == {"status": "ok"}
    client.post("/v1/messages", json=ask())
    text = client.get("/metrics").text
    assert 'gateway_cached_tokens_total{channel="vllm",entry="messages"}' in text
    assert "gateway_requests_in_flight 0.0" in text
    assert upstream.requests
