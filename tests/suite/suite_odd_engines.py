"""Habits of healthy engines: how models answer, and how caches count."""

from __future__ import annotations

import random
from collections.abc import Callable

import orjson
from suite_layers import Asked, Json, Layer, Reply, set_cached
from suite_targets import Target


def absent_when_zero(_: Asked, usage: Json) -> Json:
    """vLLM up to 0.23."""
    details = usage.get("prompt_tokens_details") or {}
    return usage if details.get("cached_tokens") else {**usage, "prompt_tokens_details": None}


def last_block_dropped(asked: Asked, usage: Json) -> Json:
    """As EAGLE and MTP have it."""
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    return set_cached(asked, usage, max(0, cached - 64))


def usage_on_the_last_choice(asked: Asked, reply: Reply) -> None:  # noqa: ARG001
    if not reply.is_stream:
        return
    events = reply.events
    at = next((i for i, (_, d) in enumerate(events) if isinstance(d, dict) and d.get("choices") == []), None)
    if at is not None:
        usage = events.pop(at)[1]["usage"]
        last = max(i for i, (_, data) in enumerate(events) if isinstance(data, dict))
        events[last][1]["usage"] = usage
        reply.events = events


class RandomText:
    """Another answer, of another length, to every request: a model at temperature 1."""

    def __init__(self) -> None:
        self.rng = random.Random(5)

    def __call__(self, asked: Asked, reply: Reply) -> None:  # noqa: ARG002
        if reply.status != 200:
            return
        words = [f"word{self.rng.randrange(9999)} " for _ in range(self.rng.randint(3, 60))]
        if reply.is_stream:
            events = reply.events
            chunks = [(n, d) for n, d in events if isinstance(d, dict)]
            first = chunks[0][1]
            done = {**first, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
            said = [
                ("", {**first, "choices": [{"index": 0, "delta": {"content": w}, "finish_reason": None}]})
                for w in words
            ]
            usage = [("", d) for _, d in chunks if d.get("choices") == []]
            for _, d in usage:
                d["usage"] = self._usage(d["usage"], len(words))
            reply.events = [*said, ("", done), *usage, ("", "[DONE]")]
            return
        value = orjson.loads(reply.body)
        value["choices"][0]["message"] = {"role": "assistant", "content": "".join(words)}
        value["choices"][0]["finish_reason"] = "stop"
        value["usage"] = self._usage(value["usage"], len(words))
        reply.body = orjson.dumps(value)

    @staticmethod
    def _usage(usage: Json, output: int) -> Json:
        return {**usage, "completion_tokens": output, "total_tokens": usage["prompt_tokens"] + output}


class SecondSight:
    """A cache that admits a block when it is seen for the second time: hits come from the third send on."""

    def __init__(self, block: int = 64) -> None:
        self.block = block
        self.seen: dict[int, int] = {}

    def __call__(self, asked: Asked, tokens: list[int], usage: Json) -> Json:
        key = hits = 0
        hitting = True
        for i in range((len(tokens) - 1) // self.block):
            key = hash((key, *tokens[i * self.block : (i + 1) * self.block]))
            seen = self.seen.get(key, 0)
            hitting = hitting and seen >= 2
            hits += hitting
            self.seen[key] = seen + 1
        return set_cached(asked, usage, hits * self.block)


class HiddenReasoning:
    """The same short answer after a different, unseen train of thought: output counts differ, texts do not."""

    def __init__(self) -> None:
        self.rng = random.Random(2)
        self.last = -1, 0

    def __call__(self, asked: Asked, usage: Json) -> Json:
        if self.last[0] != asked.number:
            self.last = asked.number, self.rng.randint(40, 400)
        output = usage["completion_tokens"] + self.last[1]
        return {**usage, "completion_tokens": output, "total_tokens": usage["prompt_tokens"] + output}


def says_nothing(asked: Asked, reply: Reply) -> None:  # noqa: ARG001
    """A model that ends at once."""
    if reply.status != 200:
        return
    if not reply.is_stream:
        value = orjson.loads(reply.body)
        value["choices"][0]["message"] = {"role": "assistant", "content": ""}
        value["choices"][0]["finish_reason"] = "stop"
        value["usage"]["completion_tokens"] = 1
        reply.body = orjson.dumps(value)
        return
    events = reply.events
    for _, data in events:
        if isinstance(data, dict):
            for choice in data["choices"]:
                choice["delta"] = {k: v for k, v in choice["delta"].items() if k == "role"}
                choice["finish_reason"] = choice["finish_reason"] and "stop"
            if data.get("usage"):
                data["usage"]["completion_tokens"] = 1
    reply.events = events


class RandomCalls(RandomText):
    """Another tool call to every request."""

    def __call__(self, asked: Asked, reply: Reply) -> None:  # noqa: ARG002
        if reply.status != 200:
            return
        words = " ".join(f"word{self.rng.randrange(9999)}" for _ in range(self.rng.randint(3, 60)))
        function = {"name": "Bash", "arguments": orjson.dumps({"command": words}).decode()}
        call = {"index": 0, "id": "call_0", "type": "function", "function": function}
        output = 5 + len(words.split())
        if reply.is_stream:
            chunks = [d for _, d in reply.events if isinstance(d, dict)]
            said = [
                {**chunks[0], "choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]},
                {**chunks[0], "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
            ]
            usage = [{**d, "usage": self._usage(d["usage"], output)} for d in chunks if d.get("choices") == []]
            reply.events = [*(("", d) for d in (*said, *usage)), ("", "[DONE]")]
            return
        value = orjson.loads(reply.body)
        value["choices"][0]["message"] = {"role": "assistant", "content": None, "tool_calls": [call]}
        value["choices"][0]["finish_reason"] = "tool_calls"
        value["usage"] = self._usage(value["usage"], output)
        reply.body = orjson.dumps(value)


def head_only(limit: int) -> Callable[[Asked, Json], Json]:
    """A cache that keeps no more than the head of a prompt: one mark behind it, or a short window."""

    def usage(asked: Asked, found: Json) -> Json:
        cached = (found.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        return set_cached(asked, found, min(cached, limit))

    return usage


def last_third_dropped(asked: Asked, usage: Json) -> Json:
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    return set_cached(asked, usage, cached * 2 // 3 // 64 * 64)


class StoresLate:
    """A cache whose entries can be used only some requests after they were sent, the larger the later."""

    def __init__(self, tokens_a_request: int) -> None:
        self.rate = tokens_a_request
        self.ready: dict[int, int] = {}

    def __call__(self, asked: Asked, tokens: list[int], usage: Json) -> Json:
        key = hits = 0
        hitting = True
        for i in range((len(tokens) - 1) // 64):
            key = hash((key, *tokens[i * 64 : (i + 1) * 64]))
            ready = self.ready.setdefault(key, asked.number + 1 + i * 64 // self.rate)
            hitting = hitting and asked.number >= ready
            hits += hitting
        return set_cached(asked, usage, hits * 64)


def constant_first_tool(asked: Asked) -> None:
    """A template with a long preamble that every prompt shares."""
    note = " ".join(f"instruction {i} of the template," for i in range(300))
    tool = {"type": "function", "function": {"name": "preamble", "description": note, "parameters": {}}}
    asked.body["tools"] = [tool, *asked.body.get("tools", [])]


class Neighbours:
    """Other tenants: with `chance`, a burst of long prompts before a request."""

    def __init__(self, chance: float, burst: int, words: int = 2500) -> None:
        self.rng = random.Random(3)
        self.chance, self.burst, self.words = chance, burst, words

    def __call__(self, asked: Asked) -> list[Json]:
        if self.rng.random() >= self.chance:
            return []
        return [
            {
                "model": asked.body["model"],
                "max_tokens": 1,
                "messages": [{"role": "user", "content": f"{self.rng.random()} " + "lorem ipsum " * self.words}],
            }
            for _ in range(self.rng.randint(1, self.burst))
        ]


MODELS: dict[str, Callable[[], Target]] = {
    "usage on the last choice": lambda: Target(back=Layer(answer=usage_on_the_last_choice)),
    "hidden reasoning": lambda: Target(back=Layer(usage=HiddenReasoning())),
    "says nothing": lambda: Target(back=Layer(answer=says_nothing)),
    "random tool calls": lambda: Target(back=Layer(answer=RandomCalls())),
    "random answers": lambda: Target(back=Layer(answer=RandomText())),
}
"""How models answer."""

CACHES: dict[str, Callable[[], Target]] = {
    "no count when 0": lambda: Target(back=Layer(usage=absent_when_zero)),
    "drops the last block": lambda: Target(back=Layer(usage=last_block_dropped)),
    "hits from the third send": lambda: Target(back=Layer(tokenized=SecondSight())),
    "long preamble": lambda: Target(back=Layer(request=constant_first_tool)),
    "granule 16": lambda: Target(block_size=16),
    "granule 256": lambda: Target(block_size=256),
    "system first": lambda: Target(template="system-first", block_size=32),
    "evicts a little": lambda: Target(pool_tokens=30_000, back=Layer(before=Neighbours(0.15, 3))),
}
"""How caches count."""

UNRELIABLE: dict[str, Callable[[], Target]] = {
    "keeps two thirds": lambda: Target(back=Layer(usage=last_third_dropped)),
    "stores late": lambda: Target(back=Layer(tokenized=StoresLate(700))),
    "evicts a lot": lambda: Target(pool_tokens=24_000, back=Layer(before=Neighbours(0.4, 4))),
    "2 replicas": lambda: Target(engines=2),
    "4 replicas": lambda: Target(engines=4),
}
"""Caches too poor to judge a gateway by."""
