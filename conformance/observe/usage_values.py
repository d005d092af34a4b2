"""The numbers of the scripted usages, in each dialect's own members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.observe.usage_case import ABSENT, reading

PROMPT, CACHED, COMPLETION = 1000, 900, 50

PLAIN_CONTROL = "sane"
STREAM_CONTROL = "sane-stream"
"""The cases whose usage is as it should be: what goes wrong there is no other case's to tell."""

NO_CREATION = (ABSENT, 0)
"""No upstream of these wrote anything at a surcharge: saying so and saying nothing are both right."""

HONEST = reading(input=100, read=900, created=NO_CREATION, output=50)
HONEST_CHAT = reading(prompt=1000, cached=900, completion=50, total=1050)

_UNSET: Any = object()


def openai(
    *,
    prompt: Any = PROMPT,
    completion: Any = COMPLETION,
    cached: Any = CACHED,
    write: int | None = None,
    reasoning: int | None = None,
    details: Any = _UNSET,
    without: tuple[str, ...] = (),
) -> dict[str, Any]:
    """OpenAI's usage. `details` replaces prompt_tokens_details; `without` leaves members out."""
    whole = all(isinstance(n, int) and not isinstance(n, bool) for n in (prompt, completion))
    usage: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion if whole else PROMPT + COMPLETION,
    }
    if details is not _UNSET:
        usage["prompt_tokens_details"] = details
    else:
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
        if write is not None:
            usage["prompt_tokens_details"]["cache_write_tokens"] = write
    if reasoning is not None:
        usage["completion_tokens_details"] = {"reasoning_tokens": reasoning}
    return {name: value for name, value in usage.items() if name not in without}


def deepseek(*, hit: int = CACHED, miss: int | None = PROMPT - CACHED, **more: Any) -> dict[str, Any]:
    """DeepSeek's usage: prompt_tokens = hit + miss, no details."""
    usage = openai(without=("prompt_tokens_details",)) | {"prompt_cache_hit_tokens": hit}
    return usage | ({} if miss is None else {"prompt_cache_miss_tokens": miss}) | more


def native(**changes: int) -> Mapping[str, Any]:
    """The sane usage as an upstream that speaks Messages reports it."""
    return {
        "input_tokens": PROMPT - CACHED,
        "cache_read_input_tokens": CACHED,
        "output_tokens": COMPLETION,
        **changes,
    }
