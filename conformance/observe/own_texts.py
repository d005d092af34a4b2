"""Which texts are the suite's own: reports show those, and mask whatever else a gateway sent."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from conformance.observe.lab import WireLab

_JOINED_FROM = 24
"""Characters of a text that is looked for inside others: shorter ones may stand in anybody's."""


class OwnTexts:
    """What was sent to one entry so far. `also` says whether a text is of another part of the suite."""

    def __init__(self, lab: WireLab, also: Callable[[str], bool]) -> None:
        self._lab = lab
        self._also = also
        self._texts: dict[str, None] = {}
        self._taken = 0

    def has(self, text: str) -> bool:
        """True when `text` is part of what the suite itself sent, or several such texts joined."""
        wanted = text.strip()
        if self._also(wanted):
            return True
        sessions = {id(c.session): c.session for c in self._lab.conversations}
        if any(wanted in fragment.text for s in sessions.values() for fragment in s.fragments()):
            return True
        # Requests that are no conversation's present turn: earlier attribution blocks, streams, single bodies.
        sent = self._sent()
        if any(wanted in own for own in sent):
            return True
        rest = wanted
        for own in sorted(sent, key=len, reverse=True):
            if len(own) < _JOINED_FROM:
                break
            rest = rest.replace(own.strip(), " ")
        return not re.search(r"\w", rest)

    def _sent(self) -> dict[str, None]:
        """Every string of every request body sent so far, once."""
        exchanges = self._lab.exchanges
        for exchange in exchanges[self._taken :]:
            self._texts.update(dict.fromkeys(_strings(exchange.request)))
        self._taken = len(exchanges)
        return self._texts


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
