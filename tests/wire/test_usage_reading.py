from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.wire.exchange import Usage
from conformance.wire.usage import chat_usage, last_values, messages_usage


def normalised(usage: Usage) -> tuple[int | None, ...]:
    return usage.prompt, usage.cached, usage.created, usage.output


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (
            {"input_tokens": 100, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 7, "output_tokens": 5},
            (1007, 900, 7, 5),
        ),
        ({"input_tokens": 100, "output_tokens": 5}, (100, None, None, 5)),
        (
            {"input_tokens": 0, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 0},
            (0, 0, 0, 0),
        ),
        ({"input_tokens": 100, "cache_read_input_tokens": None}, (100, None, None, None)),
        ({"cache_read_input_tokens": 900}, (900, 900, None, None)),
        ({"input_tokens": "100", "cache_read_input_tokens": 900}, (None, 900, None, None)),
        ({"input_tokens": 100.0, "output_tokens": True}, (None, None, None, None)),
        ({"input_tokens": -50, "cache_read_input_tokens": 100}, (50, 100, None, None)),
        ({"input_tokens": 2**63 - 1}, (2**63 - 1, None, None, None)),
        ({"input_tokens": 10**20}, (None, None, None, None)),
        ({}, (None, None, None, None)),
        (None, (None, None, None, None)),
        ([1], (None, None, None, None)),
    ],
)
def test_messages_usage(raw: Any, expected: tuple[int | None, ...]) -> None:
    assert normalised(messages_usage(raw)) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (
            {"prompt_tokens": 1000, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 900}},
            (1000, 900, None, 5),
        ),
        ({"prompt_tokens": 1000, "prompt_tokens_details": None}, (1000, None, None, None)),
        ({"prompt_tokens": 1000, "prompt_tokens_details": {"cached_tokens": 0}}, (1000, 0, None, None)),
        ({"prompt_tokens": 1000, "prompt_tokens_details": {"cache_write_tokens": 3}}, (1000, None, 3, None)),
        ({"prompt_tokens": 1000, "prompt_tokens_details": {"created_cache_tokens": 4}}, (1000, None, 4, None)),
        (
            {"prompt_tokens": 10, "prompt_cache_hit_tokens": 8, "prompt_cache_miss_tokens": 2},
            (10, 8, None, None),
        ),
        ({"prompt_tokens": "1000", "prompt_tokens_details": "no"}, (None, None, None, None)),
        ("usage", (None, None, None, None)),
    ],
)
def test_chat_usage(raw: Any, expected: tuple[int | None, ...]) -> None:
    assert normalised(chat_usage(raw)) == expected


def test_raw_keeps_what_the_counts_cannot() -> None:
    raw = {"input_tokens": "100", "service_tier": "standard"}
    assert messages_usage(raw).raw == raw


ODD = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
)
NAMES = st.sampled_from(["input_tokens", "cache_read_input_tokens", "output_tokens", "prompt_tokens", "x"])


@given(ODD | st.dictionaries(NAMES | st.just("prompt_tokens_details"), ODD | st.dictionaries(NAMES, ODD)))
def test_no_usage_object_breaks_the_reading(raw: Any) -> None:
    for usage in (messages_usage(raw), chat_usage(raw)):
        assert all(value is None or type(value) is int for value in normalised(usage))


def test_the_last_value_that_is_not_null_wins() -> None:
    start = {"input_tokens": 709, "output_tokens": 1, "cache_read_input_tokens": None}
    deltas = [{"output_tokens": 3}, None, {"input_tokens": 69, "cache_read_input_tokens": 640, "output_tokens": 9}]
    merged = last_values(start, [*deltas, {"output_tokens": None}])
    assert merged == {"input_tokens": 69, "output_tokens": 9, "cache_read_input_tokens": 640}
    assert last_values(None, [None, "x"]) is None
    assert last_values({"input_tokens": None}, []) == {"input_tokens": None}
