"""Which texts are the suite's own: reports show those, and mask whatever else a gateway sent."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from conformance.observe.lab import WireLab

_JOINED_FROM = 24
"""Characters of a text that is looked for inside others: shorter ones may stand in anybody's."""

_BETWEEN = "\0"
"""Stands in no text that is sent, so that no found text reaches over two of them."""


class OwnTexts:
    """What was sent to one entry so far. `also` says whether a text is of another part of the suite."""

    def __init__(self, lab: WireLab, also: Callable[[str], bool]) -> None:
        self._lab = lab
        self._also = also
        self._texts: dict[str, None] = {}
        self._longest_first: list[str] = []
        self._joined = ""
        self._taken = 0

    def has(self, text: str) -> bool:
        """True when `text` is part of what the suite itself sent, or several such texts joined."""
        wanted = text.strip()
        if self._also(wanted):
            return True
        # Sent texts are searched as one: there are thousands, and a report asks for hundreds.
        self._take()
        if wanted in self._joined:
            return True
        sessions = {id(c.session): c.session for c in self._lab.conversations}
        if any(wanted in fragment.text for s in sessions.values() for fragment in s.fragments()):
            return True
        rest = wanted
        for own in self._longest_first:
            rest = rest.replace(own, " ")
        return not re.search(r"\w", rest)

    def _take(self) -> None:
        """Take in every string of every request body sent since the last look, each once."""
        exchanges = self._lab.exchanges
        if self._taken == len(exchanges):
            return
        for exchange in exchanges[self._taken :]:
            self._texts.update(dict.fromkeys(_strings(exchange.request)))
        self._taken = len(exchanges)
        self._joined = _BETWEEN.join(self._texts)
        long = (text.strip() for text in self._texts if len(text) >= _JOINED_FROM)
        self._longest_first = sorted(long, key=len, reverse=True)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
