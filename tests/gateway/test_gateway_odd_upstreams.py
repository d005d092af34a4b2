"""The faults that show with odd upstreams only: right without the fault, wrong in just that way with it."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from gateway_rig import (
    USAGE,
    Hang,
    JSONObject,
    Reply,
    Stream,
    chunk,
    completion,
    data_of,
    events_of,
    gateway,
    scripted_upstream,
    text_stream,
    usage_chunk,
)

ANSWER = Reply | Stream
HIT = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050, "prompt_cache_hit_tokens": 900}
DEEPSEEK = HIT | {"prompt_cache_miss_tokens": 100}


def usage(**details: Any) -> JSONObject:
    return USAGE | {"prompt_tokens_details": details}


def post(fault: str | None, answer: ANSWER, path: str, *, stream: bool = False) -> tuple[httpx.Response, int]:
    """The gateway's answer with this upstream, and how often the upstream was asked."""
    body: JSONObject = {"model": "real", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    with (
        scripted_upstream() as (upstream, url),
        gateway(url, fault) as base,
        httpx.Client(base_url=base, trust_env=False, timeout=20) as client,
    ):
        upstream.answer(answer)
        return client.post(path, json=body), len(upstream.requests)


def plain_usage(response: httpx.Response) -> JSONObject:
    value = response.json()["usage"]
    assert isinstance(value, dict)
    return value


def last_usage(response: httpx.Response) -> JSONObject:
    found = [event["usage"] for event in events_of(response.text) if event["type"] == "message_delta"]
    assert isinstance(found[-1], dict)
    return found[-1]


USAGES: list[tuple[str, str, JSONObject, str, Any, Any]] = [
    ("negative-usage", "/v1/messages", usage(cached_tokens=1200), "input_tokens", 0, -200),
    ("unknown-as-zero", "/v1/messages", usage(), "cache_read_input_tokens", None, 0),
    ("zero-as-unknown", "/v1/messages", usage(cached_tokens=0), "cache_read_input_tokens", 0, None),
    ("deepseek-miss-as-creation", "/v1/messages", DEEPSEEK, "cache_creation_input_tokens", None, 100),
    ("deepseek-hit-unread", "/v1/messages", DEEPSEEK, "cache_read_input_tokens", 900, None),
    ("chat-details-dropped", "/v1/chat/completions",
     USAGE | {"completion_tokens_details": {"reasoning_tokens": 9}}, "completion_tokens_details",
     {"reasoning_tokens": 9}, None),
    ("creation-counted-twice", "/v1/messages", usage(cached_tokens=700, cache_write_tokens=200), "input_tokens", 100,
     300),
    ("float-usage", "/v1/messages", USAGE | {"completion_tokens": 50.5}, "output_tokens", 50, 50.5),
    ("reasoning-dropped", "/v1/messages", USAGE | {"completion_tokens_details": {"reasoning_tokens": 30}},
     "output_tokens", 50, 20),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "path", "reported", "field", "right", "wrong"), USAGES, ids=[u[0] for u in USAGES])
def test_a_usage_fault(fault: str, path: str, reported: JSONObject, field: str, right: Any, wrong: Any) -> None:
    seen = [plain_usage(post(name, completion(usage=reported), path)[0]) for name in (None, fault)]
    assert [found.get(field) for found in seen] == [right, wrong]
    assert [type(found.get(field)) for found in seen] == [type(right), type(wrong)]


def test_a_session_s_prompt_never_falls() -> None:
    """Of the session with that id alone, on /v1/messages, plain and streamed; its cached part stays right."""
    sizes = (1000, 3000, 950)
    ids = [{"metadata": {"user_id": "one"}}, {"metadata": {"user_id": "two"}}, {}]
    with (
        scripted_upstream() as (upstream, url),
        gateway(url, "session-high-water") as base,
        httpx.Client(base_url=base, trust_env=False, timeout=20) as client,
    ):

        def inputs(path: str, **more: Any) -> list[Any]:
            found = []
            for size in sizes:
                reported = usage(cached_tokens=900) | {"prompt_tokens": size}
                streamed = more.get("stream", False)
                upstream.answer(text_stream("a", usage=reported) if streamed else completion(usage=reported))
                body = {"model": "real", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}], **more}
                response = client.post(path, json=body)
                told = last_usage(response) if streamed else plain_usage(response)
                found.append(told.get("input_tokens", told.get("prompt_tokens")))
                assert told.get("cache_read_input_tokens", 900) == 900
            return found

        assert [inputs("/v1/messages", **more) for more in ids] == [[100, 2100, 2100]] * 2 + [[100, 2100, 50]]
        assert inputs("/v1/messages", stream=True, metadata={"user_id": "three"}) == [100, 2100, 2100]
        assert inputs("/v1/chat/completions", **ids[0]) == list(sizes)


