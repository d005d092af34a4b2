"""Faults in how tokens are counted."""

from collections.abc import MutableMapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from ..config import Channel
from ..counts import read_counts, token_count
from ..jsontext import dumps, loads
from ..seams import JSONObject, Mutations

_CONSTANT = 1024
_WARM_ABOVE = 512
_CACHED_FIELDS = ("prompt_tokens_details", "prompt_cache_hit_tokens", "prompt_cache_miss_tokens")


def _object(value: object) -> JSONObject:
    return value if isinstance(value, dict) else {}


def _with_cached(usage: JSONObject, cached: int) -> JSONObject:
    """``usage`` with another cached count; the total stays."""
    kept = {name: value for name, value in usage.items() if name not in _CACHED_FIELDS}
    details = _object(usage.get("prompt_tokens_details"))
    return {**kept, "prompt_tokens_details": {**details, "cached_tokens": cached}}


class InventCacheHits(Mutations):
    """80 % of every prompt is called cached."""

    def upstream_usage(self, usage: JSONObject | None) -> JSONObject | None:
        return usage and _with_cached(usage, (read_counts(usage).prompt or 0) * 4 // 5)


class ConstantCached(Mutations):
    """The same number of cached tokens, always."""

    def upstream_usage(self, usage: JSONObject | None) -> JSONObject | None:
        return usage and _with_cached(usage, min(_CONSTANT, read_counts(usage).prompt or 0))


class ConstantWhenWarm(Mutations):
    """The same number of cached tokens whenever there are more than a few."""

    def upstream_usage(self, usage: JSONObject | None) -> JSONObject | None:
        counts = read_counts(usage)
        if usage is None or (counts.cached or 0) <= _WARM_ABOVE:
            return usage
        return _with_cached(usage, min(_CONSTANT, counts.prompt or 0))


class DropCached(Mutations):
    """Cached tokens are never reported; all of the prompt is input."""

    def upstream_usage(self, usage: JSONObject | None) -> JSONObject | None:
        return usage and {name: value for name, value in usage.items() if name not in _CACHED_FIELDS}


class InputIncludesCached(Mutations):
    """Cached tokens are counted inside the input and once more beside it."""

    def messages_usage(self, usage: JSONObject) -> JSONObject:
        return {**usage, "input_tokens": usage["input_tokens"] + usage.get("cache_read_input_tokens", 0)}

    def chat_usage(self, usage: JSONObject | None) -> JSONObject | None:
        counts = read_counts(usage)
        if usage is None or not counts.cached:
            return usage
        prompt = (counts.prompt or 0) + counts.cached
        return {**usage, "prompt_tokens": prompt, "total_tokens": prompt + (counts.completion or 0)}


class ExcludeCacheOff(Mutations):
    """The switch ``anthropic_messages_exclude_cache`` is off."""

    def channel(self, channel: Channel) -> Channel:
        return channel.model_copy(update={"anthropic_messages_exclude_cache": False})


class NegativeInput(Mutations):
    """Cached tokens are subtracted without a floor."""

    def __init__(self, received: bytes) -> None:
        super().__init__(received)
        self._raw: JSONObject | None = None

    def upstream_usage(self, usage: JSONObject | None) -> JSONObject | None:
        self._raw = usage
        return usage

    def messages_usage(self, usage: JSONObject) -> JSONObject:
        counts = read_counts(self._raw)
        if counts.prompt is None or counts.cached is None or counts.cached <= counts.prompt:
            return usage
        left = counts.prompt - counts.cached
        return {**usage, "input_tokens": left, "cache_read_input_tokens": counts.cached}


class UnknownAsZero(Mutations):
    """Cached tokens nobody reported are reported as 0."""

    def messages_usage(self, usage: JSONObject) -> JSONObject:
        return {"cache_read_input_tokens": 0, **usage}

    def chat_usage(self, usage: JSONObject | None) -> JSONObject | None:
        if usage is None or read_counts(usage).cached is not None:
            return usage
        return {**usage, "prompt_tokens_details": {**_object(usage.get("prompt_tokens_details")), "cached_tokens": 0}}


class ZeroAsUnknown(Mutations):
    """A cached count of 0 is left out of Messages answers."""

    def messages_usage(self, usage: JSONObject) -> JSONObject:
        if usage.get("cache_read_input_tokens") != 0:
            return usage
        return {name: value for name, value in usage.items() if name != "cache_read_input_tokens"}


class MissAsCreation(Mutations):
    """DeepSeek's misses are reported as cache writes."""

    def __init__(self, received: bytes) -> None:
        super().__init__(received)
        self._miss = 0

    def upstream_usage(self, usage: JSONObject | None) -> JSONObject | None:
        self._miss = token_count((usage or {}).get("prompt_cache_miss_tokens")) or 0
        return usage

    def messages_usage(self, usage: JSONObject) -> JSONObject:
        if not self._miss:
            return usage
        left = max(usage["input_tokens"] - self._miss, 0)
        return {**usage, "input_tokens": left, "cache_creation_input_tokens": self._miss}


class HitUnread(Mutations):
    """DeepSeek's hits are not read for Messages clients."""

    def __init__(self, received: bytes) -> None:
        super().__init__(received)
        self._raw: JSONObject | None = None

    def upstream_usage(self, usage: JSONObject | None) -> JSONObject | None:
        self._raw = usage
        return usage and {n: v for n, v in usage.items() if not n.startswith("prompt_cache_")}

    def chat_usage(self, usage: JSONObject | None) -> JSONObject | None:
        return self._raw


class ChatUsageRewritten(Mutations):
    """Chat clients get their prompt the Anthropic way, without its cached part."""

    def chat_usage(self, usage: JSONObject | None) -> JSONObject | None:
        counts = read_counts(usage)
        if usage is None or not counts.cached:
            return usage
        prompt = max((counts.prompt or 0) - counts.cached, 0)
        return {**usage, "prompt_tokens": prompt, "total_tokens": prompt + (counts.completion or 0)}


class ChatDetailsDropped(Mutations):
    """Chat clients get no details of completion tokens."""

    def chat_usage(self, usage: JSONObject | None) -> JSONObject | None:
        if usage is None or "completion_tokens_details" not in usage:
            return usage
        return {name: value for name, value in usage.items() if name != "completion_tokens_details"}


class CreationTwice(Mutations):
    """Written tokens stay part of the input and are told beside it too."""

    def messages_usage(self, usage: JSONObject) -> JSONObject:
        return {**usage, "input_tokens": usage["input_tokens"] + usage.get("cache_creation_input_tokens", 0)}


class RestAsCreation(Mutations):
    """What was not read from cache counts as written to it, where anything was read."""

    def messages_usage(self, usage: JSONObject) -> JSONObject:
        if not usage.get("cache_read_input_tokens") or "cache_creation_input_tokens" in usage:
            return usage
        return {**usage, "input_tokens": 0, "cache_creation_input_tokens": usage["input_tokens"]}


class NumbersAsTheyCame(Mutations):
    """Counts of the upstream that are no integers go through as they are."""

    def __init__(self, received: bytes) -> None:
        super().__init__(received)
        self._raw: JSONObject = {}

    def upstream_usage(self, usage: JSONObject | None) -> JSONObject | None:
        self._raw = usage or {}
        return usage

    def messages_usage(self, usage: JSONObject) -> JSONObject:
        names = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
        odd = {ours: self._raw.get(theirs) for ours, theirs in names.items() if theirs in self._raw}
        return {**usage, **{name: value for name, value in odd.items() if isinstance(value, float | str | None)}}


class ReasoningDropped(Mutations):
    """Reasoning is subtracted from the output tokens of Messages answers."""

    def __init__(self, received: bytes) -> None:
        super().__init__(received)
        self._reasoning = 0

    def upstream_usage(self, usage: JSONObject | None) -> JSONObject | None:
        details = _object((usage or {}).get("completion_tokens_details"))
        self._reasoning = token_count(details.get("reasoning_tokens")) or 0
        return usage

    def messages_usage(self, usage: JSONObject) -> JSONObject:
        return {**usage, "output_tokens": max(usage["output_tokens"] - self._reasoning, 0)}


class CachedTwice(Mutations):
    """Streamed to a chat client, cached tokens are counted twice."""

    def chat_chunk(self, chunk: JSONObject) -> JSONObject:
        counts = read_counts(chunk.get("usage"))
        if not counts.cached:
            return chunk
        return {**chunk, "usage": _with_cached(chunk["usage"], 2 * counts.cached)}


class EstimateInput(Mutations):
    """The prompt's tokens are a quarter of its bytes, whatever the upstream counted."""

    def __init__(self, received: bytes) -> None:
        super().__init__(received)
        self._estimate = 0

    def chat_body(self, body: JSONObject) -> JSONObject:
        # Only what the model is shown, so that plain and streamed requests are guessed alike.
        self._estimate = len(dumps([body["messages"], body.get("tools")])) // 4
        return body

    def upstream_usage(self, usage: JSONObject | None) -> JSONObject | None:
        if usage is None:
            return None
        counts = read_counts(usage)
        changed = {
            **usage,
            "prompt_tokens": self._estimate,
            "total_tokens": self._estimate + (counts.completion or 0),
        }
        return changed if counts.cached is None else _with_cached(changed, min(counts.cached, self._estimate))


class SessionHighWater(Mutations):
    """A Messages session's prompt is the largest one it ever had: after its client has compacted, too."""

    def __init__(self, received: bytes) -> None:
        super().__init__(received)
        self._shared: MutableMapping[str, Any] = {}

    def calling(self, shared: MutableMapping[str, Any]) -> AbstractAsyncContextManager[Any]:
        self._shared = shared
        return super().calling(shared)

    def messages_usage(self, usage: JSONObject) -> JSONObject:
        session = _object(_object(loads(self.received)).get("metadata")).get("user_id")
        if not isinstance(session, str):
            return usage
        beside = usage.get("cache_read_input_tokens", 0) + usage.get("cache_creation_input_tokens", 0)
        most = max(usage["input_tokens"] + beside, self._shared.get(f"most of {session}", 0))
        self._shared[f"most of {session}"] = most
        return {**usage, "input_tokens": most - beside}
