"""The scripted upstream usages: what the upstream says, what an honest answer may say, and on whose authority.

The prompt is 1000 tokens, 900 of them cached, the answer 50, unless a case is about other numbers. Where the field
leaves several readings open, all of them are allowed: a case accuses only of what no reading allows.
"""

from __future__ import annotations

from typing import Any

from conformance.observe.usage_case import ABSENT, UsageCase, reading
from conformance.observe.usage_scripts_odd import ODD, OUTPUT
from conformance.observe.usage_scripts_streams import STREAMED
from conformance.observe.usage_values import (
    HONEST,
    HONEST_CHAT,
    NO_CREATION,
    PLAIN_CONTROL,
    deepseek,
    native,
    openai,
)

SANE = (
    UsageCase(
        name=PLAIN_CONTROL,
        rule="USE-01",
        shape="details.cached_tokens",
        kind="integers",
        usages=(openai(),),
        messages=(HONEST,),
        chat=(HONEST_CHAT,),
        authority=("AU", "OU"),
        why="OpenAI counts cached tokens inside prompt_tokens, Anthropic beside input_tokens",
        native=native(),
    ),
)

BELOW_ZERO = (
    UsageCase(
        name="cached-equals-prompt",
        rule="USE-02",
        shape="details.cached_tokens",
        kind="cached = prompt",
        usages=(openai(cached=1000),),
        messages=(reading(input=0, read=1000, created=NO_CREATION, output=50),),
        chat=(reading(prompt=1000, cached=1000, completion=50, total=1050),),
        authority=("AU", "OU"),
        why="an L2 hit may cover the whole prompt (vLLM); nothing is left to be input",
        native=native(input_tokens=0, cache_read_input_tokens=1000),
    ),
    UsageCase(
        name="cached-above-prompt",
        rule="USE-02",
        shape="details.cached_tokens",
        kind="cached > prompt",
        usages=(openai(cached=1200),),
        messages=(
            reading(input=0, read=(1000, 1200), created=NO_CREATION, output=50),
            reading(input=1000, read=(ABSENT, 0), created=NO_CREATION, output=50),
        ),
        authority=("INV", "AU"),
        why="cached tokens are a subset of the prompt; what exceeds it may be cut, or the total raised to it",
    ),
    UsageCase(
        name="hit-above-prompt",
        rule="USE-02",
        shape="hit and miss",
        kind="cached > prompt",
        usages=(deepseek(hit=1200, miss=0),),
        messages=(
            reading(input=0, read=(1000, 1200), created=NO_CREATION, output=50),
            reading(input=1000, read=(ABSENT, 0), created=NO_CREATION, output=50),
        ),
        authority=("INV", "DK"),
        why="hit + miss is the prompt; a hit above it may be cut, or the total raised to it",
    ),
    UsageCase(
        name="prompt-zero",
        rule="USE-02",
        shape="details.cached_tokens",
        kind="prompt 0, cached above it",
        usages=(openai(prompt=0),),
        messages=(reading(input=0, read=(ABSENT, 0, 900), created=NO_CREATION, output=50),),
        authority=("INV",),
        why="0 - 900 is no count",
    ),
    UsageCase(
        name="parts-above-prompt",
        rule="USE-02",
        shape="details.cached_tokens and cache_write_tokens",
        kind="cached + written > prompt",
        usages=(openai(cached=900, write=300),),
        messages=(
            reading(input=0, read=900, created=(100, 300), output=50),
            reading(input=0, read=(700, 900), created=300, output=50),
            reading(input=(0, 100), read=900, created=NO_CREATION, output=50),
        ),
        authority=("INV", "AU"),
        why="the parts may be cut to the prompt, or the total raised to them",
    ),
)


def _unknown(name: str, shape: str, kind: str, usage: Any, why: str, native_usage: Any = None) -> UsageCase:
    return UsageCase(
        name=name,
        rule="USE-03",
        shape=shape,
        kind=kind,
        usages=(usage,),
        messages=(reading(input=1000, read=ABSENT, created=NO_CREATION, output=50),),
        chat=(reading(prompt=1000, cached=ABSENT, completion=50, total=1050),),
        authority=("AU", "INV"),
        why=why,
        native=native_usage,
    )


UNKNOWN = (
    _unknown(
        "no-details",
        "no details",
        "integers",
        openai(without=("prompt_tokens_details",)),
        "vLLM without --enable-prompt-tokens-details: what was cached is unknown, not 0",
        {"input_tokens": 1000, "output_tokens": 50},
    ),
    _unknown("details-null", "details null", "integers", openai(details=None), "null says nothing"),
    _unknown("details-empty", "details empty", "integers", openai(details={}), "an empty object says nothing"),
    _unknown("cached-null", "details.cached_tokens", "cached null", openai(cached=None), "null is not 0"),
    _unknown(
        "other-details",
        "details without cached_tokens",
        "integers",
        openai(details={"audio_tokens": 0}),
        "a count of audio says nothing of the cache",
    ),
    UsageCase(
        name="cached-zero",
        rule="USE-03",
        shape="details.cached_tokens",
        kind="cached 0",
        usages=(openai(cached=0),),
        messages=(reading(input=1000, read=0, created=NO_CREATION, output=50),),
        chat=(reading(prompt=1000, cached=0, completion=50, total=1050),),
        authority=("AU", "INV"),
        why="a reported 0 is knowledge: nothing was read from cache",
        native=native(input_tokens=1000, cache_read_input_tokens=0),
    ),
)

_HIT = reading(input=100, read=900, created=NO_CREATION, output=50)

