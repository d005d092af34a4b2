"""The engine over real HTTP: answers, streams, cached counts, tiers, metrics, clients that leave."""

import json
from collections.abc import Iterator

import httpx
import pytest
from engine_server import RunningEngine, running, wait_until

from engine.embedded import EngineConfig

TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]
LONG = " ".join(f"word{number}" for number in range(600))


@pytest.fixture(scope="module")
def engine() -> Iterator[RunningEngine]:
    with running(EngineConfig(l2_chunks=10_000)) as served:
        yield served


def user(text: str) -> list[dict[str, object]]:
    return [{"role": "user", "content": text}]


def stream(engine: RunningEngine, **body: object) -> list[dict[str, object]]:
    """The chunks of a streamed answer; asserts how it ends."""
    answered = engine.chat(stream=True, **body)
    assert answered.headers["content-type"].startswith("text/event-stream")
    events = answered.text.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    assert all(event.startswith("data: ") for event in events[:-1])
    return [json.loads(event.removeprefix("data: ")) for event in events[:-2]]


def test_a_conversation_keeps_its_prefix_warm(engine: RunningEngine) -> None:
    engine.cached(messages=user("hello"))
    messages = [{"role": "system", "content": LONG}, *user("first")]
    prompt, cached = engine.cached(messages=messages)
    assert cached == 320, "nothing but the preamble is shared"
    for turn in range(3):
        answered = engine.chat(messages=messages).json()
        assert answered["usage"]["prompt_tokens_details"]["cached_tokens"] == (prompt - 1) // 64 * 64
        total = answered["usage"]["total_tokens"]
        messages += [answered["choices"][0]["message"], *user(f"turn {turn}: {LONG[:300]}")]
        prompt, cached = engine.cached(messages=messages)
        assert cached == (total - 1) // 64 * 64


def test_a_salt_keeps_tenants_apart(engine: RunningEngine) -> None:
    messages = user(f"salted {LONG}")
    prompt, cached = engine.cached(messages=messages, cache_salt="tenant-a")
    assert cached == 0
    assert engine.cached(messages=messages, cache_salt="tenant-a")[1] == (prompt - 1) // 64 * 64
    assert engine.cached(messages=messages, cache_salt="tenant-b")[1] == 0


def test_equal_images_share_a_prefix_and_different_ones_do_not(engine: RunningEngine) -> None:
    def ask(image: str) -> int:
        url = f"data:image/png;base64,{image}"
        parts = [{"type": "text", "text": LONG}, {"type": "image_url", "image_url": {"url": url}}]
        return engine.cached(messages=[{"role": "user", "content": [*parts, {"type": "text", "text": LONG}]}])[1]

    ask("aaaa")
    assert ask("aaaa") > ask("bbbb") >= len(LONG) // 4 // 64 * 64


