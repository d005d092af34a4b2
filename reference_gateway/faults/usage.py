"""Faults in how tokens are counted."""

from ..config import Channel
from ..counts import read_counts
from ..jsontext import dumps
from ..seams import JSONObject, Mutations

_CONSTANT = 1024
_WARM_ABOVE = 512
_CACHED_FIELDS = ("prompt_tokens_details", "prompt_cache_hit_tokens", "prompt_cache_miss_tokens")


def _with_cached(usage: JSONObject, cached: int) -> JSONObject:
    """``usage`` with another cached count; the total stays."""
    kept = {name: value for name, value in usage.items() if name not in _CACHED_FIELDS}
    details = usage.get("prompt_tokens_details")
    return {**kept, "prompt_tokens_details": {**(details or {}), "cached_tokens": cached}}


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
