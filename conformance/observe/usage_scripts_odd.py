"""Scripted usages whose values are no counts, and those that tell of reasoning."""

from __future__ import annotations

from typing import Any

from conformance.observe.usage_case import ABSENT, ANY, UsageCase, reading
from conformance.observe.usage_values import NO_CREATION, native, openai

_REFUSABLE = frozenset(("fractions", "words", "booleans", "lists", "huger", "usage-list", "usage-text", "details-list"))
"""Values that no upstream sends by its own schema. Null, missing, floats, strings and large numbers do occur."""


def _odd(
    name: str, kind: str, usage: Any, why: str, *, shape: str = "details.cached_tokens", **values: Any
) -> UsageCase:
    """A case of USE-09: whatever an odd value is taken for, counts come as integers."""
    honest: dict[str, Any] = {"input": ANY, "read": (ANY, ABSENT), "created": (ANY, ABSENT), "output": ANY} | values
    return UsageCase(
        name=name,
        rule="USE-09",
        shape=shape,
        kind=kind,
        usages=(usage,),
        messages=(reading(**honest),),
        authority=("AS",),
        why=why,
        may_refuse=name in _REFUSABLE,
    )


ODD = (
    _odd("prompt-null", "prompt null", openai(prompt=None), "a required count stays one"),
    _odd("completion-null", "completion null", openai(completion=None), "a required count stays one", input=100),
    _odd(
        "prompt-missing",
        "integers",
        openai(without=("prompt_tokens",)),
        "a required count stays one",
        shape="no prompt_tokens",
    ),
    _odd(
        "completion-missing",
        "integers",
        openai(without=("completion_tokens",)),
        "a required count stays one",
        shape="no completion_tokens",
    ),
    _odd(
        "total-missing",
        "integers",
        openai(without=("total_tokens",)),
        "a sum adds nothing to its parts",
        shape="no total_tokens",
        input=100,
        read=900,
        output=50,
    ),
    _odd(
        "floats",
        "floats that are whole",
        openai(prompt=1000.0, completion=50.0, cached=900.0),
        "1000.0 tokens are 1000, or unknown",
        input=(0, 100, 1000),
        read=(ABSENT, 0, 900),
        output=(0, 50),
    ),
    _odd("fractions", "fractions", openai(prompt=1000.5, completion=50.5, cached=0.5), "there is no half token"),
    _odd(
        "strings",
        "decimal strings",
        openai(prompt="1000", completion="50", cached="900"),
        '"1000" tokens are 1000, or unknown',
        input=(0, 100, 1000),
        read=(ABSENT, 0, 900),
        output=(0, 50),
    ),
    _odd(
        "words",
        "strings that are no numbers",
        openai(prompt="many", completion="some", cached="most"),
        "words are unknown counts",
        output=0,
        input=0,
        read=(ABSENT, 0),
    ),
    _odd("booleans", "booleans", openai(prompt=True, completion=True, cached=True), "true is no count"),
    _odd(
        "lists",
        "lists",
        openai(prompt=[1000], completion=[50], cached=[900]),
        "a list is no count",
        output=ANY,
        read=(ANY, ABSENT),
    ),
    _odd(
        "huge",
        "above 2^53",
        openai(prompt=10**17, completion=10**17, cached=900),
        "a JavaScript client cannot hold it; any count will do",
    ),
    _odd(
        "huger",
        "above 2^64",
        openai(prompt=10**30, completion=10**30, cached=900),
        "no machine integer holds it; any count will do",
    ),
    _odd("usage-null", "null", None, "usage is required in Anthropic's answer", shape="no usage object"),
    _odd("usage-list", "a list", [], "a list is no usage", shape="no usage object"),
    _odd("usage-text", "a string", "none", "a string is no usage", shape="no usage object"),
    _odd("usage-empty", "an empty object", {}, "an empty usage says nothing", shape="no usage object"),
    _odd(
        "details-list",
        "a list",
        openai(details=[900]),
        "a list is no details object",
        shape="details.cached_tokens",
        output=50,
    ),
    _odd(
        "zeros", "all 0", openai(prompt=0, completion=0, cached=0), "0 is a count", input=0, output=0, read=(ABSENT, 0)
    ),
)

OUTPUT = (
    UsageCase(
        name="reasoning",
        rule="USE-10",
        shape="completion_tokens_details.reasoning_tokens",
        kind="reasoning inside completion",
        usages=(openai(completion=150, reasoning=100),),
        messages=(reading(input=100, read=900, created=NO_CREATION, output=150),),
        chat=(reading(prompt=1000, cached=900, completion=150, reasoning=100, total=1150),),
        authority=("OU",),
        why="completion_tokens includes reasoning: 150 were generated and are paid for",
        reasoning=True,
        native=native(output_tokens=150),
    ),
    UsageCase(
        name="all-reasoning",
        rule="USE-10",
        shape="completion_tokens_details.reasoning_tokens",
        kind="all of completion is reasoning",
        usages=(openai(completion=100, reasoning=100),),
        messages=(reading(input=100, read=900, created=NO_CREATION, output=100),),
        authority=("OU",),
        why="an answer may spend all its tokens thinking",
        reasoning=True,
    ),
    UsageCase(
        name="reasoning-beside",
        rule="USE-10",
        shape="completion_tokens_details.reasoning_tokens",
        kind="reasoning above completion",
        usages=(openai(completion=50, reasoning=100),),
        messages=(reading(input=100, read=900, created=NO_CREATION, output=(50, 100, 150)),),
        authority=("OU", "INV"),
        why="some upstreams count reasoning beside completion: either sum is told",
        reasoning=True,
    ),
)
