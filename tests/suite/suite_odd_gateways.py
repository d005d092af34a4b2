"""Habits of healthy gateways: how they send, and how they answer."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable

import orjson
from suite_layers import Asked, Json, Layer, Reply, event_bytes, json_reply
from suite_targets import Target

from conformance.verdicts import Entry

# The gateway's requests to its upstream


def system_blocks_joined(asked: Asked) -> None:
    system = asked.body.get("system")
    if isinstance(system, list):
        texts = [b["text"] for b in system if not b["text"].startswith("x-anthropic-billing-header:")]
        asked.body["system"] = "\n\n".join(texts)


def joined_with_blank_lines(asked: Asked) -> None:
    for message in asked.body["messages"]:
        if message["role"] == "system" and isinstance(message["content"], list):
            message["content"] = "\n\n".join(part["text"] for part in message["content"])


def system_as_parts(asked: Asked) -> None:
    """One text part a paragraph: the text is the same once a template joins them."""
    for message in asked.body["messages"]:
        if message["role"] == "system" and isinstance(message["content"], str):
            head, newline, rest = message["content"].partition("\n")
            texts = [head + newline, rest] if rest else [head + newline]
            message["content"] = [{"type": "text", "text": text} for text in texts]


def user_as_string(asked: Asked) -> None:
    for message in asked.body["messages"]:
        # An image has no form as a string.
        if (
            message["role"] == "user"
            and isinstance(message["content"], list)
            and all("text" in p for p in message["content"])
        ):
            message["content"] = "\n".join(part["text"] for part in message["content"])


def user_as_blocks(asked: Asked) -> None:
    for message in asked.body["messages"]:
        if message["role"] == "user" and isinstance(message["content"], str):
            message["content"] = [{"type": "text", "text": message["content"]}]


def system_is_developer(asked: Asked) -> None:
    for message in asked.body["messages"]:
        if message["role"] == "system":
            message["role"] = "developer"


def developer_is_system(asked: Asked) -> None:
    for message in asked.body["messages"]:
        if message["role"] == "developer":
            message["role"] = "system"


def tools_with_strict(asked: Asked) -> None:
    for tool in asked.body.get("tools", []):
        tool["type"] = "function"
        tool["function"]["strict"] = False


def arguments_respelled(asked: Asked) -> None:
    for message in asked.body["messages"]:
        for call in message.get("tool_calls") or []:
            text = json.dumps(json.loads(call["function"]["arguments"]), indent=1, ensure_ascii=True)
            call["function"]["arguments"] = re.sub(r'(?<=")([a-z_ ]*)e', r"\1\\u0065", text)


def sampling_defaults(asked: Asked) -> None:
    asked.body.setdefault("temperature", 1)
    if asked.body.get("tools"):
        asked.body.setdefault("parallel_tool_calls", True)


def empty_assistant_content_is_null(asked: Asked) -> None:
    for message in asked.body["messages"]:
        if message.get("tool_calls"):
            message["content"] = message.get("content") or None


def call_ids_renamed(asked: Asked) -> None:
    """Ids numbered by position: stable for an append-only conversation, and no part of a prompt."""
    renamed: dict[str, str] = {}
    for i, message in enumerate(asked.body["messages"]):
        for j, call in enumerate(message.get("tool_calls") or []):
            renamed[call["id"]] = f"call_{i}_{j}"
            call["id"] = renamed[call["id"]]
        if message["role"] == "tool":
            message["tool_call_id"] = renamed[message["tool_call_id"]]


# The gateway's answers to its client


def with_pings(asked: Asked, reply: Reply) -> None:
    if reply.is_stream:
        ping = b": keep-alive\n\n"
        if asked.entry is Entry.MESSAGES:
            ping += event_bytes(("ping", {"type": "ping"}))
        events = reply.events
        reply.body = b": hello\n\n" + b"".join(event_bytes(e) + ping for e in events[:-1]) + event_bytes(events[-1])


def crlf_and_odd_cuts(_: Asked, reply: Reply) -> None:
    if reply.is_stream:
        reply.body = reply.body.replace(b"\n", b"\r\n")
        reply.chunks = [reply.body[i : i + 7] for i in range(0, len(reply.body), 7)]


def start_tells_the_truth(asked: Asked, reply: Reply) -> None:
    """Anthropic's own way: the whole usage in message_start, only output_tokens in message_delta."""
    if not reply.is_stream or asked.entry is not Entry.MESSAGES:
        return
    events = reply.events
    final = next(data["usage"] for _, data in events if isinstance(data, dict) and data["type"] == "message_delta")
    for _, data in events:
        if data["type"] == "message_start":
            data["message"]["usage"] = {**final, "output_tokens": 1}
        if data["type"] == "message_delta":
            data["usage"] = {"output_tokens": final["output_tokens"]}
    reply.events = events