def test_a_list_of_one_text_is_the_text(engine: RunningEngine) -> None:
    prompt, _ = engine.cached(messages=user(LONG))
    parts = [{"type": "text", "text": LONG}]
    assert engine.cached(messages=[{"role": "user", "content": parts}]) == (prompt, (prompt - 1) // 64 * 64)


def test_stream_and_plain_say_the_same(engine: RunningEngine) -> None:
    for body in ({"messages": user("hi")}, {"messages": user('call read {"p": "é"}\ncall read'), "tools": TOOLS}):
        plain = engine.chat(**body).json()
        chunks = stream(engine, **body)
        text, calls = "", []
        for chunk in chunks:
            assert "usage" not in chunk
            for delta in (choice["delta"] for choice in chunk["choices"]):  # type: ignore[attr-defined]
                text += delta.get("content") or ""
                for part in delta.get("tool_calls", []):
                    if "id" in part:
                        calls.append({"id": part["id"], "type": "function", "function": part["function"]})
                    else:
                        calls[part["index"]]["function"]["arguments"] += part["function"]["arguments"]
        message = plain["choices"][0]["message"]
        assert (text or None) == message["content"]
        assert calls == message.get("tool_calls", [])
        assert chunks[0]["choices"] == [  # the role comes first
            {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
        ]
        last = chunks[-1]["choices"][0]  # type: ignore[index]
        assert (last["delta"], last["finish_reason"]) == ({}, plain["choices"][0]["finish_reason"])


def test_usage_comes_in_a_chunk_of_its_own_if_asked_for(engine: RunningEngine) -> None:
    *others, last = stream(engine, messages=user("hi"), stream_options={"include_usage": True})
    assert all(chunk["usage"] is None for chunk in others)
    assert last["choices"] == []
    plain = engine.chat(messages=user("hi")).json()["usage"]
    assert last["usage"] == plain | {"prompt_tokens_details": {"cached_tokens": 320}}
    assert plain["prompt_tokens"] + plain["completion_tokens"] == plain["total_tokens"]


def test_limits_and_stops(engine: RunningEngine) -> None:
    for field in ("max_tokens", "max_completion_tokens"):
        cut = engine.chat(messages=user("write 50 words"), **{field: 5}).json()
        assert (cut["choices"][0]["finish_reason"], cut["usage"]["completion_tokens"]) == ("length", 5)
    whole = engine.chat(messages=user("write 50 words")).json()["choices"][0]["message"]["content"]
    stop = whole.split()[10]
    stopped = engine.chat(messages=user("write 50 words"), stop=[stop, ""]).json()["choices"][0]
    assert stopped["message"]["content"] == whole[: whole.index(stop)]
    assert (stopped["finish_reason"], stopped["stop_reason"]) == ("stop", stop)


def test_tool_choice(engine: RunningEngine) -> None:
    asked = {"messages": user("call read"), "tools": TOOLS}
    assert engine.chat(**asked, tool_choice="none").json()["choices"][0]["finish_reason"] == "stop"
    named = {"type": "function", "function": {"name": "read"}}
    for choice in ("required", named):
        answered = engine.chat(messages=user("hi"), tools=TOOLS, tool_choice=choice).json()["choices"][0]
        assert answered["message"]["tool_calls"][0]["function"] == {"name": "read", "arguments": "{}"}
        assert answered["finish_reason"] == "tool_calls"


def test_tokenize_is_what_chat_counts(engine: RunningEngine) -> None:
    body = {"messages": [{"role": "developer", "content": "é中"}, *user("hi")], "tools": TOOLS}
    counted = engine.http.post("/tokenize", json=body).json()
    assert counted["count"] == len(counted["tokens"]) == engine.cached(**body)[0]
    assert counted["max_model_len"] == 32_768 * 64
    open_ended = engine.http.post("/tokenize", json=body | {"add_generation_prompt": False}).json()
    assert open_ended["tokens"] == counted["tokens"][:-1]
    text = engine.http.post("/detokenize", json={"tokens": counted["tokens"]}).json()["prompt"]
    assert text.endswith("é中<｜User｜>hi<｜Assistant｜>")
    piece = engine.http.post("/tokenize", json={"prompt": "eight by", "return_token_strs": True}).json()
    assert (piece["count"], piece["token_strs"]) == (2, ["eigh", "t by"])


def test_models_and_health() -> None:
    with running(EngineConfig(model="real-name", served_names=("a", "b"))) as engine:
        listed = engine.http.get("/v1/models").json()["data"]
        assert [(model["id"], model["root"]) for model in listed] == [("a", "real-name"), ("b", "real-name")]
        assert engine.http.get("/health").status_code == 200
        assert engine.chat(model="b").json()["model"] == "b"
        assert engine.chat(model="real-name").status_code == 404


def test_without_details_usage_has_no_such_field() -> None:
    with running(EngineConfig(prompt_tokens_details=False)) as engine:
        assert set(engine.chat().json()["usage"]) == {"prompt_tokens", "completion_tokens", "total_tokens"}
        assert set(stream(engine, stream_options={"include_usage": True})[-1]["usage"]) == {  # type: ignore[call-overload]
            "prompt_tokens",
            "completion_tokens",
            "total_tokens",
        }


def test_the_host_tier_is_read_back_after_eviction_and_metrics_show_it() -> None:
    config = EngineConfig(block_size=16, num_blocks=101, chunk_blocks=2, l2_chunks=1_000, bytes_per_token=10)
    with running(config) as engine:
        first = user("first " + LONG[:3_000])
        prompt, _ = engine.cached(messages=first)
        assert engine.metric("vllm:kv_offload_load_bytes_total") is None, "absent before the first load"
        for number in range(4):
            engine.cached(messages=user(f"{number} {LONG[:3_000]}"))
        before = engine.metric("vllm:external_prefix_cache_hits_total") or 0
        assert engine.cached(messages=first) == (prompt, prompt // 32 * 32)
        loaded = (engine.metric("vllm:external_prefix_cache_hits_total") or 0) - before
        # The preamble may still be in L1: every request uses it.
        assert prompt // 32 * 32 - 352 <= loaded <= prompt // 32 * 32
        assert engine.metric("vllm:kv_offload_load_bytes_total") == 10 * loaded
        store_bytes = engine.metric("vllm:kv_offload_store_bytes_total")
        assert store_bytes is not None
        assert store_bytes >= 10 * (prompt // 32 * 32)
        assert engine.metric("vllm:kv_offload_lookup_sync_delay_seconds_count") == engine.core.stats.lookups > 0


def test_a_reset_of_l1_leaves_the_host_tier() -> None:
    with running(EngineConfig(l2_chunks=1_000)) as engine:
        prompt, _ = engine.cached(messages=user(LONG))
        assert engine.http.post("/reset_prefix_cache").json() == {"success": True}
        assert engine.cached(messages=user(LONG))[1] == prompt // 64 * 64
        assert engine.http.post("/reset_prefix_cache?reset_external=true").json() == {"success": True}
        assert engine.cached(messages=user(LONG))[1] == 0


def test_metrics_add_up_under_vllms_names() -> None:
    with running(EngineConfig(block_size=16, num_blocks=1_001)) as engine, running(EngineConfig()) as other:
        sent = [engine.cached(messages=user(LONG)), engine.cached(messages=user(LONG))]
        prompts, cached = (sum(column) for column in zip(*sent, strict=True))
        for series, value in {
            'vllm:prompt_tokens_total{engine="0",model_name="embedded"}': prompts,
            "vllm:prefix_cache_queries_total": prompts,
            "vllm:prefix_cache_hits_total": cached,
            "vllm:prompt_tokens_cached_total": cached,
            "vllm:num_preemptions_total": 0,
            "vllm:kv_cache_usage_perc": 0,
            "vllm:external_prefix_cache_hits_total": 0,
            "vllm:kv_offload_store_bytes_total": None,
        }.items():
            assert engine.metric(series) == value, series
        by_source = "vllm:prompt_tokens_by_source_total{"
        lines = [line for line in engine.http.get("/metrics").text.splitlines() if line.startswith(by_source)]
        assert len(lines) == 3
        assert sum(float(line.rsplit(" ", 1)[1]) for line in lines) == prompts
        assert 'block_size="16"' in engine.http.get("/metrics").text
        assert 'num_gpu_blocks="1001"' in engine.http.get("/metrics").text
        assert engine.metric("process_start_time_seconds")
        assert other.metric("vllm:prompt_tokens_total") == 0, "each app has a registry of its own"


def test_a_client_that_leaves_is_aborted_plain_or_streamed() -> None:
    with running(EngineConfig(step_interval=0.01)) as engine:
        body = {"model": "embedded", "messages": user("write 9000 words")}
        with engine.http.stream("POST", "/v1/chat/completions", json=body | {"stream": True}) as answered:
            lines = answered.iter_lines()
            next(lines)
            assert engine.core.num_running == 1
            assert engine.http.post("/reset_prefix_cache").json() == {"success": False}
        wait_until(lambda: engine.core.stats.aborted_requests == 1)
        with pytest.raises(httpx.ReadTimeout):
            engine.http.post("/v1/chat/completions", json=body, timeout=0.3)
        wait_until(lambda: engine.core.stats.aborted_requests == 2)
        assert engine.core.pool.usage == 0
        assert engine.chat().status_code == 200


def test_requests_that_do_not_fit_together_queue_and_all_end() -> None:
    with running(EngineConfig(num_blocks=12, step_interval=0.001)) as engine:
        body = {"model": "embedded", "stream": True, "messages": user("write 40 words")}
        with engine.http.stream("POST", "/v1/chat/completions", json=body) as slow:
            lines = slow.iter_lines()
            next(lines)
            assert engine.chat(messages=user(f"other {LONG[:800]}")).status_code == 200
            assert "[DONE]" in "".join(lines)
        assert engine.core.pool.usage == 0
