from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.wire.jsontext import dumps, loads, loads_or_none

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_what_is_written_reads_back_the_same(value: Any) -> None:
    assert loads(dumps(value)) == value
    assert json.loads(dumps(value)) == value


def test_integers_beyond_64_bits_stay_integers() -> None:
    assert loads(b'{"tokens": 100000000000000000000}') == {"tokens": 10**20}
    assert dumps({"tokens": 10**20}) == b'{"tokens":100000000000000000000}'


def test_lone_surrogates_are_written_as_escapes() -> None:
    assert dumps({"text": "\ud83d"}) == b'{"text":"\\ud83d"}'


@pytest.mark.parametrize("text", [b"", b"{", b"NaN", b"[Infinity, 1000000000000000000000]", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_none(text: bytes) -> None:
    assert loads_or_none(text) is None


def test_what_json_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError):
        dumps({"when": object()})