def start_says_one_output_token(asked: Asked, reply: Reply) -> None:
    if reply.is_stream and asked.entry is Entry.MESSAGES:
        events = reply.events
        events[0][1]["message"]["usage"]["output_tokens"] = 1
        reply.events = events


def without_creation(_: Asked, usage: Json) -> Json:
    return {k: v for k, v in usage.items() if k != "cache_creation_input_tokens"}


def creation_zero(asked: Asked, usage: Json) -> Json:
    return {**usage, "cache_creation_input_tokens": 0} if asked.entry is Entry.MESSAGES else usage


def creation_beside_input(asked: Asked, usage: Json) -> Json:
    """As Claude has it: what was not read is a write, but for the last few tokens."""
    if asked.entry is Entry.CHAT or usage.get("input_tokens", 0) < 10:
        return usage
    return {**usage, "input_tokens": 3, "cache_creation_input_tokens": usage["input_tokens"] - 3}


def extra_fields(_: Asked, usage: Json) -> Json:
    return {**usage, "service_tier": "standard", "cost": 0.00123, "server_tool_use": None}


def null_fields_in_delta(asked: Asked, reply: Reply) -> None:
    if reply.is_stream and asked.entry is Entry.MESSAGES:
        events = reply.events
        for _, data in events:
            if data["type"] == "message_delta":
                data["usage"]["server_tool_use"] = None
                data["usage"]["cache_creation_input_tokens"] = None
        reply.events = events


def cumulative_usage_in_every_delta(asked: Asked, reply: Reply) -> None:
    """Several message_delta events, each with the running totals."""
    if reply.is_stream and asked.entry is Entry.MESSAGES:
        events = reply.events
        at = next(i for i, (_, data) in enumerate(events) if data["type"] == "message_delta")
        final = events[at][1]
        early = {**final, "delta": {"stop_reason": None}, "usage": {**final["usage"], "output_tokens": 1}}
        events.insert(at, ("message_delta", early))
        reply.events = events


def connection_close(_: Asked, reply: Reply) -> None:
    reply.headers["connection"] = "close"


def zipped(asked: Asked, reply: Reply) -> None:
    if "gzip" in asked.headers.get("accept-encoding", ""):
        reply.body = gzip.compress(reply.body, 1)
        reply.headers["content-encoding"] = "gzip"


def no_details_on_chat(asked: Asked, usage: Json) -> Json:
    return {k: v for k, v in usage.items() if asked.entry is not Entry.CHAT or k != "prompt_tokens_details"}


def only(entry: Entry) -> Callable[[Asked], Reply | None]:
    def refuse(asked: Asked) -> Reply | None:
        return None if asked.entry is entry else json_reply({"error": {"message": "no such route"}}, 404)

    return refuse


