"""Token counts out of usage objects, whatever a gateway put into them.

A count that is no integer (a float, a string, a boolean) reads as None here and stays as it came in `Usage.raw`,
where the rules that judge types find it. Nothing is clamped: a negative count is a finding, not noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from conformance.wire.exchange import Usage

_MESSAGES_PROMPT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


_BEYOND = 2**63
"""No count is as large: such a number is none, and arithmetic with it would overflow."""


def count(value: Any) -> int | None:
    """`value` where it is an integer of at most 64 bits, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _BEYOND else None


def messages_usage(raw: Any) -> Usage:
    """Usage of an Anthropic message: the prompt is input + cache read + cache creation, an absent part counting 0.

    `prompt` is None when all three are absent, and when one is there but no integer: a sum would then be a guess.
    """
    if not isinstance(raw, Mapping):
        return Usage()
    present = [raw[name] for name in _MESSAGES_PROMPT if raw.get(name) is not None]
    counts = [number for number in map(count, present) if number is not None]
    return Usage(
        prompt=sum(counts) if counts and len(counts) == len(present) else None,
        cached=count(raw.get("cache_read_input_tokens")),
        created=count(raw.get("cache_creation_input_tokens")),
        output=count(raw.get("output_tokens")),
        raw=dict(raw),
    )


def chat_usage(raw: Any) -> Usage:
    """Usage of an OpenAI chat completion: `prompt_tokens` is the whole prompt, cached tokens a subset of it.

    Cached tokens come from `prompt_tokens_details.cached_tokens` or, where that is absent, from DeepSeek's
    `prompt_cache_hit_tokens`; written ones from OpenAI's `cache_write_tokens` or vLLM's `created_cache_tokens`.
    """
    if not isinstance(raw, Mapping):
        return Usage()
    found = raw.get("prompt_tokens_details")
    details: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    return Usage(
        prompt=count(raw.get("prompt_tokens")),
        cached=count(_first(details.get("cached_tokens"), raw.get("prompt_cache_hit_tokens"))),
        created=count(_first(details.get("cache_write_tokens"), details.get("created_cache_tokens"))),
        output=count(raw.get("completion_tokens")),
        raw=dict(raw),
    )


def last_values(start: Any, deltas: Iterable[Any]) -> dict[str, Any] | None:
    """A stream's final usage object: each field's last value that is not null, over `start` and every delta.

    Counts in a `message_delta` are cumulative totals (Anthropic streaming), so the last one replaces; it is what
    the official SDK's accumulator does. None when no usage object came at all.
    """
    merged: dict[str, Any] | None = None
    for usage in (start, *deltas):
        if isinstance(usage, Mapping):
            merged = merged or {}
            merged.update({name: value for name, value in usage.items() if value is not None or name not in merged})
    return merged


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)