PARTIAL = USAGE | {"completion_tokens": 7}
TWICE = Stream([chunk({"content": "a"}), chunk({}, "stop"), usage_chunk(PARTIAL), usage_chunk(USAGE)])
ON_FINISH = Stream([chunk({"content": "a"}), chunk({}, "stop", usage=USAGE)])


@pytest.mark.parametrize(
    ("fault", "stream", "right", "wrong"),
    [("first-usage-chunk-wins", TWICE, 50, 7), ("usage-with-choices-missed", ON_FINISH, 50, 0)],
)
def test_a_fault_in_which_chunk_counts(fault: str, stream: Stream, right: int, wrong: int) -> None:
    seen = [last_usage(post(name, stream, "/v1/messages", stream=True)[0]) for name in (None, fault)]
    assert [found["output_tokens"] for found in seen] == [right, wrong]


def kinds(response: httpx.Response) -> list[str]:
    return [event["type"] for event in events_of(response.text)]


CUT = text_stream("a", "b", usage=None, finish=None, end="abort")
SILENT_END = text_stream("a", "b", usage=None, finish=None, end="clean")
ENDS: list[tuple[str, Stream, str, str]] = [
    ("no-usage-crash", text_stream("a", usage=None), "message_stop", "error"),
    ("broken-stream-as-end-turn", CUT, "error", "message_stop"),
    ("broken-stream-in-silence", CUT, "error", "content_block_delta"),
    ("broken-stream-in-silence", SILENT_END, "error", "content_block_delta"),
    ("clean-end-as-stop", SILENT_END, "error", "message_stop"),
    ("clean-end-as-stop", CUT, "error", "error"),
    ("broken-stream-as-end-turn", SILENT_END, "error", "error"),
]


@pytest.mark.parametrize(("fault", "stream", "right", "wrong"), ENDS)
def test_a_fault_in_how_streams_end(fault: str, stream: Stream, right: str, wrong: str) -> None:
    seen = [kinds(post(name, stream, "/v1/messages", stream=True)[0])[-1] for name in (None, fault)]
    assert seen == [right, wrong]


@pytest.mark.parametrize(
    ("fault", "stream", "finish", "done"),
    [
        (None, CUT, None, False),
        ("broken-stream-as-end-turn", CUT, "stop", True),
        ("broken-stream-in-silence", CUT, None, False),
        ("clean-end-as-stop", SILENT_END, "stop", True),
    ],
)
def test_how_a_chat_stream_ends(fault: str | None, stream: Stream, finish: str | None, done: bool) -> None:
    data = data_of(post(fault, stream, "/v1/chat/completions", stream=True)[0].text)
    chunks = [json.loads(item) for item in data if item != "[DONE]"]
    assert (data[-1] == "[DONE]") is done
    assert chunks[-1].get("choices", [{}])[0].get("finish_reason") == finish
    assert any("error" in found for found in chunks) is (fault is None)


def tool_chunks() -> Stream:
    starts = [
        {"index": i, "id": f"c{i}", "type": "function", "function": {"name": f"f{i}", "arguments": "{}"}}
        for i in (0, 1)
    ]
    return Stream([*(chunk({"tool_calls": [start]}) for start in starts), chunk({}, "tool_calls"), usage_chunk()])


def plain_ending(finish: str) -> Reply:
    call = {"id": "c0", "type": "function", "function": {"name": "f0", "arguments": "{}"}}
    return completion("hi", finish=finish, calls=[call] if finish == "tool_calls" else None)


def streamed_ending(finish: str) -> Stream:
    return tool_chunks() if finish == "tool_calls" else Stream([chunk({"content": "hi"}), chunk({}, finish)])


def endings(fault: str | None, finish: str) -> list[str | None]:
    """How one ending arrives: at /v1/messages plain and streamed, at /v1/chat/completions plain and streamed."""
    plain = post(fault, plain_ending(finish), "/v1/messages")[0].json()
    events = events_of(post(fault, streamed_ending(finish), "/v1/messages", stream=True)[0].text)
    [delta] = [event["delta"] for event in events if event["type"] == "message_delta"]
    chat = post(fault, plain_ending(finish), "/v1/chat/completions")[0].json()["choices"][0]
    data = data_of(post(fault, streamed_ending(finish), "/v1/chat/completions", stream=True)[0].text)
    choices = [choice for item in data if item != "[DONE]" for choice in json.loads(item)["choices"]]
    [last] = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
    return [plain["stop_reason"], delta["stop_reason"], chat["finish_reason"], last]


def test_a_fault_in_how_finished_answers_end() -> None:
    calls, cut = (
        ["tool_use", "tool_use", "tool_calls", "tool_calls"],
        ["max_tokens", "max_tokens", "length", "length"],
    )
    assert [endings(None, finish) for finish in ("tool_calls", "length")] == [calls, cut]
    assert endings("streamed-calls-end-turn", "tool_calls") == ["tool_use", "end_turn", "tool_calls", "stop"]
    assert endings("plain-calls-end-turn", "tool_calls") == ["end_turn", "tool_use", "stop", "tool_calls"]
    assert endings("length-as-end-turn", "length") == ["end_turn", "end_turn", "stop", "stop"]
    assert endings("length-as-end-turn", "tool_calls") == calls
    for fault in ("streamed-calls-end-turn", "plain-calls-end-turn"):
        assert endings(fault, "length") == cut