def thinking_first(asked: Asked, reply: Reply) -> None:
    """A thinking block in front of the answer."""
    if asked.entry is Entry.CHAT or reply.status != 200:
        return
    if not reply.is_stream:
        value = orjson.loads(reply.body)
        value["content"].insert(0, {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"})
        reply.body = orjson.dumps(value)
        return
    events = reply.events
    for _, data in events:
        if "index" in data:
            data["index"] += 1
    block = {"type": "thinking", "thinking": "", "signature": ""}
    deltas = ({"type": "thinking_delta", "thinking": "Hm."}, {"type": "signature_delta", "signature": "c2ln"})
    new: list[Json] = [{"type": "content_block_start", "index": 0, "content_block": block}]
    new += [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
    new += [{"type": "content_block_stop", "index": 0}]
    reply.events = [events[0], *((e["type"], e) for e in new), *events[1:]]


def events_of_its_own(asked: Asked, reply: Reply) -> None:
    """Event types that no client knows: Anthropic's versioning policy asks clients to pass over them."""
    if reply.is_stream and asked.entry is Entry.MESSAGES:
        head, tail = ("gateway_meta", {"type": "gateway_meta", "region": "x"}), ("billing", {"type": "billing"})
        reply.events = [head, *reply.events, tail]


def no_cached_count_when_zero(asked: Asked, usage: Json) -> Json:
    if asked.entry is Entry.CHAT:
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        return {**usage, "prompt_tokens_details": None} if cached == 0 else usage
    return {k: v for k, v in usage.items() if v or k != "cache_read_input_tokens"}


def fails_first(every: int) -> Callable[[Asked], Reply | None]:
    def request(asked: Asked) -> Reply | None:
        return json_reply({"error": {"message": "overloaded"}}, 503) if asked.number % every == every - 1 else None

    return request


def stranger(asked: Asked) -> Json:
    return {"model": asked.body["model"], "max_tokens": 8,
            "messages": [{"role": "user", "content": f"somebody else's question {asked.number} " * 60}]}  # fmt: skip


GATEWAYS: dict[str, Callable[[], Target]] = {
    "joins system blocks with blank lines": lambda: Target(
        front=Layer(request=system_blocks_joined), middle=Layer(request=joined_with_blank_lines)
    ),
    "sends the system as text parts": lambda: Target(middle=Layer(request=system_as_parts)),
    "sends user content as one string": lambda: Target(middle=Layer(request=user_as_string)),
    "sends user content as blocks": lambda: Target(middle=Layer(request=user_as_blocks)),
    "calls the system developer": lambda: Target(
        middle=Layer(request=system_is_developer), back=Layer(request=developer_is_system)
    ),
    "adds strict to tools": lambda: Target(middle=Layer(request=tools_with_strict)),
    "re-spells tool arguments": lambda: Target(middle=Layer(request=arguments_respelled)),
    "adds sampling defaults": lambda: Target(middle=Layer(request=sampling_defaults)),
    "sends null for empty content": lambda: Target(middle=Layer(request=empty_assistant_content_is_null)),
    "numbers tool calls": lambda: Target(middle=Layer(request=call_ids_renamed)),
    "is slow": lambda: Target(front=Layer(delay_s=0.05)),
    "retries a failed upstream": lambda: Target(middle=Layer(retries=1), back=Layer(request=fails_first(5))),
    "carries other traffic": lambda: Target(middle=Layer(beside=stranger)),
    "speaks Messages upstream": lambda: Target(through_messages=True),
    "speaks Messages upstream, recorder between": lambda: Target(through_messages=True, recorder_first=True),
}
"""How gateways send."""

ANSWERS: dict[str, Callable[[], Target]] = {
    "sends pings and comments": lambda: Target(front=Layer(answer=with_pings)),
    "ends lines with CRLF, cut anywhere": lambda: Target(front=Layer(answer=crlf_and_odd_cuts)),
    "tells all in message_start": lambda: Target(front=Layer(answer=start_tells_the_truth)),
    "starts with one output token": lambda: Target(front=Layer(answer=start_says_one_output_token)),
    "leaves cache_creation out": lambda: Target(front=Layer(usage=without_creation)),
    "reports creation 0": lambda: Target(front=Layer(usage=creation_zero)),
    "reports what was not read as creation": lambda: Target(front=Layer(usage=creation_beside_input)),
    "adds usage fields": lambda: Target(front=Layer(usage=extra_fields)),
    "sends null usage fields": lambda: Target(front=Layer(answer=null_fields_in_delta)),
    "sends running totals": lambda: Target(front=Layer(answer=cumulative_usage_in_every_delta)),
    "thinks first": lambda: Target(front=Layer(answer=thinking_first)),
    "sends events of its own": lambda: Target(front=Layer(answer=events_of_its_own)),
    "leaves out counts of 0": lambda: Target(front=Layer(usage=no_cached_count_when_zero)),
    "closes each connection": lambda: Target(front=Layer(answer=connection_close)),
    "zips its answers": lambda: Target(front=Layer(answer=zipped)),
}
"""How gateways answer."""

ON_BOTH_ENTRIES = frozenset(
    ("sends pings and comments", "ends lines with CRLF, cut anywhere", "adds usage fields", "leaves out counts of 0",
     "closes each connection", "zips its answers")
)  # fmt: skip
"""Ways to answer that a chat client meets too."""
