"""Filler text: exact sizes, safe characters, seeds that part at once."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.sessions.filler import NEWLINE_EVERY, filler, json_size, salted, size_for_json
from conformance.sessions.words import WORDS

SEEDS = [f"seed{i}" for i in range(200)]


def test_vocabulary_has_one_entry_for_each_byte() -> None:
    assert len(set(WORDS)) == len(WORDS) == 256
    assert all(word.isascii() and not set(word) & set('"\\') for word in WORDS)


@pytest.mark.parametrize("size", [*range(40), 510, 511, 512, 513, 1023, 1024, 1025, 26_051, 100_000])
def test_size_is_exact_in_bytes_and_inside_json(size: int) -> None:
    text = filler("size", size)
    assert len(text.encode("ascii")) == size
    assert len(json.dumps(text)) - 2 == json_size(size)
    assert text == text.strip()


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(seed=st.text(max_size=20), size=st.integers(0, 3 * NEWLINE_EVERY))
def test_any_seed_gives_exact_plain_text(seed: str, size: int) -> None:
    text = filler(seed, size)
    assert len(text) == size
    assert text.isascii()
    assert text.count("\n") == size // NEWLINE_EVERY
    assert not set(text) & set('"\\\t\r')


def test_size_for_json_is_the_largest_that_fits() -> None:
    for room in range(4 * NEWLINE_EVERY):
        size = size_for_json(room)
        assert json_size(size) <= room < json_size(size + 1)
        assert room - json_size(size) <= 1


def test_seeds_part_within_the_first_words() -> None:
    heads = {" ".join(filler(seed, 400).split()[:4]) for seed in SEEDS}
    assert len(heads) == len(SEEDS)


def test_a_longer_text_continues_a_shorter_one() -> None:
    assert filler("same", 4000)[:1000] == filler("same", 9000)[:1000]


def test_salted_keeps_the_size_and_starts_with_the_salt() -> None:
    text = filler("salted", 600)
    marked = salted(text, "pp-0001")
    assert len(marked) == len(text)
    assert marked.startswith("pp-0001 ")
    assert marked[8:] == text[8:]


def test_salted_says_how_much_room_it_needs() -> None:
    with pytest.raises(ValueError, match="at least 8 bytes"):
        salted("short", "pp-0001")


def test_negative_size_is_refused() -> None:
    with pytest.raises(ValueError, match="0 bytes or more"):
        filler("x", -1)