@pytest.mark.parametrize(
    ("fault", "indexes", "nulls"), [(None, [0, 1], 0), ("same-block-index", [0, 0], 0), ("null-block", [0, 1], 2)]
)
def test_a_fault_in_blocks(fault: str | None, indexes: list[int], nulls: int) -> None:
    events = events_of(post(fault, tool_chunks(), "/v1/messages", stream=True)[0].text)
    starts = [event for event in events if event["type"] == "content_block_start"]
    assert [start["index"] for start in starts] == indexes
    assert sum(start["content_block"] is None for start in starts) == nulls


BUSY = Reply({"error": {"message": "busy", "type": "rate_limit_error"}}, 429, {"retry-after": "9"})


def told(response: httpx.Response, asked: int) -> tuple[int, str | None, bool, int]:
    return response.status_code, response.headers.get("retry-after"), response.json().get("type") == "error", asked


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (None, (429, "9", True, 1)),
        ("error-as-200", (200, "9", True, 1)),
        ("retry-after-dropped", (429, None, True, 1)),
        ("openai-errors", (429, "9", False, 1)),
        ("errors-as-503", (503, "9", True, 1)),
        ("retry-storm", (429, "9", True, 6)),
    ],
)
def test_a_fault_in_errors(fault: str | None, expected: tuple[int, str | None, bool, int]) -> None:
    assert told(*post(fault, BUSY, "/v1/messages")) == expected


def test_a_channel_that_cools_down_turns_two_requests_away() -> None:
    body = {"model": "real", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
    with (
        scripted_upstream() as (upstream, url),
        gateway(url, "cools-down") as base,
        httpx.Client(base_url=base, trust_env=False, timeout=20) as client,
    ):
        upstream.answer(BUSY)
        assert client.post("/v1/messages", json=body).status_code == 429
        upstream.answer(completion())
        assert [client.post("/v1/messages", json=body).status_code for _ in range(3)] == [503, 503, 200]
        assert len(upstream.requests) == 1


@pytest.mark.parametrize(("fault", "counted"), [(None, 4000), ("count-tokens-estimate", None)])
def test_a_count(fault: str | None, counted: int | None) -> None:
    body = {"model": "real", "system": "s" * 4000, "messages": [{"role": "user", "content": "hi"}]}
    with (
        scripted_upstream() as (upstream, url),
        gateway(url, fault) as base,
        httpx.Client(base_url=base, trust_env=False, timeout=20) as client,
    ):
        upstream.answer(Reply({"count": 4000}))
        count = client.post("/v1/messages/count_tokens", json=body).json()["input_tokens"]
    assert count == counted if counted is not None else count < 100


async def _beside_a_hung_call(base: str, hung: Callable[[], bool]) -> bool:
    """Whether a second request is answered while the first one hangs."""
    body = {"model": "real", "max_tokens": 5, "messages": [{"role": "user", "content": "hang"}]}
    other = {**body, "messages": [{"role": "user", "content": "go"}]}
    async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=20) as client:
        first = asyncio.create_task(client.post("/v1/messages", json=body))
        while not hung():  # noqa: ASYNC110 - the upstream's own thread tells
            await asyncio.sleep(0.01)
        second = asyncio.create_task(client.post("/v1/messages", json=other))
        done, _ = await asyncio.wait({first, second}, timeout=2)
        for task in (first, second):
            task.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        return second in done


@pytest.mark.parametrize(("fault", "answered"), [(None, True), ("hung-call-blocks-others", False)])
def test_a_hung_call(fault: str | None, answered: bool) -> None:
    with scripted_upstream() as (upstream, url), gateway(url, fault) as base:
        upstream.script = lambda got: Hang() if got.body["messages"][0]["content"] == "hang" else completion()
        assert asyncio.run(_beside_a_hung_call(base, upstream.arrived.is_set)) is answered


@pytest.mark.parametrize(("fault", "noticed"), [(None, True), ("serves-the-departed", False)])
def test_a_client_that_leaves(fault: str | None, noticed: bool) -> None:
    body = {"model": "real", "max_tokens": 5, "messages": [{"role": "user", "content": "hang"}]}
    with scripted_upstream() as (upstream, url), gateway(url, fault) as base:
        upstream.answer(Hang())
        with httpx.Client(base_url=base, trust_env=False, timeout=0.3) as client, pytest.raises(httpx.ReadTimeout):
            client.post("/v1/messages", json=body)
        assert upstream.left.wait(2) is noticed
