"""Broken targets, by name: what a gateway or its engine can do wrong."""

from __future__ import annotations

import hashlib
import itertools
import random
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
from suite_layers import (
    Asked,
    Change,
    Json,
    Layer,
    Reply,
    UsageChange,
    event_bytes,
    json_reply,
    set_cached,
    total_of,
)
from suite_targets import Target

from conformance.verdicts import Entry

# Requests changed on their way


def clock_in_system(asked: Asked) -> None:
    for message in asked.body["messages"]:
        if message["role"] == "system" and isinstance(message["content"], str):
            message["content"] = f"Time: {time.time_ns()}.\n{message['content']}"
            return
    asked.body["messages"].insert(0, {"role": "system", "content": f"Time: {time.time_ns()}."})


def clock_in_first_tool(asked: Asked) -> None:
    for tool in asked.body.get("tools", [])[:1]:
        tool["function"]["description"] = f"At {time.time_ns()}: " + tool["function"]["description"]
    if not asked.body.get("tools"):
        clock_in_system(asked)


def system_dropped(asked: Asked) -> None:
    asked.body.pop("system", None)
    if asked.entry is Entry.CHAT:
        asked.body["messages"] = [m for m in asked.body["messages"] if m["role"] != "system"]


def history_cut(asked: Asked) -> None:
    """The system text and the last four messages."""
    messages = asked.body["messages"]
    head = [m for m in messages if m["role"] == "system"]
    asked.body["messages"] = head + [m for m in messages if m["role"] != "system"][-4:]


def tools_dropped(asked: Asked) -> None:
    asked.body.pop("tools", None)


def descriptions_replaced(asked: Asked) -> None:
    for tool in asked.body.get("tools", []):
        tool.get("function", tool)["description"] = "A tool."


def on(entry: Entry, change: Callable[[Asked], Any]) -> Callable[[Asked], Reply | None]:
    """A change to requests of one entry only."""

    def request(asked: Asked) -> Reply | None:
        found: Reply | None = change(asked) if asked.entry is entry else None
        return found

    return request


def in_streams(change: Callable[[Asked], None]) -> Callable[[Asked], None]:
    """A change to streamed requests only: two code paths that have grown apart."""

    def request(asked: Asked) -> None:
        if asked.streamed:
            change(asked)

    return request


class FrozenClock:
    """The minute the target was made in, in `form`, in the system text or a tool: a clock between two of its ticks."""

    def __init__(self, form: str = "%H:%M") -> None:
        self.text = f"It is {datetime.now(UTC).strftime(form)}."

    def in_system(self, asked: Asked) -> None:
        system = next((m for m in asked.body["messages"] if m["role"] == "system"), None)
        if system is None:
            asked.body["messages"].insert(0, {"role": "system", "content": self.text})
        elif isinstance(system["content"], str):
            system["content"] = f"{self.text}\n{system['content']}"
        else:
            system["content"][0]["text"] = f"{self.text}\n{system['content'][0]['text']}"

    def in_first_tool(self, asked: Asked) -> None:
        for tool in asked.body.get("tools", [])[:1]:
            tool["function"]["description"] += f" {self.text}"


def roles_mapped(roles: Mapping[str, str]) -> Callable[[Asked], None]:
    """Texts under another role; calls and results keep theirs."""

    def request(asked: Asked) -> None:
        for message in asked.body["messages"]:
            if not message.get("tool_calls"):
                message["role"] = roles.get(message["role"], message["role"])

    return request


class ToolsShuffled:
    def __init__(self) -> None:
        self.rng = random.Random(4)

    def __call__(self, asked: Asked) -> None:
        if asked.body.get("tools"):
            self.rng.shuffle(asked.body["tools"])


def attribution_renamed(asked: Asked) -> None:
    """The attribution block without the words by which it is known."""
    for message in asked.body["messages"]:
        if message["role"] == "system" and isinstance(message["content"], str):
            message["content"] = message["content"].replace("x-anthropic-billing-header:", "client:")


def chat_stream_ended_early(asked: Asked, reply: Reply) -> None:
    if asked.entry is Entry.CHAT:
        stream_ended_early(asked, reply)


# Usage made up or broken


def all_cached(asked: Asked, usage: Json) -> Json:
    return set_cached(asked, usage, total_of(asked, usage))


class RandomCached:
    def __init__(self) -> None:
        self.rng = random.Random(11)

    def __call__(self, asked: Asked, usage: Json) -> Json:
        return set_cached(asked, usage, self.rng.randrange(max(1, total_of(asked, usage))))


