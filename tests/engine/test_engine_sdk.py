"""The official OpenAI SDK against the engine, over real HTTP."""

import json
from collections.abc import Iterator

import openai
import pytest
from engine_server import RunningEngine, running
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from engine.embedded import EngineConfig

TOOLS: list[ChatCompletionToolParam] = [
    {"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}
]


@pytest.fixture(scope="module")
def engine() -> Iterator[RunningEngine]:
    with running(EngineConfig(tokenizer="deepseek")) as served:
        yield served


@pytest.fixture
def client(engine: RunningEngine) -> Iterator[openai.OpenAI]:
    http = openai.DefaultHttpxClient(trust_env=False)
    with openai.OpenAI(base_url=f"{engine.url}/v1", api_key="unused", max_retries=0, http_client=http) as made:
        yield made


def test_a_tool_round_keeps_the_prefix(client: openai.OpenAI) -> None:
    messages: list[ChatCompletionMessageParam] = [
        {"role": "system", "content": "The fact KEY is hidden; the fact NONCE is q7f3."},
        {"role": "user", "content": 'call read {"path":"a.txt"}'},
    ]
    asked = client.chat.completions.create(model="embedded", messages=messages, tools=TOOLS)
    calls = asked.choices[0].message.tool_calls
    assert asked.choices[0].finish_reason == "tool_calls"
    assert calls
    assert calls[0].type == "function"
    assert json.loads(calls[0].function.arguments) == {"path": "a.txt"}
    messages.append(asked.choices[0].message.model_dump(exclude_none=True))  # type: ignore[arg-type]
    messages.append({"role": "tool", "tool_call_id": calls[0].id, "content": "text " * 200})
    messages.append({"role": "user", "content": "recall NONCE"})
    told = client.chat.completions.create(model="embedded", messages=messages, tools=TOOLS)
    assert told.choices[0].message.content == "The fact NONCE is q7f3."
    assert asked.usage
    assert told.usage
    assert told.usage.prompt_tokens_details
    assert told.usage.prompt_tokens_details.cached_tokens == (asked.usage.total_tokens - 1) // 64 * 64


def test_a_stream_accumulates_to_the_plain_answer(client: openai.OpenAI) -> None:
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "call read {}\ncall read"}]
    plain = client.chat.completions.create(model="embedded", messages=messages, tools=TOOLS)
    with client.chat.completions.stream(
        model="embedded", messages=messages, tools=TOOLS, stream_options={"include_usage": True}
    ) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].finish_reason == plain.choices[0].finish_reason
    streamed, expected = (answer.choices[0].message.tool_calls for answer in (final, plain))
    assert streamed
    assert expected
    for call, same in zip(streamed, expected, strict=True):
        assert call.type == "function"
        assert same.type == "function"
        assert (call.id, call.function.name) == (same.id, same.function.name)
        assert call.function.arguments == same.function.arguments == "{}"
    assert final.usage
    assert plain.usage
    assert final.usage.total_tokens == plain.usage.total_tokens


def test_errors_reach_the_client_as_its_own(client: openai.OpenAI) -> None:
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.chat.completions.create(model="other", messages=messages)
    with pytest.raises(openai.BadRequestError, match="n must be 1"):
        client.chat.completions.create(model="embedded", messages=messages, n=2)


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["embedded"]
