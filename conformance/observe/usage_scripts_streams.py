"""The scripted usages of streams: where a usage stands, how often, and what it says there."""

from __future__ import annotations

from typing import Any

from conformance.observe.usage_case import ABSENT, ANY, UsageCase, reading
from conformance.observe.usage_values import (
    HONEST,
    HONEST_CHAT,
    NO_CREATION,
    STREAM_CONTROL,
    deepseek,
    native,
    openai,
)
from conformance.scripting.chat import At

_SHAPE = "details.cached_tokens"
_PARTIAL = openai(prompt=990, completion=7, cached=384)
"""What an upstream reports before it has finished: every number differs from the last one's."""


def _placed(name: str, at: At, usages: tuple[Any, ...], why: str, kind: str = "integers") -> UsageCase:
    return UsageCase(
        name=name,
        rule="STR-05",
        shape=_SHAPE,
        kind=kind,
        form="stream",
        at=at,
        usages=usages,
        messages=(HONEST,),
        chat=(HONEST_CHAT,),
        authority=("OU",),
        why=why,
    )


PLACED = (
    UsageCase(
        name=STREAM_CONTROL,
        rule="USE-01",
        shape=_SHAPE,
        kind="integers",
        form="stream",
        at=At.EXTRA,
        usages=(openai(),),
        messages=(HONEST,),
        chat=(HONEST_CHAT,),
        authority=("AU", "OU"),
        why="with include_usage one extra chunk before [DONE] carries the usage",
        native=native(),
    ),
    _placed("on-finish-chunk", At.FINISH, (openai(),), "DeepSeek and others put usage on the last chunk with choices"),
    _placed(
        "two-extra-chunks",
        At.EXTRA_EACH,
        (_PARTIAL, openai()),
        "of several usages the last one holds",
        "partial, then whole",
    ),
    _placed(
        "finish-then-extra",
        At.FINISH_EXTRA,
        (_PARTIAL, openai()),
        "of several usages the last one holds",
        "partial, then whole",
    ),
    _placed(
        "content-then-finish",
        At.CONTENT_FINISH,
        (_PARTIAL, openai()),
        "of several usages the last one holds",
        "partial, then whole",
    ),
    _placed(
        "on-every-chunk",
        At.EVERY,
        (_PARTIAL, openai()),
        "vLLM's continuous_usage_stats: each chunk's is a total",
        "growing",
    ),
    _placed("same-twice", At.FINISH_EXTRA, (openai(), openai()), "the same usage twice is one usage", "the same twice"),
    _placed("extra-then-null", At.EXTRA_THEN_NULL, (openai(),), "null on a later chunk takes nothing back"),
    _placed("extra-before-finish", At.BEFORE_FINISH, (openai(),), "a usage chunk may come before the finish chunk"),
    _placed("no-choices-member", At.NO_CHOICES, (openai(),), "some upstreams leave choices out of the extra chunk"),
)

_NOTHING = reading(input=ANY, read=(ANY, ABSENT), created=(ANY, ABSENT), output=ANY)

WITHOUT = (
    UsageCase(
        name="never",
        rule="STR-06",
        shape="no usage object",
        kind="absent",
        form="stream",
        at=At.NEVER,
        usages=(),
        messages=(_NOTHING,),
        chat=({},),
        authority=("AS",),
        why="message_delta's usage is required, whatever the upstream sent",
    ),
    UsageCase(
        name="nulls",
        rule="STR-06",
        shape="no usage object",
        kind="null",
        form="stream",
        at=At.NULLS,
        usages=(),
        messages=(_NOTHING,),
        chat=({},),
        authority=("AS", "OU"),
        why="OpenAI sends usage: null on every chunk but the extra one",
    ),
)


def _extra(
    name: str,
    rule: str,
    shape: str,
    kind: str,
    usage: Any,
    authority: tuple[str, ...],
    why: str,
    messages: Any,
    chat: Any = (),
    **more: Any,
) -> UsageCase:
    return UsageCase(
        name=name,
        rule=rule,
        shape=shape,
        kind=kind,
        form="stream",
        at=more.pop("at", At.EXTRA),
        usages=(usage,),
        messages=(messages,) if isinstance(messages, dict) else messages,
        chat=chat,
        authority=authority,
        why=why,
        **more,
    )


