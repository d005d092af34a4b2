"""Each fault changes what it says, at both entries where that makes sense, and nothing else."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from gateway_rig import (
    USAGE,
    JSONObject,
    Received,
    Reply,
    ScriptedUpstream,
    Stream,
    completion,
    data_of,
    events_of,
    gateway,
    scripted_upstream,
    text_stream,
)

from reference_gateway import FAULTS
from reference_gateway.faults.translation import TRANSLATION
from reference_gateway.messages.usage import prompt_estimate

HEADER = "x-anthropic-billing-header: cc_version=2.1.116.d8c; cc_entrypoint=cli; cch=0a1b2;"
SYSTEM = "You are a careful assistant."
TURNS = [
    {"role": "user", "content": "first"},
    {"role": "assistant", "content": "second"},
    {"role": "user", "content": "third"},
]
SCHEMA = {
    "type": "object",
    "properties": {f"p{number}": {"type": "string", "description": f"d{number}"} for number in range(8)},
    "required": ["p0"],
}
NAMES = [f"tool_{number}" for number in range(8)]

MESSAGES_BODY = {
    "model": "alias",
    "max_tokens": 50,
    "system": [{"type": "text", "text": HEADER}, {"type": "text", "text": SYSTEM}],
    "messages": TURNS,
    "tools": [{"name": name, "description": "d", "input_schema": SCHEMA} for name in NAMES],
}
CHAT_BODY = {
    "model": "alias",
    "max_tokens": 50,
    "messages": [{"role": "system", "content": SYSTEM}, *TURNS],
    "tools": [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in NAMES],
}
ASKED = {"stream": True, "stream_options": {"include_usage": True}}
PROBES: dict[str, tuple[str, JSONObject]] = {
    "messages.plain": ("/v1/messages", MESSAGES_BODY),
    "messages.stream": ("/v1/messages", MESSAGES_BODY | {"stream": True}),
    "chat.plain": ("/v1/chat/completions", CHAT_BODY),
    "chat.asked": ("/v1/chat/completions", CHAT_BODY | ASKED),
    "chat.unasked": ("/v1/chat/completions", CHAT_BODY | {"stream": True}),
}


def engine_like(got: Received) -> Reply | Stream:
    """Usage in streams only where it is asked for, as vLLM does."""
    body = got.body
    if not body.get("stream"):
        return completion("hello")
    wanted = (body.get("stream_options") or {}).get("include_usage")
    return text_stream("hel", "lo", usage=USAGE if wanted else None)


@pytest.fixture(scope="module")
def rig() -> Iterator[tuple[ScriptedUpstream, str]]:
    with scripted_upstream() as (upstream, url):
        upstream.script = engine_like
        yield upstream, url


class Observation:
    """What one gateway sent and answered, probe by probe."""

    def __init__(self, upstream: ScriptedUpstream, url: str, fault: str | None) -> None:
        self.sent: dict[str, JSONObject] = {}
        self.raw: dict[str, bytes] = {}
        self.got: dict[str, Any] = {}
        with gateway(url, fault) as base, httpx.Client(base_url=base, trust_env=False, timeout=20) as client:
            for name, (path, body) in PROBES.items():
                response = client.post(path, json=body)
                assert response.status_code == 200
                self.raw[name], self.sent[name] = upstream.last.raw, upstream.last.body
                if not body.get("stream"):
                    self.got[name] = response.json()
                elif path == "/v1/messages":
                    self.got[name] = events_of(response.text)
                else:
                    self.got[name] = data_of(response.text)

    def usage(self, name: str) -> JSONObject:
        """The final usage a client of this probe reads."""
        got = self.got[name]
        if name == "messages.stream":
            return {
                key: value
                for event in got
                for key, value in (event.get("usage") or event.get("message", {}).get("usage") or {}).items()
            }
        usage = (got if name.endswith("plain") else json.loads(got[-2]))["usage"]
        assert isinstance(usage, dict)
        return usage


_seen: dict[str | None, Observation] = {}


@pytest.fixture
def observe(rig: tuple[ScriptedUpstream, str]) -> Any:
    upstream, url = rig

    def observation(fault: str | None = None) -> Observation:
        if fault not in _seen:
            _seen[fault] = Observation(upstream, url, fault)
        return _seen[fault]

    return observation


def names(*patterns: str) -> set[str]:
    return {
        f"{side} {name}"
        for side in ("sent", "got")
        for name in PROBES
        for p in patterns
        if f"{side} {name}".startswith(p)
    }


OF_TRANSLATION = {fault.name for fault in TRANSLATION}
"""Their own tests are in test_gateway_translation_faults.py."""

ALL_SENT = names("sent")
ALL_USAGE = names("got messages", "got chat.plain", "got chat.asked")
ODD_UPSTREAM_FAULTS = (
    "negative-usage", "unknown-as-zero", "zero-as-unknown", "deepseek-miss-as-creation", "deepseek-hit-unread",
    "chat-details-dropped", "creation-counted-twice", "float-usage", "reasoning-dropped", "first-usage-chunk-wins",
    "usage-with-choices-missed", "no-usage-crash", "broken-stream-as-end-turn", "broken-stream-in-silence",
    "clean-end-as-stop", "same-block-index", "null-block", "error-as-200", "retry-after-dropped", "openai-errors",
    "errors-as-503", "retry-storm", "hung-call-blocks-others", "cools-down", "serves-the-departed",
    "count-tokens-estimate", "session-high-water",
)  # fmt: skip
CHANGES = {
    "keep-billing-header": names("sent messages"),
    "drop-system": ALL_SENT,
    "own-system-note": ALL_SENT,
    "clock-in-system": ALL_SENT,
    "body-hash-note": ALL_SENT,
    "system-late": ALL_SENT,
    "tools-by-start": ALL_SENT,
    "schema-keys-by-start": ALL_SENT,
    "instance-note": ALL_SENT,
    "salt-by-start": ALL_SENT,
    "shuffle-tools": ALL_SENT,
    "shuffle-schema-keys": ALL_SENT,
    "random-user": ALL_SENT,
    "invent-cache-hits": ALL_USAGE,
    "constant-cached": ALL_USAGE,
    "constant-when-warm": ALL_USAGE,
    "input-includes-cached": ALL_USAGE,
    "exclude-cache-off": names("got messages"),
    "estimate-input": ALL_USAGE,
    "drop-cached": ALL_USAGE,
    "cached-twice": names("got chat.asked"),
    "chat-usage-rewritten": names("got chat.plain", "got chat.asked"),
    "rest-as-creation": names("got messages"),
    "stream-output-count": names("got messages.stream", "got chat.asked"),
    "delta-without-input": names("got messages.stream"),
    "delta-increments": names("got messages.stream"),
    "start-estimate": names("got messages.stream"),
    "no-message-stop": names("got messages.stream"),
    "no-include-usage": names("sent messages.stream", "sent chat.unasked", "got messages.stream"),
    "leak-usage-chunk": names("got chat.unasked"),
    # What these do shows with odd upstreams only: test_gateway_odd_upstreams.py.
    **{fault: set[str]() for fault in ODD_UPSTREAM_FAULTS},
}


@pytest.mark.parametrize("fault", [name for name in FAULTS if name not in OF_TRANSLATION])
def test_a_fault_changes_what_it_says_and_nothing_else(observe: Any, fault: str) -> None:
    clean, broken = observe(), observe(fault)
    changed = {f"sent {name}" for name in PROBES if broken.raw[name] != clean.raw[name]}
    changed |= {f"got {name}" for name in PROBES if broken.got[name] != clean.got[name]}
    assert changed == CHANGES[fault]


def system_of(body: JSONObject) -> str:
    first = body["messages"][0]
    assert first["role"] == "system"
    content = first["content"]
    assert isinstance(content, str)
    return content


def rest_of(body: JSONObject) -> JSONObject:
    return {**body, "messages": body["messages"][1:]}


def test_keep_billing_header(observe: Any) -> None:
    for name in ("messages.plain", "messages.stream"):
        assert system_of(observe("keep-billing-header").sent[name]) == HEADER + SYSTEM


@pytest.mark.parametrize("probe", PROBES)
def test_prompt_faults_leave_the_rest_alone(observe: Any, probe: str) -> None:
    clean = observe().sent[probe]
    assert observe("drop-system").sent[probe] == rest_of(clean)
    for fault in ("own-system-note", "clock-in-system", "body-hash-note"):
        broken = observe(fault).sent[probe]
        assert rest_of(broken) == rest_of(clean)
        sentence, _, kept = system_of(broken).partition("\n")
        assert kept == SYSTEM
        assert sentence.endswith(".")
    late = observe("system-late").sent[probe]
    assert [message["content"] for message in late["messages"]] == ["first", "second", SYSTEM, "third"]
    assert {**late, "messages": clean["messages"]} == clean
    user = observe("random-user").sent[probe]
    assert {key: value for key, value in user.items() if key != "user"} == clean


@pytest.mark.parametrize("probe", PROBES)
def test_shuffles_keep_the_values(observe: Any, probe: str) -> None:
    clean = observe().sent[probe]
    tools = observe("shuffle-tools").sent[probe]
    assert sorted(map(json.dumps, tools["tools"])) == sorted(map(json.dumps, clean["tools"]))
    assert tools["tools"] != clean["tools"]
    keys = observe("shuffle-schema-keys").sent[probe]
    assert keys == clean
    assert json.dumps(keys["tools"]) != json.dumps(clean["tools"])


def test_varying_texts_vary_as_they_say(rig: tuple[ScriptedUpstream, str]) -> None:
    upstream, url = rig

    def sent(fault: str, *bodies: JSONObject) -> list[bytes]:
        with gateway(url, fault) as base, httpx.Client(base_url=base, trust_env=False, timeout=20) as client:
            found = []
            for body in bodies:
                client.post("/v1/messages", json=body)
                found.append(upstream.last.raw)
            return found

    other = MESSAGES_BODY | {"max_tokens": 51}
    for fault in ("clock-in-system", "random-user", "shuffle-tools", "shuffle-schema-keys"):
        assert len(set(sent(fault, *[MESSAGES_BODY] * 4))) == 4
    first, again, changed = sent("body-hash-note", MESSAGES_BODY, MESSAGES_BODY, other)
    assert first == again
    assert system_of(json.loads(first)) != system_of(json.loads(changed))
    assert len(first) == len(changed)
    first, again = sent("own-system-note", MESSAGES_BODY, MESSAGES_BODY)
    assert first == again


def test_a_note_goes_before_list_content_and_stands_alone_without_a_system_text(
    rig: tuple[ScriptedUpstream, str],
) -> None:
    upstream, url = rig
    listed = [{"role": "developer", "content": [{"type": "text", "text": SYSTEM}]}, *TURNS]
    with gateway(url, "own-system-note") as base, httpx.Client(base_url=base, trust_env=False, timeout=20) as client:
        client.post("/v1/chat/completions", json=CHAT_BODY | {"messages": listed})
        assert [part["text"] for part in upstream.last.body["messages"][0]["content"]][1:] == [SYSTEM]
        client.post("/v1/chat/completions", json=CHAT_BODY | {"messages": TURNS})
        assert upstream.last.body["messages"][1:] == TURNS


WRONG_USAGE = {
    "invent-cache-hits": (200, 800, 1000, 800),
    "constant-cached": (0, 1000, 1000, 1000),
    "constant-when-warm": (0, 1000, 1000, 1000),
    "input-includes-cached": (1000, 900, 1900, 900),
    "drop-cached": (1000, None, 1000, None),
}


@pytest.mark.parametrize(("fault", "numbers"), WRONG_USAGE.items())
def test_usage_faults_by_number(observe: Any, fault: str, numbers: tuple[int, int | None, int, int | None]) -> None:
    for probe in ("messages.plain", "messages.stream"):
        usage = observe(fault).usage(probe)
        assert (usage["input_tokens"], usage.get("cache_read_input_tokens")) == numbers[:2]
        assert usage["output_tokens"] == 50
    for probe in ("chat.plain", "chat.asked"):
        usage = observe(fault).usage(probe)
        details = usage.get("prompt_tokens_details") or {}
        assert (usage["prompt_tokens"], details.get("cached_tokens")) == numbers[2:]
        assert usage["total_tokens"] == usage["prompt_tokens"] + 50


def test_start_usage_stays_right_under_usage_faults(observe: Any) -> None:
    for fault in (*WRONG_USAGE, "estimate-input"):
        assert observe(fault).got["messages.stream"][0] == observe().got["messages.stream"][0]


def test_estimate_input_is_alike_plain_and_streamed_and_keeps_the_cached_part(observe: Any) -> None:
    broken = observe("estimate-input")
    estimate = len(broken.raw["chat.plain"]) // 4
    plain, streamed = broken.usage("messages.plain"), broken.usage("messages.stream")
    assert plain == streamed
    assert plain["cache_read_input_tokens"] == min(900, plain["input_tokens"] + plain["cache_read_input_tokens"])
    for probe in ("chat.plain", "chat.asked"):
        assert broken.usage(probe)["prompt_tokens"] == pytest.approx(estimate, rel=0.2)
        assert broken.usage(probe)["prompt_tokens"] != 1000


def test_exclude_cache_off(observe: Any) -> None:
    broken = observe("exclude-cache-off")
    for probe in ("messages.plain", "messages.stream"):
        assert broken.usage(probe) == {"input_tokens": 1000, "cache_read_input_tokens": 900, "output_tokens": 50}
    assert broken.got["messages.stream"][0]["message"]["usage"]["input_tokens"] > 1000


def test_stream_faults_event_by_event(observe: Any) -> None:
    clean = observe().got["messages.stream"]
    right = clean[-2]["usage"]

    def events(fault: str) -> list[JSONObject]:
        found = observe(fault).got["messages.stream"]
        assert isinstance(found, list)
        return found

    counted = events("stream-output-count")
    assert counted[-2]["usage"] == right | {"output_tokens": 2 + 7}
    assert [*counted[:-2], counted[-1]] == [*clean[:-2], clean[-1]]
    asked = observe("stream-output-count").usage("chat.asked")
    assert asked == USAGE | {"completion_tokens": 9, "total_tokens": 1009}

    assert events("delta-without-input") == [*clean[:-2], clean[-2] | {"usage": {"output_tokens": 50}}, clean[-1]]
    first, second = events("delta-increments")[-3:-1]
    assert first["usage"] == right | {"output_tokens": 25}
    assert second["usage"] == {"output_tokens": 25}
    assert events("delta-increments")[:-3] == clean[:-2]

    guessed = events("start-estimate")
    received = json.dumps(MESSAGES_BODY | {"stream": True}, separators=(",", ":"), ensure_ascii=False)
    assert guessed[0]["message"]["usage"]["input_tokens"] == prompt_estimate(received.encode())
    assert guessed[1:] == clean[1:]

    assert events("no-message-stop") == [*clean[:-3], clean[-2]]
    zeros = {"input_tokens": 0, "output_tokens": 0}
    assert events("no-include-usage") == [*clean[:-2], clean[-2] | {"usage": zeros}, clean[-1]]


def test_who_asked_for_usage_still_gets_it_without_include_usage(observe: Any) -> None:
    assert observe("no-include-usage").sent["chat.asked"]["stream_options"] == {"include_usage": True}
    assert "stream_options" not in observe("no-include-usage").sent["messages.stream"]
    assert "stream_options" not in observe("no-include-usage").sent["chat.unasked"]


def test_the_leaked_chunk_is_the_one_without_choices(observe: Any) -> None:
    clean, broken = observe().got["chat.unasked"], observe("leak-usage-chunk").got["chat.unasked"]
    assert [*broken[:-2], broken[-1]] == clean
    assert (json.loads(broken[-2])["choices"], json.loads(broken[-2])["usage"]) == ([], USAGE)
