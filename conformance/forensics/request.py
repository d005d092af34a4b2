"""One request as every reader gives it and every analysis takes it."""

from __future__ import annotations

from typing import NamedTuple

DIMENSIONS = ("entry", "model", "client", "user")
"""What an aggregate is split by before it is explained."""

NOT_GIVEN = "(not given)"
"""Stands for a dimension that the log does not have, or leaves empty in a row."""


class Part(NamedTuple):
    """A part of a request body: where it stands, a hash of it and its length. Never its text.

    `size` is in bytes, `tokens` None where nobody counted. `fields` are hashes of the values of a part whose form is
    public (the attribution text), by the fields' names.
    """

    path: str
    sha: str
    size: int
    tokens: int | None = None
    role: str = ""
    fields: tuple[tuple[str, str], ...] = ()


class Request(NamedTuple):
    """A request that reported both counts. `time` is in seconds since 1970 UTC, `prompt` includes `cached`;
    `answer` is the completion's length in tokens, None where the log has none."""

    time: float
    entry: str
    model: str
    client: str
    user: str
    session: str
    prompt: int
    cached: int
    parts: tuple[Part, ...] = ()
    answer: int | None = None

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The stream it belongs to: one value of every dimension."""
        return self[1], self[2], self[3], self[4]


class Skipped(Exception):
    """A row that cannot be used; the message is the reason it is counted under."""


class Unreadable(Exception):
    """A file that cannot be used at all; the message says what to do."""
