"""A key is found in every form a target may repeat it in."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.keys import REDACTED, Keys

KEY = 'Zq9"K/vx+7Lm\\nOpq=3rTuW'


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "upper case": str.upper,
    "in JSON": lambda key: json.dumps({"key": key}),
    "in JSON in JSON": lambda key: json.dumps(json.dumps({"key": key})),
    "in JSON with escaped slashes": lambda key: json.dumps(key).replace("/", "\\/"),
    "as JSON escapes": lambda key: "".join(f"\\u{ord(c):04x}" for c in key),
    "as Python's repr": lambda key: repr(key),
    "in HTML": html.escape,
    "as HTML references": lambda key: "".join(f"&#{ord(c)};" for c in key),
    "in a URL": lambda key: quote(key, safe=""),
    "in a path": quote,
    "in a form": quote_plus,
    "in a URL in a URL": lambda key: quote(quote(key, safe=""), safe=""),
    "hexadecimal": lambda key: key.encode().hex(),
    "backwards": lambda key: key[::-1],
    "base64": b64,
    "base64 of Bearer": lambda key: b64(f"Bearer {key}"),
    "base64 of Basic credentials": lambda key: b64(f":{key}"),
    "base64 of a header": lambda key: b64(f"authorization: Bearer {key}; x: y"),
    "base64 for URLs": lambda key: base64.urlsafe_b64encode(f"ab{key}".encode()).decode().rstrip("="),
    "cut behind its half": lambda key: key[: len(key) // 2 + 4],
    "cut before its half": lambda key: key[-(len(key) // 2 + 4) :],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_hidden(form: str) -> None:
    written = FORMS[form](KEY)
    hidden = Keys([KEY]).hide(f"before {written} after")
    assert REDACTED in hidden
    assert hidden.startswith("before ")
    assert hidden.endswith(" after")
    for length in (8, 12):
        for start in range(len(KEY) - length):
            assert KEY[start : start + length].lower() not in hidden.lower()


headers = st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), min_size=16, max_size=80)


@given(headers, st.sampled_from(sorted(FORMS)), st.text(max_size=20), st.text(max_size=20))
def test_any_key_in_any_form_and_any_surroundings(key: str, form: str, before: str, after: str) -> None:
    written = FORMS[form](key)
    hidden = Keys([key]).hide(f"{before} {written} {after}")
    assert written not in hidden
    assert REDACTED in hidden


def test_a_short_key_is_hidden_where_it_stands_by_itself() -> None:
    assert Keys(["test"]).hide("the key test, tests and latest; test") == (
        f"the key {REDACTED}, tests and latest; {REDACTED}"
    )


def test_without_a_key_nothing_is_hidden() -> None:
    assert Keys([None, ""]).hide("None of it") == "None of it"
