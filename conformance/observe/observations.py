"""What is kept of sends that belong together: arms, the forms of one request, one text on both entries."""

from __future__ import annotations

from dataclasses import dataclass

from conformance.evidence.conversation import Sent
from conformance.evidence.hotpair import Arm
from conformance.wire.answers import Answer
from conformance.wire.exchange import Exchange


@dataclass(frozen=True)
class Arms:
    """The growing conversations of one entry. `attribution` is None where no client sends such a block."""

    plain: Arm
    attribution: Arm | None

    @property
    def pinned(self) -> Arm:
        """The arm PIN-01 reads: as the entry's real client is, its block included."""
        return self.attribution or self.plain


@dataclass(frozen=True)
class Streams:
    """One request in all its forms. `cold` and `plain` are its first and second plain answers."""

    cold: Exchange
    plain: Exchange
    raw: Exchange  # streamed, events verbatim; a chat client that asks for usage
    sdk: Exchange  # streamed, accumulated by the official SDK
    unasked: Exchange | None  # chat only: streamed by a client that does not ask for usage
    replayed: Answer | None = None  # Messages only: what the official SDK accumulates from the very bytes of `raw`

    @property
    def repeat_themselves(self) -> bool:
        """True when the model repeats itself, unseen reasoning included: only then do output counts compare.

        Both plain answers are alike in content and output count, both streams in their count, and all in text.
        """
        plain, streamed = (self.cold, self.plain), (self.raw, self.sdk)
        return (
            len({e.text for e in (*plain, *streamed)}) == 1
            and len({(e.tool_calls, e.usage.output) for e in plain}) == 1
            and len({e.usage.output for e in streamed}) == 1
        )


@dataclass(frozen=True)
class DialectPair:
    """The same text-only conversation on both entries, each sent twice; the second answers.

    `direct` is the chat form sent straight to the engine, where that can be done and no recorder sees its own count.
    """

    messages: Exchange
    chat: Exchange
    direct: Exchange | None = None


@dataclass(frozen=True)
class ToolArms:
    """Exact repeats of sessions with tools and without, sent in turns: (first, repeat) each."""

    with_tools: tuple[tuple[Sent, Sent], ...]
    without_tools: tuple[tuple[Sent, Sent], ...]
