"""Which texts are the suite's own: reports show those, and mask whatever else a gateway sent (`conformance.masks`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from conformance.observe.lab import WireLab
from conformance.sent_texts import SentTexts


class OwnTexts:
    """What was sent to one entry so far. `also` says whether a text is of another part of the suite."""

    def __init__(self, lab: WireLab, also: Callable[[str], bool]) -> None:
        self._lab = lab
        self._also = also

    @cached_property
    def _sent(self) -> SentTexts:
        return SentTexts(self._lab.exchanges)

    def has(self, text: str) -> bool:
        """True when `text` is part of one text that the suite sent."""
        wanted = text.strip()
        if self._sent.hold(wanted) or self._also(wanted):
            return True
        sessions = {id(c.session): c.session for c in self._lab.conversations}
        return any(wanted in fragment.text for s in sessions.values() for fragment in s.fragments())