class PreviousCached:
    """The count of the request before: a race between requests."""

    def __init__(self) -> None:
        self.at, self.last, self.now = -1, 0, 0

    def __call__(self, asked: Asked, usage: Json) -> Json:
        own = usage.get("cache_read_input_tokens") if asked.entry is Entry.MESSAGES else None
        if asked.entry is Entry.CHAT:
            own = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        if asked.number != self.at:
            self.at, self.last, self.now = asked.number, self.now, 0
        self.now = own or self.now
        return set_cached(asked, usage, self.last)


def made(change: Callable[[int], Any], *, whole: bool = False) -> Callable[[Asked, Json], Json]:
    """Each count of a usage object (only the cached one, unless `whole`) put through `change`."""

    def usage(asked: Asked, found: Json) -> Json:
        if whole:
            found = {k: change(v) if isinstance(v, int) else v for k, v in found.items()}
        if asked.entry is Entry.CHAT:
            details = found.get("prompt_tokens_details") or {}
            return {
                **found,
                "prompt_tokens_details": {k: change(v) if isinstance(v, int) else v for k, v in details.items()},
            }
        name = "cache_read_input_tokens"
        return found if whole or found.get(name) is None else {**found, name: change(found[name])}

    return usage


def usage_null(_: Asked, __: Json) -> Json | None:
    return None


def no_usage_in_streams(asked: Asked, usage: Json) -> Json | None:
    return None if asked.streamed else usage


# Answers broken or made up


