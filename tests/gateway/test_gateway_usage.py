"""Token counts: reading any upstream's usage, and giving it in either dialect."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_gateway.counts import Counts, read_counts, repaired, token_count
from reference_gateway.messages.usage import messages_usage, stop_reason


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (0, 0),
        (7, 7),
        (7.0, 7),
        (7.9, 7),
        ("7", 7),
        ("7.0", 7),
        (None, None),
        (True, None),
        (-1, None),
        ("", None),
        ("many", None),
        ("nan", None),
        (float("inf"), None),
        (10**30, None),
        (1e300, None),
        ("9" * 50, None),
        ([], None),
        ({}, None),
    ],
)
def test_a_count_is_an_honest_integer_or_unknown(value: Any, count: int | None) -> None:
    assert token_count(value) == count
    assert type(token_count(value)) is type(count)


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        (None, Counts()),
        ([], Counts()),
        ({}, Counts()),
        ({"prompt_tokens": 10, "completion_tokens": 2}, Counts(10, 2)),
        ({"prompt_tokens": 10, "prompt_tokens_details": None}, Counts(10)),
        ({"prompt_tokens": 10, "prompt_tokens_details": {}}, Counts(10)),
        ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": None}}, Counts(10)),
        ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 0}}, Counts(10, cached=0)),
        ({"prompt_tokens": "10", "prompt_tokens_details": {"cached_tokens": 4.0}}, Counts(10, cached=4)),
        ({"prompt_tokens": 10, "prompt_cache_hit_tokens": 6, "prompt_cache_miss_tokens": 4}, Counts(10, cached=6)),
        ({"prompt_cache_hit_tokens": 6, "prompt_cache_miss_tokens": 4}, Counts(10, cached=6)),
        ({"total_tokens": 12, "completion_tokens": 2}, Counts(10, 2)),
        ({"prompt_tokens": 10, "prompt_tokens_details": {"cache_write_tokens": 3}}, Counts(10, created=3)),
        ({"prompt_tokens": 10, "prompt_tokens_details": {"created_cache_tokens": 3}}, Counts(10, created=3)),
        (
            {"prompt_tokens": 10, "prompt_tokens_details": {"cache_write_tokens": 3, "cache_creation_tokens": 3}},
            Counts(10, created=3),
        ),
    ],
)
def test_reading_usage(usage: Any, counts: Counts) -> None:
    assert read_counts(usage) == counts


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        (Counts(1000, 50, 900), {"input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 50}),
        (Counts(1000, 50, 0), {"input_tokens": 1000, "cache_read_input_tokens": 0, "output_tokens": 50}),
        (Counts(1000, 50), {"input_tokens": 1000, "output_tokens": 50}),
        (
            Counts(1000, 50, 600, 300),
            {
                "input_tokens": 100,
                "cache_creation_input_tokens": 300,
                "cache_read_input_tokens": 600,
                "output_tokens": 50,
            },
        ),
        (Counts(100, 5, 900), {"input_tokens": 0, "cache_read_input_tokens": 100, "output_tokens": 5}),
        (Counts(), {"input_tokens": 0, "output_tokens": 0}),
    ],
)
def test_exclusive_usage(counts: Counts, usage: dict[str, int]) -> None:
    assert messages_usage(counts, exclude_cache=True) == usage


def test_inclusive_usage_is_what_the_incident_describes() -> None:
    usage = messages_usage(Counts(1000, 50, 900), exclude_cache=False)
    assert usage == {"input_tokens": 1000, "cache_read_input_tokens": 900, "output_tokens": 50}


optional = st.none() | st.integers(0, 5000)


@settings(deadline=None)
@given(optional, optional, optional, optional)
def test_the_parts_add_up_and_none_is_negative(
    prompt: int | None, completion: int | None, cached: int | None, created: int | None
) -> None:
    usage = messages_usage(Counts(prompt, completion, cached, created), exclude_cache=True)
    parts = [usage["input_tokens"], usage.get("cache_read_input_tokens", 0)]
    parts.append(usage.get("cache_creation_input_tokens", 0))
    assert sum(parts) == (prompt or 0)
    assert min(parts) >= 0
    assert ("cache_read_input_tokens" in usage) == (cached is not None)
    assert ("cache_creation_input_tokens" in usage) == (created is not None)


GOOD = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}


@pytest.mark.parametrize(
    "usage",
    [
        GOOD,
        GOOD | {"prompt_tokens_details": None},
        GOOD | {"prompt_tokens_details": {"cached_tokens": None, "other": 1}},
        GOOD | {"prompt_tokens_details": {"cached_tokens": 10}, "completion_tokens_details": {"reasoning_tokens": 1}},
    ],
)
def test_chat_usage_that_is_right_is_not_touched(usage: dict[str, Any]) -> None:
    assert repaired(usage) is usage


@pytest.mark.parametrize(
    ("change", "right"),
    [
        ({"prompt_tokens": 10.0}, {}),
        ({"prompt_tokens": "10", "total_tokens": None}, {}),
        ({"prompt_tokens": None}, {}),
        ({"completion_tokens": None, "total_tokens": 12}, {"completion_tokens": 0}),
        (
            {"prompt_tokens_details": {"cached_tokens": 99, "x": 1}},
            {"prompt_tokens_details": {"cached_tokens": 10, "x": 1}},
        ),
        ({"prompt_tokens_details": {"cached_tokens": "4"}}, {"prompt_tokens_details": {"cached_tokens": 4}}),
        ({"prompt_tokens_details": {"cached_tokens": "?"}}, {"prompt_tokens_details": {"cached_tokens": None}}),
    ],
)
def test_chat_usage_is_repaired_where_the_types_ask_for_integers(change: dict[str, Any], right: dict[str, Any]) -> None:
    assert repaired(GOOD | change) == GOOD | right


@pytest.mark.parametrize(
    ("finish", "stopped_by", "has_calls", "reason"),
    [
        ("stop", None, False, ("end_turn", None)),
        ("stop", "END", False, ("stop_sequence", "END")),
        ("stop", "not asked for", False, ("end_turn", None)),
        ("stop", 151643, False, ("end_turn", None)),
        ("stop", None, True, ("tool_use", None)),
        ("tool_calls", None, True, ("tool_use", None)),
        ("function_call", None, True, ("tool_use", None)),
        ("length", None, False, ("max_tokens", None)),
        ("content_filter", None, False, ("refusal", None)),
        ("abort", None, False, None),
        ("insufficient_system_resource", None, False, None),
        (None, None, False, None),
    ],
)
def test_stop_reasons(finish: Any, stopped_by: Any, has_calls: bool, reason: tuple[str, str | None] | None) -> None:
    assert stop_reason(finish, stopped_by, stops=["END"], has_calls=has_calls) == reason
