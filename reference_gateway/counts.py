"""Token counts out of an upstream's ``usage``, whatever it looks like."""

import math
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

_LARGEST = 2**53 - 1
"""Above this a JavaScript client cannot hold an integer, and no prompt is that long: not a count."""

_CREATED_FIELDS = ("cache_write_tokens", "created_cache_tokens", "cache_creation_tokens")


def token_count(value: Any) -> int | None:
    """``value`` as a count: integers, integral floats and their decimal strings; anything else is unknown (None)."""
    if isinstance(value, str):
        try:
            value = float(value) if len(value) < 32 else None
        except ValueError:
            return None
    if value is None or isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        value = int(value)
    return value if 0 <= value <= _LARGEST else None


@dataclass(frozen=True)
class Counts:
    """What the upstream reported; None where it reported nothing usable.

    ``prompt`` includes ``cached`` (read from a cache) and ``created`` (written to one).
    """

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    created: int | None = None


def read_counts(usage: Any) -> Counts:
    """Read OpenAI, vLLM and DeepSeek usage.

    Cached tokens come from ``prompt_tokens_details.cached_tokens`` or DeepSeek's ``prompt_cache_hit_tokens``
    (whose miss is no write). Writes have several names; only the first one found counts, so none counts twice.
    """
    if not isinstance(usage, dict):
        return Counts()
    details = usage.get("prompt_tokens_details")
    if not isinstance(details, dict):
        details = {}
    hit = token_count(usage.get("prompt_cache_hit_tokens"))
    cached = token_count(details.get("cached_tokens"))
    created = (token_count(details.get(name)) for name in _CREATED_FIELDS)
    completion = token_count(usage.get("completion_tokens"))
    prompt = token_count(usage.get("prompt_tokens"))
    if prompt is None:
        miss, total = token_count(usage.get("prompt_cache_miss_tokens")), token_count(usage.get("total_tokens"))
        if hit is not None and miss is not None:
            prompt = hit + miss
        elif total is not None and completion is not None and total >= completion:
            prompt = total - completion
    return Counts(
        prompt=prompt,
        completion=completion,
        cached=hit if cached is None else cached,
        created=next((count for count in created if count is not None), None),
    )


def repaired(usage: Json) -> Json:
    """Chat usage with integers where the OpenAI types ask for them; the same object if it needs no repair."""
    counts = read_counts(usage)
    prompt, completion = counts.prompt or 0, counts.completion or 0
    total = token_count(usage.get("total_tokens"))
    right: Json = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion if total is None else total,
    }
    changed = {name: value for name, value in right.items() if not _is(usage.get(name), value)}
    details = usage.get("prompt_tokens_details")
    if isinstance(details, dict) and details.get("cached_tokens") is not None:
        cached = token_count(details["cached_tokens"])
        bounded = None if cached is None else min(cached, prompt)
        if not _is(details["cached_tokens"], bounded):
            changed["prompt_tokens_details"] = {**details, "cached_tokens": bounded}
    return {**usage, **changed} if changed else usage


def _is(value: Any, count: int | None) -> bool:
    return type(value) is int and value == count
