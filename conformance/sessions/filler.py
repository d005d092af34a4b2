"""Deterministic filler text of an exact size: what stands where a client's own words would stand."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final

from .words import WORDS

NEWLINE_EVERY: Final = 512
"""Each full window of this many bytes holds exactly one newline, so the JSON-escaped size is known beforehand."""

_SHORTEST_ENTRY: Final = min(map(len, WORDS)) + 1


@lru_cache(maxsize=4096)
def filler(seed: str, n_bytes: int) -> str:
    """English-like ASCII text of exactly `n_bytes` bytes, the same for the same arguments in every process.

    Holds no quote and no backslash, and `n_bytes // 512` newlines: `json_size(n_bytes)` is its size inside a JSON
    string. Different seeds draw every word independently, so two texts part within their first words.

    Raises ValueError for a negative size.
    """
    if n_bytes < 0:
        raise ValueError(f"filler needs a size of 0 bytes or more, got {n_bytes}")
    if n_bytes == 0:
        return ""
    draws = hashlib.shake_128(seed.encode()).digest(n_bytes // _SHORTEST_ENTRY + 32)
    sentences: list[str] = []
    start = size = 0
    while size < n_bytes:
        length = 6 + draws[start] % 9
        sentence = " ".join([WORDS[draw] for draw in draws[start : start + length]])
        sentences.append(sentence[0].upper() + sentence[1:] + ".")
        size += len(sentence) + 2
        start += length
    text = _closed(" ".join(sentences), n_bytes)
    return _with_newlines(text)


def json_size(n_bytes: int) -> int:
    """Size in bytes of a filler text of `n_bytes` inside a JSON string, without the quotes."""
    return n_bytes + n_bytes // NEWLINE_EVERY


def size_for_json(json_bytes: int) -> int:
    """The largest filler size whose `json_size` is at most `json_bytes` (one byte short of it at most)."""
    n_bytes = json_bytes - json_bytes // (NEWLINE_EVERY + 1)
    while json_size(n_bytes) > json_bytes:
        n_bytes -= 1
    return n_bytes


def salted(text: str, salt: str) -> str:
    """`text` with its first bytes replaced by `salt` and a space: same size, and no prefix shared across salts."""
    head = f"{salt} "
    if len(text) < len(head):
        raise ValueError(f"a text of {len(text)} bytes has no room for the salt; make it at least {len(head)} bytes")
    return head + text[len(head) :]


def _closed(text: str, n_bytes: int) -> str:
    """`text` cut to `n_bytes`, ending in a full stop after a word character, never in white space."""
    body = text[: n_bytes - 1]
    if body and not body[-1].isalnum():
        body = body[:-1] + "e"
    return body + "."


def _with_newlines(text: str) -> str:
    if len(text) < NEWLINE_EVERY:
        return text
    pieces: list[str] = []
    for start in range(0, len(text), NEWLINE_EVERY):
        window = text[start : start + NEWLINE_EVERY]
        if len(window) == NEWLINE_EVERY:
            # The window's last byte is left alone: at the end of the text a newline would be trailing white space.
            at = window.rfind(". ", 0, NEWLINE_EVERY - 1) + 1 or window.rfind(" ", 0, NEWLINE_EVERY - 1)
            window = f"{window[:at]}\n{window[at + 1 :]}"
        pieces.append(window)
    return "".join(pieces)
