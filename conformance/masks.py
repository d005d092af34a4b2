"""Texts by their shape: what the suite did not send is shown as letters `a` and digits `9`, the rest as it is."""

from __future__ import annotations

import re
from collections.abc import Callable

Own = Callable[[str], bool]
"""Says whether a text is part of what the suite itself sent."""

OWN_FROM = 24
"""Characters from which a stretch inside a foreign text is taken for the suite's own: shorter ones may be anybody's."""

_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|[^"\n.;]+[.;]?|.', re.DOTALL)


def nobodys(_: str) -> bool:
    """The `Own` of a text of which the suite sent nothing."""
    return False


def shape(text: str) -> str:
    """Letters as `a`, digits as `9`, punctuation and white space as they are. The length stays."""
    return _LETTER.sub("a", _DIGIT.sub("9", text))


def mask(text: str, own: Own = nobodys) -> str:
    """`text` as a report may show it: the suite's own stretches whole, however they are joined, the rest by its shape.

    Own stretches are found wherever the text begins or goes on behind a word, so that texts of the suite that a
    gateway joined, split or wrapped stay readable.
    """
    if not text or own(text):
        return text
    shown, gap, at = "", 0, 0
    while at < len(text):
        end = _own_until(text, at, own)
        if end > at:
            shown += _masked(text[gap:at], own) + text[at:end]
            gap = at = end
        else:
            at = _next_word(text, at)
    return shown + _masked(text[gap:], own)


def _masked(text: str, own: Own) -> str:
    """Sentence by sentence and quoted string by quoted string: short ones of the suite's own stand, too."""
    return "".join(_piece(piece, own) for piece in _PIECE.findall(text))


def _piece(piece: str, own: Own) -> str:
    bare = piece.strip(' "')
    return piece if not bare or own(bare) or own(piece) else shape(piece)


def _own_until(text: str, start: int, own: Own) -> int:
    """End of the longest stretch from `start` that the suite sent; `start` when there is none worth showing.

    It ends in no number: one that begins as the suite's own and goes on in nines would read as another number.
    """
    if len(text) - start < OWN_FROM or not own(text[start : start + OWN_FROM]):
        return start
    low, high = start + OWN_FROM, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if own(text[start:middle]):
            low = middle
        else:
            high = middle - 1
    end = low
    if low < len(text) and text[low].isdigit():
        while end > start and text[end - 1].isdigit():
            end -= 1
    return end


def _next_word(text: str, at: int) -> int:
    """The next place a text may begin: behind the present run of letters and digits, or one character on."""
    end = at
    while end < len(text) and text[end].isalnum():
        end += 1
    return max(end, at + 1)