DEEPSEEK = (
    UsageCase(
        name="hit-and-miss",
        rule="USE-04",
        shape="hit and miss",
        kind="integers",
        usages=(deepseek(),),
        messages=(_HIT,),
        chat=(HONEST_CHAT,),
        authority=("DK", "AU"),
        why="prompt = hit + miss; a miss is computed, not written at a surcharge",
    ),
    UsageCase(
        name="hit-zero",
        rule="USE-04",
        shape="hit and miss",
        kind="hit 0",
        usages=(deepseek(hit=0, miss=1000),),
        messages=(reading(input=1000, read=(0, ABSENT), created=NO_CREATION, output=50),),
        authority=("DK", "AU"),
        why="all of the prompt missed: 1000 input tokens and no write",
    ),
    UsageCase(
        name="all-hit",
        rule="USE-04",
        shape="hit and miss",
        kind="miss 0",
        usages=(deepseek(hit=1000, miss=0),),
        messages=(reading(input=0, read=1000, created=NO_CREATION, output=50),),
        authority=("DK", "AU"),
        why="all of the prompt hit",
    ),
    UsageCase(
        name="hit-and-details",
        rule="USE-04",
        shape="hit, miss and details.cached_tokens",
        kind="integers",
        usages=(deepseek(prompt_tokens_details={"cached_tokens": 900}),),
        messages=(_HIT,),
        authority=("DK", "OU"),
        why="the same fact in both spellings is counted once",
    ),
    UsageCase(
        name="hit-only",
        rule="USE-04",
        shape="hit without miss",
        kind="integers",
        usages=(deepseek(miss=None),),
        messages=(_HIT,),
        authority=("DK",),
        why="the miss adds nothing that prompt and hit do not say",
    ),
    UsageCase(
        name="hit-and-miss-alone",
        rule="USE-04",
        shape="hit and miss without prompt_tokens",
        kind="integers",
        usages=({"prompt_cache_hit_tokens": 900, "prompt_cache_miss_tokens": 100, "completion_tokens": 50},),
        messages=(
            reading(input=100, read=900, created=NO_CREATION, output=50),
            # Without prompt_tokens a reader may know the prompt by its hit alone, or hold the whole to be unknown.
            reading(input=0, read=(ABSENT, 0, 900), created=NO_CREATION, output=50),
        ),
        authority=("DK",),
        why="prompt = hit + miss",
    ),
)

_WRITTEN = (
    reading(input=100, read=700, created=200, output=50),
    reading(input=300, read=700, created=NO_CREATION, output=50),  # an untold write stays part of the input
)

CREATION = (
    UsageCase(
        name="no-write",
        rule="USE-08",
        shape="details.cached_tokens",
        kind="another hit length",
        usages=(openai(cached=700),),
        messages=(reading(input=300, read=700, created=NO_CREATION, output=50),),
        authority=("AU",),
        why="the upstream reports no write, so there is none to report",
        native=native(input_tokens=300, cache_read_input_tokens=700),
    ),
    UsageCase(
        name="write",
        rule="USE-08",
        shape="details.cached_tokens and cache_write_tokens",
        kind="integers",
        usages=(openai(cached=700, write=200),),
        messages=_WRITTEN,
        authority=("AU", "OU"),
        why="written tokens are part of prompt_tokens: 100 + 700 + 200",
        native=native(input_tokens=100, cache_read_input_tokens=700, cache_creation_input_tokens=200),
    ),
    UsageCase(
        name="write-zero",
        rule="USE-08",
        shape="details.cached_tokens and cache_write_tokens",
        kind="write 0",
        usages=(openai(cached=700, write=0),),
        messages=(reading(input=300, read=700, created=NO_CREATION, output=50),),
        authority=("AU", "OU"),
        why="nothing was written",
    ),
    UsageCase(
        name="created",
        rule="USE-08",
        shape="details.cached_tokens and created_cache_tokens",
        kind="integers",
        usages=(openai(details={"cached_tokens": 700, "created_cache_tokens": 200}),),
        messages=_WRITTEN,
        authority=("AU", "INV"),
        why="vLLM 0.33's name for written tokens",
    ),
    UsageCase(
        name="write-only",
        rule="USE-08",
        shape="details.cached_tokens and cache_write_tokens",
        kind="cached 0, written > 0",
        usages=(openai(cached=0, write=200),),
        messages=(
            reading(input=800, read=0, created=200, output=50),
            reading(input=1000, read=0, created=NO_CREATION, output=50),
        ),
        authority=("AU", "OU"),
        why="a cold request that fills the cache: 800 + 0 + 200",
    ),
)


USAGE_CASES: tuple[UsageCase, ...] = (
    *SANE,
    *BELOW_ZERO,
    *UNKNOWN,
    *DEEPSEEK,
    *CREATION,
    *ODD,
    *OUTPUT,
    *STREAMED,
)

NOT_WHEN_QUICK = frozenset(
    (
        "prompt-zero", "details-empty", "other-details", "all-hit", "hit-only", "hit-and-miss-alone",
        "prompt-missing", "completion-null", "total-missing", "fractions", "words", "booleans", "lists", "huge",
        "usage-list", "usage-text", "details-list", "zeros", "same-twice", "extra-then-null", "strings-stream",
        "completion-null-stream", "huger-stream", "usage-list-stream",
    )
)  # fmt: skip
"""Cases near another one, left out of the quick budget."""

CASES_BY_NAME: dict[str, UsageCase] = {case.name: case for case in USAGE_CASES}
