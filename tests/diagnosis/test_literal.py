"""JSON values as they are spelled."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.diagnosis.literal import (
    Difference,
    difference,
    loads,
    loads_or_none,
    order_difference,
    spelled,
    spelling_difference,
    value_difference,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("sent", "got", "path", "kind"),
    [
        ('{"a":12345678901234567890}', '{"a":12345678901234567168}', "a", "number re-spelled"),
        ('{"a":{"b":[1,2]}}', '{"a":{"b":[1,3]}}', "a.b[1]", "number re-spelled"),
        ('{"a":1}', '{"a":"1"}', "a", "value changed"),
        ('{"a":true}', '{"a":1}', "a", "value changed"),
        ('{"a":"x"}', '{"a":"y"}', "a", "value changed"),
        ('{"a":"Grüße"}', r'{"a":"Gr\\u00fc\\u00dfe"}', "a", "unicode re-spelled"),
        ('{"a":1,"b":{}}', '{"a":1}', "b", "value dropped"),
        ('{"a":1}', '{"a":1,"b":{}}', "b", "value added"),
        ('{"a":[1]}', '{"a":[1,2]}', "a", "list length changed"),
    ],
)
def test_values_that_differ(sent: str, got: str, path: str, kind: str) -> None:
    found = value_difference(loads(sent), loads(got))
    assert found is not None
    assert (found.path, found.kind, found.same_value) == (path, kind, False)
    assert difference(loads(sent), loads(got)) == found


@pytest.mark.parametrize(
    ("sent", "got"),
    [('{"a":1.0}', '{"a":1}'), ('{"a":1e2}', '{"a": 100}'), ('{"a":1,"b":2}', '{"b":2,"a":1}'), (r'"\u00fc"', '"ü"')],
)
def test_values_that_are_the_same(sent: str, got: str) -> None:
    assert value_difference(loads(sent), loads(got)) is None


def test_a_spelling_is_told_when_the_values_agree() -> None:
    found = spelling_difference(loads('{"x":[{"z":1.0}]}'), loads('{"x":[{"z":1}]}'))
    assert found == Difference("x[0].z", "number re-spelled", "1.0", "1", True)
    assert spelling_difference(loads('{"z":1.0}'), loads('{"z":1.0}')) is None


def test_the_order_of_keys_at_any_depth() -> None:
    found = order_difference(loads('{"x":[{"b":1,"a":2}]}'), loads('{"x":[{"a":2,"b":1}]}'))
    assert found is not None
    assert (found.path, found.kind, found.sent, found.got) == ("x[0]", "keys re-ordered", '["b", "a"]', '["a", "b"]')
    assert order_difference(loads('{"b":1,"a":2}'), loads('{"b":1,"c":3,"a":2}')) is None, "a new key moves no other"


@given(VALUES)
def test_a_value_equals_itself_and_is_written_as_it_was(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    parsed = loads(text)
    assert difference(parsed, loads(text)) is None
    assert spelled(parsed) == text


@pytest.mark.parametrize("text", ["", "{", "nope", "[" * 100_000, None, 3])
def test_what_is_no_json_is_none(text: object) -> None:
    assert loads_or_none(text) is None
