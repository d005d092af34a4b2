"""When a client compacts: the count it keeps of its context, as Claude Code 2.1.116 was observed to keep it."""

from __future__ import annotations

from dataclasses import dataclass

SHARE = 0.9
"""Of its window at which the model here compacts. The real client's share is its own business: a gateway that counts
right makes any client compact at the size it means to."""


@dataclass(slots=True)
class ContextMeter:
    """A client's own view of how full its window is.

    `window` in tokens, as the client believes it to be. The context is the last answer's input + cache read + cache
    creation; of a stream's two counts, at its start and at its end, the larger one is kept.
    """

    window: int
    share: float = SHARE
    context: int = 0

    @property
    def threshold(self) -> int:
        """Tokens of context from which on the client compacts before its next turn."""
        return round(self.window * self.share)

    @property
    def full(self) -> bool:
        return self.context >= self.threshold

    def note(self, final: int | None, start: int | None = None) -> None:
        """Take an answer's sums: `final` at its end, `start` from `message_start` where it was streamed.

        None is what a client reads where there are no counts: nothing.
        """
        self.context = max(final or 0, start or 0, 0)


def window_for(threshold: int, share: float = SHARE) -> int:
    """The window whose client compacts at `threshold` tokens, or at most one later."""
    return round(threshold / share)
