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
        self._asked_at = 0  # exchanges there were when `_answers` and `_spoken` were true
        self._answers: dict[str, bool] = {}
        self._spoken: list[str] | None = None

    @cached_property
    def _sent(self) -> SentTexts:
        return SentTexts(self._lab.exchanges)

    def has(self, text: str) -> bool:
        """True when `text` is part of one text that the suite sent."""
        wanted = text.strip()
        if len(self._lab.exchanges) != self._asked_at:  # more was sent since: what was not its own may be now
            self._asked_at = len(self._lab.exchanges)
            self._answers = {word: True for word, own in self._answers.items() if own}
            self._spoken = None
        if wanted not in self._answers:
            self._answers[wanted] = self._sent.hold(wanted) or self._also(wanted) or self._speaks(wanted)
        return self._answers[wanted]

    def _speaks(self, wanted: str) -> bool:
        if self._spoken is None:
            sessions = {id(c.session): c.session for c in self._lab.conversations}
            self._spoken = [fragment.text for s in sessions.values() for fragment in s.fragments()]
        return any(wanted in text for text in self._spoken)
