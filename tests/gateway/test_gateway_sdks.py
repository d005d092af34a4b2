"""The official SDKs through the gateway: plain, streamed, with tools, and when things break."""

from collections.abc import Iterator

import anthropic
import openai
import pytest
from anthropic.types import MessageParam, ThinkingConfigParam, ToolParam
from gateway_rig import (
    Reply,
    ScriptedUpstream,
    Stream,
    call,
    chunk,
    completion,
    gateway,
    scripted_upstream,
    text_stream,
    usage_chunk,
)
from openai.types.chat import ChatCompletionMessageParam

HI: list[MessageParam] = [{"role": "user", "content": "hi"}]
CHAT_HI: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]
TOOL: ToolParam = {"name": "Bash", "description": "d", "input_schema": {"type": "object"}}


@pytest.fixture(scope="module")
def rig() -> Iterator[tuple[ScriptedUpstream, anthropic.Anthropic, openai.OpenAI]]:
    with (
        scripted_upstream() as (upstream, url),
        gateway(url, client_keys=("k",)) as base,
        anthropic.Anthropic(base_url=base, api_key="k", max_retries=0) as claude,
        openai.OpenAI(base_url=f"{base}/v1", api_key="k", max_retries=0) as gpt,
    ):
        yield upstream, claude, gpt


@pytest.fixture
def upstream(rig: tuple[ScriptedUpstream, anthropic.Anthropic, openai.OpenAI]) -> ScriptedUpstream:
    rig[0].answer(completion())
    return rig[0]


@pytest.fixture
def claude(rig: tuple[ScriptedUpstream, anthropic.Anthropic, openai.OpenAI]) -> anthropic.Anthropic:
    return rig[1]


@pytest.fixture
def gpt(rig: tuple[ScriptedUpstream, anthropic.Anthropic, openai.OpenAI]) -> openai.OpenAI:
    return rig[2]


def test_anthropic_streamed_accumulates_to_the_plain_answer(
    upstream: ScriptedUpstream, claude: anthropic.Anthropic
) -> None:
    calls = [call("a", "Bash", '{"x": [1, 2.5]}'), call("b", "Bash", "{}")]
    pieces = [
        {"index": 0, "id": "a", "type": "function", "function": {"name": "Bash", "arguments": '{"x": '}},
        {"index": 0, "function": {"arguments": "[1, 2.5]}"}},
        {"index": 1, "id": "b", "type": "function", "function": {"name": "Bash", "arguments": "{}"}},
    ]
    chunks = [chunk({"reasoning_content": "hm"}), chunk({"content": "te"}), chunk({"content": "xt"})]
    chunks += [chunk({"tool_calls": [piece]}) for piece in pieces]
    streamed = Stream([*chunks, chunk({}, "tool_calls"), usage_chunk()])
    plain = completion("text", finish="tool_calls", calls=calls)
    plain.body["choices"][0]["message"]["reasoning_content"] = "hm"
    upstream.script = lambda got: streamed if got.body.get("stream") else plain

    thinking: ThinkingConfigParam = {"type": "enabled", "budget_tokens": 1024}
    expected = claude.messages.create(
        model="alias",
        max_tokens=2048,
        messages=HI,
        tools=[TOOL],
        thinking=thinking,
    )
    with claude.messages.stream(
        model="alias",
        max_tokens=2048,
        messages=HI,
        tools=[TOOL],
        thinking=thinking,
    ) as stream:
        accumulated = stream.get_final_message()
    assert accumulated.to_dict() == expected.to_dict()
    assert [block.type for block in expected.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert (expected.usage.input_tokens, expected.usage.cache_read_input_tokens) == (100, 900)
    assert expected.usage.output_tokens == 50
    assert expected.usage.cache_creation_input_tokens is None
    assert expected.stop_reason == "tool_use"


def test_anthropic_counts_tokens_and_lists_models(upstream: ScriptedUpstream, claude: anthropic.Anthropic) -> None:
    upstream.answer(Reply({"count": 5}))
    assert claude.messages.count_tokens(model="real", messages=HI, system="s").input_tokens == 5
    assert [model.id for model in claude.models.list()][:2] == ["real", "alias"]
    assert claude.models.retrieve("alias").id == "alias"


def test_anthropic_raises_its_own_errors(upstream: ScriptedUpstream, claude: anthropic.Anthropic) -> None:
    upstream.answer(Reply({"error": {"message": "slow down"}}, 429, {"retry-after": "3"}))
    with pytest.raises(anthropic.RateLimitError, match="slow down") as caught:
        claude.messages.create(model="real", max_tokens=5, messages=HI)
    assert caught.value.response.headers["retry-after"] == "3"
    with pytest.raises(anthropic.NotFoundError):
        claude.messages.create(model="none", max_tokens=5, messages=HI)
    with pytest.raises(anthropic.AuthenticationError):
        claude.with_options(api_key="wrong").messages.create(model="real", max_tokens=5, messages=HI)
    upstream.answer(text_stream("a", finish=None, usage=None, end="clean"))
    with (
        pytest.raises(anthropic.APIStatusError, match="before the answer was finished"),
        claude.messages.stream(model="real", max_tokens=5, messages=HI) as stream,
    ):
        stream.get_final_message()


def test_openai_plain_and_streamed(upstream: ScriptedUpstream, gpt: openai.OpenAI) -> None:
    answer = gpt.chat.completions.create(model="alias", messages=CHAT_HI)
    assert answer.choices[0].message.content == "hello"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 900
    upstream.answer(text_stream("hel", "lo"))
    pieces = list(gpt.chat.completions.create(model="alias", messages=CHAT_HI, stream=True))
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == "hello"
    assert all(piece.usage is None for piece in pieces)
    asked = gpt.chat.completions.create(
        model="alias", messages=CHAT_HI, stream=True, stream_options={"include_usage": True}
    )
    assert [piece.usage.prompt_tokens for piece in asked if piece.usage] == [1000]
    assert [model.id for model in gpt.models.list()][:2] == ["real", "alias"]


def test_openai_raises_its_own_errors(upstream: ScriptedUpstream, gpt: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        gpt.chat.completions.create(model="none", messages=CHAT_HI)
    with pytest.raises(openai.AuthenticationError):
        gpt.with_options(api_key="wrong").chat.completions.create(model="real", messages=CHAT_HI)
    upstream.answer(text_stream("a", finish=None, usage=None, end="abort"))
    with pytest.raises(openai.APIError, match="broke off"):
        list(gpt.chat.completions.create(model="real", messages=CHAT_HI, stream=True))
