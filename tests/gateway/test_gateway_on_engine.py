"""The gateway in front of the embedded engine: an agent's session through both entries."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from gateway_rig import JSONObject, events_of, gateway, running

from engine.embedded import EngineConfig
from engine.embedded import create_app as create_engine

HEADER = "x-anthropic-billing-header: cc_version=2.1.116.d8c; cc_entrypoint=cli; cch={:05x};"
SYSTEM = "You are careful. " * 120
TOOLS = [
    {"name": f"tool_{number}", "description": "Does a thing. " * 20, "input_schema": {"type": "object"}}
    for number in range(6)
]
BLOCK = 16


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with (
        running(create_engine(EngineConfig(model="real", block_size=BLOCK, tokenizer="fast"))) as engine,
        gateway(engine) as url,
    ):
        yield url


@pytest.fixture(scope="module")
def client(base: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=base, trust_env=False, timeout=30) as client:
        yield client


def request(turn: int, salt: str, **members: Any) -> JSONObject:
    messages: list[JSONObject] = []
    for number in range(turn + 1):
        messages.append({"role": "user", "content": f"{salt} question {number}: " + "please look again. " * 20})
        if number < turn:
            use = {"type": "tool_use", "id": f"toolu_{number}", "name": "tool_1", "input": {"n": number}}
            messages.append({"role": "assistant", "content": [{"type": "text", "text": "Looking."}, use]})
            result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "found " * 30}
            messages.append({"role": "user", "content": [result]})
            messages.append({"role": "assistant", "content": "Here it is."})
    system = [{"type": "text", "text": HEADER.format(turn)}, {"type": "text", "text": f"{salt} {SYSTEM}"}]
    return {
        "model": "alias",
        "max_tokens": 24,
        "system": system,
        "messages": messages,
        "tools": TOOLS,
        "stream": True,
        **members,
    }


def final_usage(client: httpx.Client, body: JSONObject) -> JSONObject:
    events = events_of(client.post("/v1/messages", json=body).text)
    assert events[-1]["type"] == "message_stop"
    usage = events[-2]["usage"]
    assert isinstance(usage, dict)
    return usage


def test_a_growing_session_is_read_back_to_the_last_whole_block(client: httpx.Client) -> None:
    previous = 0
    for turn in range(5):
        usage = final_usage(client, request(turn, "growing"))
        prompt = usage["input_tokens"] + usage["cache_read_input_tokens"]
        assert prompt > previous
        if turn:
            assert usage["cache_read_input_tokens"] >= previous - previous % BLOCK
        previous = prompt


def test_counting_plain_and_streamed_agree(client: httpx.Client) -> None:
    body = request(2, "agree")
    count = {name: body[name] for name in ("model", "system", "messages", "tools")}
    counted = client.post("/v1/messages/count_tokens", json=count).json()["input_tokens"]
    totals, outputs = set(), set()
    for stream in (True, False, True):
        sent = {**body, "stream": stream}
        usage = final_usage(client, sent) if stream else client.post("/v1/messages", json=sent).json()["usage"]
        totals.add(usage["input_tokens"] + usage["cache_read_input_tokens"])
        outputs.add(usage["output_tokens"])
    assert totals == {counted}
    assert len(outputs) == 1


def test_both_entries_share_the_prefix(client: httpx.Client) -> None:
    body = request(1, "shared", stream=False)
    first = client.post("/v1/messages", json=body).json()["usage"]
    total = first["input_tokens"] + first["cache_read_input_tokens"]
    call = {"id": "toolu_0", "type": "function", "function": {"name": "tool_1", "arguments": '{"n":0}'}}
    user, _, result, answer, last = body["messages"]
    chat = {
        "model": "real",
        "max_tokens": 24,
        "messages": [
            {"role": "system", "content": f"shared {SYSTEM}"},
            user,
            {"role": "assistant", "content": "Looking.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "toolu_0", "content": result["content"][0]["content"]},
            answer,
            last,
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": tool["name"],
                    "description": tool["description"],
                    "parameters": tool["input_schema"],
                },
            }
            for tool in TOOLS
        ],
    }
    usage = client.post("/v1/chat/completions", json=chat).json()["usage"]
    assert usage["prompt_tokens"] == total
    assert usage["prompt_tokens_details"]["cached_tokens"] == (total - 1) - (total - 1) % BLOCK
