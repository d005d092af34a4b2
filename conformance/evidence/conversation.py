"""What the statistics need of a target: conversations that can be sent, repeated, grown and re-salted.

The suite's conversations go over the wire; those of the A/A harness go straight into an engine model. Nothing
here knows which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from conformance.wire.exchange import Exchange


@dataclass(frozen=True, slots=True)
class Sent:
    """One request as its usage tells it. Counts in tokens; None = not reported.

    `valid` is False when the answer proves nothing: an error, or a reply from a response cache.
    """

    prompt: int | None
    cached: int | None
    answer_id: str | None = None
    valid: bool = True
    exchange: Exchange | None = None


class Conversation(Protocol):
    """One growing conversation under one salt."""

    @property
    def content_bytes(self) -> int:
        """UTF-8 bytes of all content behind the salt: tools, system text and messages."""

    def send(self) -> Sent:
        """Send the current turn once more, byte for byte."""

    def grow(self, tokens: int) -> None:
        """Append an answer and the next question, about `tokens` longer in all."""

    def ahead(self, tokens: int) -> Conversation:
        """A copy, grown by `tokens`; this one stays at its turn. Growing this one alike gives the copy's bytes."""

    def resalted(self) -> Conversation:
        """The same content under a salt nobody used before: shares nothing but the template's preamble."""


@dataclass(frozen=True, slots=True)
class Extra:
    """UTF-8 bytes by which single sections of a conversation are longer than the base."""

    system: int = 0
    tools: int = 0
    message: int = 0

    @property
    def total(self) -> int:
        return self.system + self.tools + self.message

    @property
    def section(self) -> str:
        """The one section that is longer; "" for none, "mixed" for several."""
        longer = [name for name in ("system", "tools", "message") if getattr(self, name)]
        return longer[0] if len(longer) == 1 else ("mixed" if longer else "")


NO_EXTRA = Extra()


class Lab(Protocol):
    """Makes conversations."""

    def conversation(
        self, *, attribution: bool = False, extra: Extra = NO_EXTRA, scale: float = 1.0, tools: bool = True
    ) -> Conversation:
        """A new conversation under a fresh salt.

        `scale` multiplies the base size; `extra` lengthens sections; `attribution` puts the client's per-request
        attribution block in front; `tools=False` leaves the tool section out.
        """
