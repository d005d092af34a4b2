"""JSON that keeps number spelling, key order and bytes."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_gateway.jsontext import JSONTextError, dumps, loads, parse, quick_loads

VERBATIM = [
    '{"a":1.0,"b":1e5,"c":-0,"d":0.10,"e":12345678901234567890123,"f":1E+2,"g":-0.0}',
    '{"z":1,"a":{"c":[],"b":null},"m":[true,false,{}]}',
    '{"text":"héllo \\n \\" \\\\ \U0001f600"}',
    '{"lone":"\\ud83d"}',
    '{"\\udc00key":1.50}',
]


@pytest.mark.parametrize("text", VERBATIM)
def test_compact_text_comes_back_as_it_was(text: str) -> None:
    assert dumps(loads(text)).decode() == text


def test_deep_nesting_and_big_integers_are_written() -> None:
    deep = "[" * 300 + "1.0" + "]" * 300
    assert dumps(loads(deep)).decode() == deep
    assert dumps({"big": 2**70}).decode() == '{"big":1180591620717411303424}'


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@settings(deadline=None)
@given(json_values)
def test_any_value_survives(value: object) -> None:
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert json.loads(dumps(loads(compact))) == value
    assert loads(dumps(loads(compact))) == loads(compact)


@settings(deadline=None)
@given(st.dictionaries(st.text(), json_values, max_size=5), st.sampled_from([None, 1, 3]))
def test_members_stand_where_parse_says(value: dict[str, object], indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    document = parse(text)
    assert document.value == value
    for key, (start, end) in document.spans.items():
        assert json.loads(text[start:end]) == value[key]


def test_one_member_changes_and_every_other_byte_stays() -> None:
    text = ' { "model" : "llm-prime" , "x":1.0,\n"t":"caf\\u00e9" }\n'
    changed = parse(text).with_members({"model": "rëal"}).decode()
    assert changed == text.replace('"llm-prime"', '"rëal"')


def test_absent_members_are_appended() -> None:
    assert parse('{"a": 1 }').with_members({"b": {"c": True}, "d": 2}) == b'{"a": 1,"b":{"c":true},"d":2 }'
    assert parse("{ }").with_members({"b": 1}) == b'{"b":1 }'
    assert parse('{"a":1,"b":2}').with_members({"c": 3, "b": 4, "a": 5}) == b'{"a":5,"b":4,"c":3}'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "Expecting value"),
        ("{", "property name"),
        ('{"a":1', "',' delimiter"),
        ('{"a":1,}', "property name"),
        ('{"a":1 "b":2}', "',' delimiter"),
        ('{"a" 1}', "':' delimiter"),
        ('{"a":}', "Expecting value"),
        ('{"a":1} x', "Extra data"),
        ("{'a':1}", "property name"),
        ('{"a":NaN}', "NaN"),
        ('{"a":-Infinity}', "Infinity"),
        ('{"a":"\x01"}', "control character"),
        ("[1]", "not a JSON object"),
        ("null", "not a JSON object"),
        ('{"a":1,"a":2}', "twice"),
        ('{"a":' + "9" * 5000 + "}", "digits"),
        ('{"a":' + "[" * 100_000, "nested"),
    ],
)
def test_what_is_not_an_object_is_refused_with_its_place(text: str, complaint: str) -> None:
    with pytest.raises(JSONTextError, match=complaint):
        parse(text)


def test_bytes_must_be_utf8() -> None:
    with pytest.raises(JSONTextError, match="byte 6 is not UTF-8"):
        parse(b'{"a":"\xff"}')


def test_complaints_quote_no_content() -> None:
    with pytest.raises(JSONTextError) as caught:
        parse('{"secret": "prompt" oops}')
    assert "secret" not in str(caught.value)
    assert "oops" not in str(caught.value)


def test_quick_loads_takes_what_orjson_refuses() -> None:
    assert quick_loads('{"a":"\\ud83d"}') == {"a": "\ud83d"}
    with pytest.raises(JSONTextError):
        quick_loads("{")
