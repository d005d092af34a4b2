"""The words a report may hold: the suite's own, those it sent, and those that errors of gateways are made of.

What a target says of itself is worth showing (an error, a stop reason, the name of a field), but anything a target says
may also be somebody's text: another tenant's prompt in an error, in an id or a header. So each word stands only where
the suite knows it; of any other word its shape is shown (letters as `a`, digits as `9`).
"""

from __future__ import annotations

import errno
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable

from conformance.masks import shape

LONGEST_NUMBER = 9
"""Digits of a number that no request held: longer ones may be somebody's telephone or card."""

CUT = "…"
"""Stands where a text was cut."""

_TOKEN = re.compile(r"\S+")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)*")
_PIECE = re.compile(r"[\w+-]+(?:['’][^\W\d_]+)*")
_NUMBER = re.compile(r"[+-]?[\d.,_]*\d(?:[eE][+-]?\d+|-\d+)?(?:k|s|ms|%|KiB|MiB|GiB|st|nd|rd|th)?")
_SENT_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d{1,3})?")
_CAMEL = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")

_ERROR_WORDS = frozenset(
    word
    for line in (files("conformance") / "error_words.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
    for word in line.split()
)
"""Lower-case words; those in Chinese are looked for inside longer runs, since that writes no spaces."""

_CJK_FROM = 0x2E80
_CJK = re.compile("|".join(sorted((w for w in _ERROR_WORDS if ord(w[0]) > _CJK_FROM), key=len, reverse=True)))


@cache
def own_words() -> frozenset[str]:
    """Lower-case words and compound words of the suite's own source and catalogue, HTTP and the operating system."""
    found = set(_ERROR_WORDS)
    for status in HTTPStatus:
        found |= _words(f"{status.phrase} {status.description}")
    for number in errno.errorcode:
        found |= _words(os.strerror(number))
    for path in _own_sources(files("conformance")):
        found |= _words(path.read_text(encoding="utf-8"))
    return frozenset(found)


def _own_sources(folder: Traversable) -> Iterable[Traversable]:
    for path in folder.iterdir():
        if path.is_dir():
            yield from _own_sources(path)
        elif path.name.endswith((".py", ".toml", ".json")):
            yield path


def _words(text: str) -> set[str]:
    lower = text.lower()
    return {*_WORD.findall(lower), *_PIECE.findall(lower)}


def spoken(text: str, *sent: str) -> str:
    """The text with every word shown by its shape that neither the suite nor one of `sent` knows."""
    return Vocabulary(lambda: sent).spoken(text)


class Vocabulary:
    """The suite's own words and those of further texts, e.g. of every request it sent."""

    def __init__(self, texts: Callable[[], Sequence[str]] = tuple) -> None:
        self._texts = texts
        self._taken = 0
        self._sent: set[str] = set()
        self._cut: frozenset[str] = frozenset()
        self._numbers: set[float] = set()

    def spoken(self, text: str) -> str:
        """The text with every word the suite does not know shown by its shape only."""
        self._cut = self._cut_words(text) if text.startswith(CUT) or text.endswith(CUT) else frozenset()
        return _TOKEN.sub(lambda found: self._token(found.group()), text)

    def _cut_words(self, text: str) -> frozenset[str]:
        """A window on a text begins and ends inside words: what is left of one that was sent is known, too."""
        self._read_on()
        head, tail = re.match(rf"{CUT}([\w+-]+)", text), re.search(rf"([\w+-]+){CUT}\Z", text)
        return frozenset(
            found[1].lower()
            for found, fits in ((head, str.endswith), (tail, str.startswith))
            if found and any(fits(word, found[1].lower()) for word in self._sent)
        )

    def _token(self, token: str) -> str:
        if _known_whole(token) or self._was_sent(token):
            return token
        if any(ord(c) > _CJK_FROM for c in token):
            return _between(_CJK, token, self._pieces)
        return self._pieces(token)

    def _pieces(self, token: str) -> str:
        shown = _PIECE.sub(lambda found: found.group() if self._knows(found.group()) else shape(found.group()), token)
        # A number beside a word nobody knows is part of it.
        return shown if shown == token else re.sub(r"\d", "9", shown)

    def _knows(self, piece: str) -> bool:
        lower = piece.lower()
        if (
            lower in own_words()
            or lower in self._cut
            or _is_class_name(piece)
            or _is_error_code(lower)
            or _known_whole(piece)
        ):
            return True
        stem = re.sub(r"'s$|’s$", "", lower)
        return stem in own_words() or self._was_sent(piece)

    def _was_sent(self, piece: str) -> bool:
        self._read_on()
        plain = _ESCAPE.sub(lambda found: chr(int(found.group(1), 16)), piece)
        normal = unicodedata.normalize("NFC", plain.lower())
        if normal in self._sent:
            return True
        try:
            return float(normal.strip(".,;:()[]")) in self._numbers
        except ValueError:
            return False

    def _read_on(self) -> None:
        texts = self._texts()
        for text in texts[self._taken :]:
            normal = unicodedata.normalize("NFC", text.lower())
            self._sent.update(_TOKEN.findall(normal), _words(normal))
            self._numbers.update(map(float, _SENT_NUMBER.findall(normal)))
        self._taken = len(texts)


def _known_whole(token: str) -> bool:
    """Numbers of a suite's own making, and tokens without letters and digits."""
    if not re.search(r"\w", token):
        return True
    return _NUMBER.fullmatch(token) is not None and len(re.findall(r"\d", token)) <= LONGEST_NUMBER


def _is_class_name(piece: str) -> bool:
    """`BadRequestError`, `APIConnectionError`: a class of errors, made of words that are known."""
    if not re.fullmatch(r"[A-Za-z]+(?:Error|Exception|Warning|Timeout)", piece):
        return False
    parts = _CAMEL.findall(piece)
    return "".join(parts) == piece and all(part.lower() in own_words() for part in parts)


def _is_error_code(piece: str) -> bool:
    """`invalid_api_key`, `rate-limit`, `call_1`: words of errors only, joined, and short numbers."""
    parts = re.split(r"[_-]", piece)
    return parts[0] in _ERROR_WORDS and all(p in _ERROR_WORDS or re.fullmatch(r"\d{1,3}", p) for p in parts)


def _between(pattern: re.Pattern[str], text: str, other: Callable[[str], str]) -> str:
    """`text` with what `pattern` does not match passed through `other`."""
    shown, end = "", 0
    for found in pattern.finditer(text):
        shown += other(text[end : found.start()]) + found.group()
        end = found.end()
    return shown + other(text[end:])