def stream_cut(_: Asked, reply: Reply) -> None:
    """The connection breaks after a third of the events."""
    if reply.is_stream:
        events = reply.events
        reply.events = events[: max(1, len(events) // 3)]
        reply.broken = True


def stream_ended_early(_: Asked, reply: Reply) -> None:
    """A clean end after a third of the events."""
    if reply.is_stream:
        events = reply.events
        reply.events = events[: max(1, len(events) // 3)]


class ResponseCache:
    """Answers a request it has seen before by itself; `new_ids` hides it."""

    def __init__(self, *, new_ids: bool = False) -> None:
        self.kept: dict[str, Reply] = {}
        self.hits = itertools.count()
        self.new_ids = new_ids

    def request(self, asked: Asked) -> Reply | None:
        found = self.kept.get(self._key(asked))
        if found is None:
            return None
        body = found.body
        if self.new_ids and not found.is_stream:
            body = orjson.dumps({**orjson.loads(body), "id": f"again-{next(self.hits)}"})
        return Reply(found.status, dict(found.headers), body)

    def answer(self, asked: Asked, reply: Reply) -> None:
        self.kept[self._key(asked)] = reply

    @staticmethod
    def _key(asked: Asked) -> str:
        return hashlib.sha256(orjson.dumps([asked.path, asked.body])).hexdigest()


def response_cache(*, new_ids: bool = False) -> Target:
    cache = ResponseCache(new_ids=new_ids)
    return Target(front=Layer(request=cache.request, answer=cache.answer))


def fails_now_and_then(status: int, every: int) -> Callable[[Asked], Reply | None]:
    """Every `every`th request fails."""
    failing = fails(status)
    return lambda asked: failing(asked) if asked.number % every == every - 1 else None


class FailsOnce:
    """Answers `status`, with `retry_after`, to the request of one number and is fine again."""

    def __init__(self, status: int, number: int, retry_after: str = "") -> None:
        self.failing, self.number = fails(status, retry_after=retry_after), number

    def __call__(self, asked: Asked) -> Reply | None:
        return self.failing(asked) if asked.number == self.number else None


def fails(status: int, *, after: int = 0, retry_after: str = "") -> Callable[[Asked], Reply | None]:
    error = {"type": "error", "error": {"type": "api_error", "message": "it is broken"}}

    def request(asked: Asked) -> Reply | None:
        headers = {"retry-after": retry_after} if retry_after else {}
        return json_reply(error, status, **headers) if asked.number >= after else None

    return request


def no_cache(asked: Asked, usage: Json) -> Json:
    return set_cached(asked, usage, 0)


class Constant:
    """Says one thing whatever it is asked. `ids` gives every answer an id of its own."""

    def __init__(self, cached: int | None, prompt: int = 1500, *, ids: bool, created: int | None = None) -> None:
        self.cached, self.prompt, self.ids, self.created = cached, prompt, ids, created
        self.numbers = itertools.count()

    def __call__(self, asked: Asked) -> Reply:
        ident = f"answer-{next(self.numbers)}" if self.ids else "answer"
        return self._messages(ident, asked) if asked.entry is Entry.MESSAGES else self._chat(ident, asked)

    def _messages(self, ident: str, asked: Asked) -> Reply:
        usage: Json = {"input_tokens": self.prompt - (self.cached or 0), "output_tokens": 3}
        if self.cached is not None:
            usage["cache_read_input_tokens"] = self.cached
        message = {
            "id": ident, "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
            "stop_sequence": None, "content": [{"type": "text", "text": "Yes, it is."}], "usage": usage,
        }  # fmt: skip
        if not asked.streamed:
            return json_reply(message)
        events: list[Json] = [
            {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Yes, it is."}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ]
        return _stream((e["type"], e) for e in events)

    def _chat(self, ident: str, asked: Asked) -> Reply:
        usage: Json = {"prompt_tokens": self.prompt, "completion_tokens": 3, "total_tokens": self.prompt + 3}
        if self.cached is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": self.cached}
        common = {"id": ident, "created": 1, "model": "m"}
        text = {"role": "assistant", "content": "Yes, it is."}
        if not asked.streamed:
            choice = {"index": 0, "message": text, "finish_reason": "stop"}
            return json_reply({**common, "object": "chat.completion", "choices": [choice], "usage": usage})
        chunk = {**common, "object": "chat.completion.chunk"}
        chunks: list[Any] = [
            {**chunk, "choices": [{"index": 0, "delta": text, "finish_reason": None}]},
            {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        ]
        if (asked.body.get("stream_options") or {}).get("include_usage"):
            chunks.append({**chunk, "choices": [], "usage": usage})
        return _stream(("", c) for c in [*chunks, "[DONE]"])


def _stream(events: Any) -> Reply:
    return Reply(200, {"content-type": "text/event-stream"}, b"".join(map(event_bytes, events)))


def front(request: Change) -> Callable[[], Target]:
    return lambda: Target(front=Layer(request=request))


def middle(request: Change, **more: Any) -> Callable[[], Target]:
    return lambda: Target(middle=Layer(request=request), **more)


def counting(usage: Callable[[], UsageChange]) -> Callable[[], Target]:
    return lambda: Target(front=Layer(usage=usage()))


BAD: dict[str, Callable[[], Target]] = {
    "constant": front(Constant(None, ids=False)),
    "constant with usage": front(Constant(1024, ids=False)),
    "constant with usage and ids": front(Constant(1024, ids=True)),
    "constant with a small prompt": front(Constant(0, 12, ids=True)),
    "constant on messages": front(on(Entry.MESSAGES, Constant(1024, ids=True))),
    "constant on chat": front(on(Entry.CHAT, Constant(1024, ids=True))),
    "constant engine": lambda: Target(back=Layer(request=Constant(1024, ids=True))),
    "constant engine, cold": lambda: Target(back=Layer(request=Constant(0, ids=True))),
    "engine without cache": lambda: Target(back=Layer(usage=no_cache)),
    "500": front(fails(500)),
    "500 after 5": front(fails(500, after=5)),
    "400 after 5": front(fails(400, after=5)),
    "400 on messages": front(on(Entry.MESSAGES, fails(400, after=2))),
    "400 on chat": front(on(Entry.CHAT, fails(400, after=2))),
    "429": front(fails(429, retry_after="30")),
    "429 after 8": front(fails(429, after=8, retry_after="30")),
    "drops the system": front(system_dropped),
    "drops the system in streams": front(in_streams(system_dropped)),
    "drops tools": front(tools_dropped),
    "replaces tool descriptions": front(descriptions_replaced),
    "cuts the history": front(history_cut),
    "clock in system": middle(clock_in_system),
    "clock in system, system first": middle(clock_in_system, template="system-first"),
    "clock in first tool": middle(clock_in_first_tool),
    "clock in first tool, system first": middle(clock_in_first_tool, template="system-first"),
    "clock in streams": middle(in_streams(clock_in_system)),
    "shuffles tools in streams": lambda: Target(middle=Layer(request=in_streams(ToolsShuffled()))),
    "renames the attribution": middle(attribution_renamed, strips=False),
    "renames the attribution, system first": middle(attribution_renamed, strips=False, template="system-first"),
    "all cached": counting(lambda: all_cached),
    "random cached": counting(RandomCached),
    "cached of the request before": counting(PreviousCached),
    "negative": counting(lambda: made(lambda n: -n)),
    "negative, all counts": counting(lambda: made(lambda n: -n, whole=True)),
    "floats": counting(lambda: made(float)),
    "floats, all counts": counting(lambda: made(float, whole=True)),
    "strings, all counts": counting(lambda: made(str, whole=True)),
    "usage null": counting(lambda: usage_null),
    "no usage in streams": counting(lambda: no_usage_in_streams),
    "breaks streams": lambda: Target(front=Layer(answer=stream_cut)),
    "ends streams early": lambda: Target(front=Layer(answer=stream_ended_early)),
    "ends chat streams early": lambda: Target(front=Layer(answer=chat_stream_ended_early)),
    "response cache": response_cache,
    "response cache, new ids": lambda: response_cache(new_ids=True),
}
