"""Requests the engine cannot serve: one error object, the right status, the field at fault."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from engine_server import RunningEngine, running
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.embedded import EngineConfig, create_app


@pytest.fixture(scope="module")
def engine() -> Iterator[RunningEngine]:
    with running(EngineConfig(num_blocks=33, max_body_bytes=100_000)) as served:
        yield served


def check(engine: RunningEngine, answered: Any, status: int, says: str) -> None:
    assert answered.status_code == status, answered.text
    error = answered.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == status
    assert says in f"{error['param']}: {error['message']}"
    assert not engine.core.has_work
    assert engine.core.pool.usage == 0


def message(**fields: object) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": "hi"} | fields]}


TOOL = {"type": "function", "function": {"name": "t"}}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"model": None}, "model"),
        ({"model": 5}, "model must be a string, got an integer"),
        ({"messages": None}, "messages must be a list, got null"),
        ({"messages": []}, "at least one message"),
        ({"messages": ["hi"]}, "messages[0] must be an object, got a string"),
        (message(role="robot"), "messages[0].role"),
        (message(role=["user"]), "messages[0].role"),
        (message(content=None), "messages[0].content is missing"),
        (message(content=7), "messages[0].content"),
        (message(content=["hi"]), "messages[0].content[0]"),
        (message(content=[{"type": "text"}]), "messages[0].content[0].text"),
        (message(content=[{"type": "input_audio"}]), "messages[0].content[0].type"),
        (message(content=[{"type": "image_url", "image_url": {"url": "file:///x"}}]), "http(s)"),
        (message(content=[{"type": "image_url", "image_url": {"url": "data:image/png;base64,?"}}]), "base64"),
        (message(role="assistant", tool_calls={}), "messages[0].tool_calls"),
        (message(role="assistant", tool_calls=[{"function": {"name": "t"}}]), "function.arguments"),
        ({"tools": {}}, "tools must be a list"),
        ({"tools": [{"type": "web"}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].function must be an object"),
        ({"tools": [{"type": "function", "function": {"name": ""}}]}, "must not be empty"),
        ({"tool_choice": "required"}, "needs tools"),
        ({"tool_choice": "any", "tools": [TOOL]}, "tool_choice must be"),
        ({"tool_choice": 1, "tools": [TOOL]}, "tool_choice must be"),
        ({"tool_choice": {"type": "function", "function": {"name": "u"}}, "tools": [TOOL]}, "not among tools"),
        ({"max_tokens": 0}, "max_tokens must be at least 1"),
        ({"max_tokens": "5"}, "max_tokens must be an integer"),
        ({"max_tokens": True}, "max_tokens must be an integer, got a boolean"),
        ({"max_completion_tokens": 1.5}, "max_completion_tokens"),
        ({"max_tokens": 2_000}, "maximum context length is 2048 tokens"),
        (message(content="x" * 9_000), "maximum context length is 2048 tokens"),
        ({"n": 2}, "n must be 1"),
        ({"logprobs": True}, "logprobs"),
        ({"stop": 5}, "stop"),
        ({"stop": ["a", 5]}, "stop must be a string"),
        ({"temperature": "hot"}, "temperature must be a number"),
        ({"top_p": 3}, "top_p must be between"),
        ({"cache_salt": ""}, "cache_salt must not be empty"),
        ({"cache_salt": 5}, "cache_salt"),
    ],
)
def test_a_bad_field_is_named(engine: RunningEngine, body: dict[str, object], says: str, streamed: bool) -> None:
    check(engine, engine.chat(**body, stream=streamed), 400, says)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"stream": "yes"}, "stream must be a boolean"),
        ({"stream_options": {"include_usage": True}}, "stream_options can only be given"),
        ({"stream": True, "stream_options": []}, "stream_options must be an object"),
        ({"stream": True, "stream_options": {"include_usage": 1}}, "include_usage must be a boolean"),
    ],
)
def test_a_bad_stream_field_is_named(engine: RunningEngine, body: dict[str, object], says: str) -> None:
    check(engine, engine.chat(**body), 400, says)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/tokenize", "/detokenize"])
@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not valid JSON"),
        (b'{"model":', "line 1, column"),
        (b'{"a": NaN}', "not valid JSON"),
        (b'{"a": "\\ud800"}', "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[]", "must be an object, got a list"),
    ],
)
def test_what_is_no_json_object_is_refused(engine: RunningEngine, path: str, data: bytes, says: str) -> None:
    check(engine, engine.http.post(path, content=data), 400, says)


def test_unknown_models_paths_and_methods(engine: RunningEngine) -> None:
    check(engine, engine.chat(model="gpt-9"), 404, "'gpt-9' does not exist")
    check(engine, engine.http.post("/v1/responses", json={}), 404, "/v1/responses")
    check(engine, engine.http.get("/v1/chat/completions"), 405, "GET /v1/chat/completions")


def test_a_body_over_the_limit_is_refused(engine: RunningEngine) -> None:
    check(engine, engine.http.post("/v1/chat/completions", content=b" " * 100_001), 413, "larger than 100000 bytes")


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/tokenize", {}, "prompt or messages"),
        ("/tokenize", {"prompt": 5}, "prompt must be a string"),
        ("/tokenize", {"messages": 5}, "messages must be a list"),
        ("/tokenize", {"prompt": "x", "return_token_strs": 1}, "return_token_strs"),
        ("/detokenize", {"tokens": "x"}, "tokens must be a list"),
        ("/detokenize", {"tokens": [1, "x"]}, "list of integers"),
        ("/detokenize", {"tokens": [-1]}, "tokens"),
        ("/detokenize", {"tokens": [2**32 - 2]}, "not in use"),
        ("/reset_prefix_cache?reset_external=maybe", {}, "true or false"),
    ],
)
def test_other_routes_name_the_field_too(engine: RunningEngine, path: str, body: object, says: str) -> None:
    check(engine, engine.http.post(path, json=body), 400, says)


def test_unknown_fields_are_ignored(engine: RunningEngine) -> None:
    assert engine.chat(top_k=5, metadata={"a": 1}, response_format={"type": "text"}).status_code == 200
    assert engine.chat(messages=[{"role": "user", "content": "hi", "cache_control": {}}]).status_code == 200


def test_tools_nested_beyond_what_can_be_written_are_refused(engine: RunningEngine) -> None:
    deep: object = 1
    for _ in range(400):
        deep = [deep]
    tool = {"type": "function", "function": {"name": "t", "parameters": {"x": deep}}}
    check(engine, engine.chat(tools=[tool]), 400, "nested too deeply")


def test_a_core_that_breaks_fails_its_requests_and_serves_the_next(
    engine: RunningEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise RuntimeError("no such block")

    with monkeypatch.context() as patch:
        patch.setattr(engine.core, "step", broken)
        check(engine, engine.chat(), 500, "The engine failed")
        streamed = engine.chat(stream=True).text
    assert "The engine failed" in streamed
    assert streamed.endswith("data: [DONE]\n\n")
    assert "no such block" not in streamed
    assert engine.chat().status_code == 200


def test_a_client_that_leaves_while_sending_is_no_failure() -> None:
    sent: list[Any] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": [], "query_string": b""}
    asyncio.run(create_app()(scope, receive, send))
    assert sent[0]["status"] == 499


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-5, 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
keys = st.sampled_from(["type", "function", "name", "role", "content", "text", "required", "properties", "enum", "x"])
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
)
FIELDS = ["messages", "tools", "tool_choice", "stop", "stream", "stream_options", "max_tokens", "n", "cache_salt"]


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.sampled_from(FIELDS), anything, max_size=3),
    st.dictionaries(keys, anything, max_size=3),
    st.dictionaries(keys, anything, max_size=3),
)
def test_no_json_makes_the_engine_fail(
    fields: dict[str, object], message: dict[str, object], parameters: dict[str, object]
) -> None:
    app = create_app(EngineConfig(num_blocks=65))

    async def post() -> httpx.Response:
        tool = {"type": "function", "function": {"name": "t", "parameters": parameters}}
        messages = [{"role": "user", "content": "hi"} | message]
        body = {"model": "embedded", "messages": messages, "tools": [tool], "tool_choice": "required"} | fields
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
            return await client.post("/v1/chat/completions", content=json.dumps(body))

    answered = asyncio.run(post())
    assert answered.status_code in (200, 400), answered.text
    assert answered.content
    assert not app.state.core.has_work
