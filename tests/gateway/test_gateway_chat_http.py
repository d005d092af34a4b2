"""``/v1/chat/completions`` over HTTP against a scripted upstream."""

import json
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
    data_of,
    gateway,
    scripted_upstream,
    text_stream,
    usage_chunk,
)


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
    return {"model": model, "messages": [{"role": "user", "content": "hi"}]} | members


def streamed(client: httpx.Client, **members: Any) -> list[str]:
    response = client.post("/v1/chat/completions", json=ask(stream=True, **members))
    assert response.status_code == 200
    return data_of(response.text)


def test_bytes_go_through_both_ways_but_for_the_model(upstream: ScriptedUpstream, client: httpx.Client) -> None:
    answer = b'{ "id":"x",  "choices":[{"message":{"content":"caf\\u00e9"},"logprob":-0.10}] , "usage":null}'
    upstream.answer(Reply(None, raw=answer))
    sent = '{ "messages":[{"role":"user","content":"caf\\u00e9"}],"x":1.0,\n "model": "alias", "cache_salt":"s"}'
    response = client.post("/v1/chat/completions", content=sent, headers={"x-session-id": "s1"})
    assert response.content == answer
    assert upstream.last.raw.decode() == sent.replace('"alias"', '"real"')
    assert upstream.last.headers["x-session-id"] == "s1"
    client.post("/v1/chat/completions", content=sent.replace("alias", "real"))
    assert upstream.requests[1].raw == upstream.requests[0].raw


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, '"stream_options":{"include_usage":true}'),
        ({"stream_options": None}, '"stream_options": {"include_usage":true}'),
        ({"stream_options": {"include_usage": False}}, '"stream_options": {"include_usage":true}'),
        (
            {"stream_options": {"include_usage": False, "other": 1}},
            '"stream_options": {"include_usage":true,"other":1}',
        ),
        ({"stream_options": {"include_usage": True}}, '"stream_options": {"include_usage": true}'),
    ],
)
def test_the_upstream_is_asked_for_usage(
    upstream: ScriptedUpstream, client: httpx.Client, options: JSONObject, wanted: str
) -> None:
    upstream.answer(text_stream("a"))
    sent = json.dumps(ask("real", stream=True, **options))
    client.post("/v1/chat/completions", content=sent)
    assert wanted in upstream.last.raw.decode()
    assert upstream.last.body["stream_options"]["include_usage"] is True
    assert upstream.last.raw.decode().startswith(sent[:60])


def test_a_client_that_asked_gets_every_chunk_byte_for_byte(upstream: ScriptedUpstream, client: httpx.Client) -> None:
    chunks = [json.dumps(chunk({"content": "é"}, usage=None)), json.dumps(chunk({}, "stop")), json.dumps(usage_chunk())]
    upstream.answer(Stream(list(chunks)))
    assert streamed(client, stream_options={"include_usage": True}) == [*chunks, "[DONE]"]


def test_a_client_that_did_not_ask_sees_no_usage(upstream: ScriptedUpstream, client: httpx.Client) -> None:
    riding = chunk({"content": "b"}, usage=USAGE)
    plain = json.dumps(chunk({"content": "c"}))
    upstream.answer(Stream([chunk({"content": "a"}, usage=None), riding, plain, chunk({}, "stop"), usage_chunk()]))
    data = streamed(client)
    assert data[-1] == "[DONE]"
    assert data[2] == plain
    chunks = [json.loads(item) for item in data[:-1]]
    assert [piece["choices"][0]["delta"].get("content") for piece in chunks] == ["a", "b", "c", None]
    assert not any("usage" in piece for piece in chunks)


def test_an_upstream_without_usage_ends_properly(upstream: ScriptedUpstream, client: httpx.Client) -> None:
    upstream.answer(text_stream("a", usage=None))
    assert streamed(client, stream_options={"include_usage": True})[-1] == "[DONE]"


def test_usage_that_breaks_the_types_is_repaired(upstream: ScriptedUpstream, client: httpx.Client) -> None:
    bad: JSONObject = {"prompt_tokens": "1000", "completion_tokens": 50.0, "total_tokens": None}
    bad["prompt_tokens_details"] = {"cached_tokens": 2000, "kept": 1}
    good: JSONObject = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}
    good["prompt_tokens_details"] = {"cached_tokens": 1000, "kept": 1}
    upstream.answer(completion(usage=bad))
    assert client.post("/v1/chat/completions", json=ask()).json()["usage"] == good
    upstream.answer(text_stream("a", usage=bad))
    assert json.loads(streamed(client, stream_options={"include_usage": True})[-2])["usage"] == good


def test_a_messages_channel_has_no_chat(upstream: ScriptedUpstream, client: httpx.Client) -> None:
    response = client.post("/v1/chat/completions", json=ask("claude"))
    assert response.status_code == 404
    assert "use /v1/messages" in response.json()["error"]["message"]
    assert not upstream.requests
