"""The suite's own text stays readable however a gateway joins it; what it adds does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.masks import OWN_FROM, mask, shape

FIRST = "You are a coding agent that works in one repository, carefully and in small steps."
SECOND = "Then read the file src/main.py and say what the second function returns; nothing else."
OWN = (FIRST, SECOND, "ls -la", "Bash")


def own(text: str) -> bool:
    wanted = text.strip()
    return any(wanted in sent for sent in OWN)


@pytest.mark.parametrize("between", ["", " ", "\n", "\n\n", " --- ", "; ", "\n\n=== \n", "\t|\t"])
def test_own_texts_joined_by_anything_without_letters_stand_whole(between: str) -> None:
    assert mask(FIRST + between + SECOND, own) == FIRST + between + SECOND


def test_own_texts_joined_by_words_stand_and_the_words_do_not() -> None:
    shown = mask(f"{FIRST}\n\nTenant Zanzibar 42 says: {SECOND} Over.", own)
    assert shown == f"{FIRST}\n\naaaaaa aaaaaaaa 99 aaaa: {SECOND} aaaa."


def test_a_text_split_into_pieces_stands() -> None:
    for start in range(0, len(FIRST) - OWN_FROM, 7):
        piece = FIRST[start : start + OWN_FROM]
        assert mask(piece, own) == piece
        assert mask(f"zq {piece} zq", own) == f"aa {piece} aa"


def test_a_number_is_shown_whole_or_not_at_all() -> None:
    """Half a number of the suite's own with nines behind it would read as another number."""
    sent = '{"zeta":1,"alpha":12345678901234567890,"name":"x"}'
    assert mask(sent, lambda text: text in sent) == sent
    shown = mask(sent.replace("567890", "567168"), lambda text: text in sent)
    assert shown.startswith('{"zeta":1,"alpha":99999999999999999999')


def test_a_text_with_something_put_into_it_stands_around_that() -> None:
    shown = mask(FIRST[:40] + " [Zanzibar 12:33] " + FIRST[40:], own)
    assert shown == FIRST[:40] + " [aaaaaaaa 99:99] " + FIRST[40:]


def test_short_words_of_the_suites_own_do_not_open_a_foreign_text() -> None:
    assert mask("a coding agent works for Zanzibar", own) == "a aaaaaa aaaaa aaaaa aaa aaaaaaaa"


def test_quoted_strings_of_the_suites_own_stand_inside_json_text() -> None:
    assert mask('{"tool":"Bash","command":"ls -la","for":"Zanzibar"}', own) == (
        '{"aaaa":"Bash","aaaaaaa":"ls -la","aaa":"aaaaaaaa"}'
    )


foreign = st.text(alphabet="zqxjkvw ZQ0123456789.,", min_size=1, max_size=60)


@given(st.lists(st.one_of(foreign, st.sampled_from(OWN)), max_size=6))
def test_no_foreign_letter_is_shown_and_the_length_stays(pieces: list[str]) -> None:
    text = "\n".join(pieces)
    shown = mask(text, own)
    assert len(shown) == len(text)
    assert shown == text or len([c for c in text if c.isalnum()]) >= 1
    for piece in pieces:
        if len(piece) >= OWN_FROM and own(piece):
            assert piece in shown
        elif not own(piece) and not any(own(part) for part in piece.replace(",", ".").split(".")):
            assert shape(piece) in shown