_CACHE = ("read", "created", "cached")

EXTRAS = (
    _extra(
        "cached-above-prompt-stream",
        "USE-02",
        _SHAPE,
        "cached > prompt",
        openai(cached=1200),
        ("INV", "AU"),
        "the same floor holds in streams",
        (
            reading(input=0, read=(1000, 1200), created=NO_CREATION, output=50),
            reading(input=1000, read=(ABSENT, 0), created=NO_CREATION, output=50),
        ),
    ),
    _extra(
        "no-details-stream",
        "USE-03",
        "no details",
        "integers",
        openai(without=("prompt_tokens_details",)),
        ("AU", "INV"),
        "unknown is not 0 in streams either",
        reading(input=1000, read=ABSENT, created=NO_CREATION, output=50),
        (reading(prompt=1000, cached=ABSENT, completion=50, total=1050),),
    ),
    _extra(
        "cached-zero-stream",
        "USE-03",
        _SHAPE,
        "cached 0",
        openai(cached=0),
        ("AU", "INV"),
        "a reported 0 is knowledge",
        reading(input=1000, read=0, created=NO_CREATION, output=50),
        (reading(prompt=1000, cached=0, completion=50, total=1050),),
        native=native(input_tokens=1000, cache_read_input_tokens=0),
    ),
    _extra(
        "hit-and-miss-stream",
        "USE-04",
        "hit and miss",
        "integers",
        deepseek(),
        ("DK", "AU"),
        "a miss is no write",
        HONEST,
        (HONEST_CHAT,),
    ),
    _extra(
        "hit-and-miss-on-finish",
        "USE-04",
        "hit and miss",
        "integers",
        deepseek(),
        ("DK", "AU"),
        "DeepSeek's own place for it",
        HONEST,
        at=At.FINISH,
        control="on-finish-chunk",
    ),
    _extra(
        "write-stream",
        "USE-08",
        "details.cached_tokens and cache_write_tokens",
        "integers",
        openai(cached=700, write=200),
        ("AU", "OU"),
        "100 + 700 + 200 in streams too",
        (
            reading(input=100, read=700, created=200, output=50),
            reading(input=300, read=700, created=NO_CREATION, output=50),
        ),
    ),
    _extra(
        "floats-stream",
        "USE-09",
        _SHAPE,
        "floats that are whole",
        openai(prompt=1000.0, completion=50.0, cached=900.0),
        ("AS",),
        "counts in message_delta are integers",
        reading(input=(0, 100, 1000), read=(ABSENT, 0, 900), created=NO_CREATION, output=(0, 50)),
    ),
    _extra(
        "strings-stream",
        "USE-09",
        _SHAPE,
        "decimal strings",
        openai(prompt="1000", completion="50", cached="900"),
        ("AS",),
        "counts in message_delta are integers",
        reading(input=(0, 100, 1000), read=(ABSENT, 0, 900), created=NO_CREATION, output=(0, 50)),
    ),
    _extra(
        "completion-null-stream",
        "USE-09",
        _SHAPE,
        "completion null",
        openai(completion=None),
        ("AS",),
        "output_tokens is required",
        reading(input=(0, 100), read=(ABSENT, 900), created=NO_CREATION, output=ANY),
    ),
    _extra(
        "huger-stream",
        "USE-09",
        _SHAPE,
        "above 2^64",
        openai(prompt=10**30, completion=10**30),
        ("AS",),
        "no machine integer holds it",
        _NOTHING,
        may_refuse=True,
    ),
    _extra("usage-list-stream", "STR-06", "no usage object", "a list", [], ("AS",), "a list is no usage", _NOTHING),
    _extra(
        "reasoning-stream",
        "USE-10",
        "completion_tokens_details.reasoning_tokens",
        "reasoning inside completion",
        openai(completion=150, reasoning=100),
        ("OU",),
        "reasoning is paid for in streams too",
        reading(input=100, read=900, created=NO_CREATION, output=150),
        (reading(prompt=1000, cached=900, completion=150, reasoning=100, total=1150),),
        reasoning=True,
        native=native(output_tokens=150),
        may_refuse=True,
    ),
)

STREAMED: tuple[UsageCase, ...] = (*PLACED, *WITHOUT, *EXTRAS)
