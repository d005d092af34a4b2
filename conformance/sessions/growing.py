"""The JSON text of a conversation that grows: what no later turn changes is written, and hashed, once."""

from __future__ import annotations

import hashlib
from typing import Any, Final, NamedTuple

import orjson

PLACE: Final = "messages"
"""The member that grows."""


class Ends(NamedTuple):
    """What stands around the settled text: before it, the messages behind it that may still change, and the members
    after those without the body's closing brace."""

    head: bytes
    now: bytes
    behind: bytes


class GrowingText:
    """Messages that stay as they are, as JSON text. `steps` is how many parts of the conversation are in it."""

    def __init__(self) -> None:
        self.steps = 0
        self._text = bytearray()
        self._hashed: tuple[bytes, Any, int] | None = None

    def settle(self, messages: list[dict[str, Any]], steps: int) -> None:
        """Append messages that no later turn changes; `steps` parts are settled then."""
        if messages:
            self._text += b"," if self._text else b""
            self._text += orjson.dumps(messages)[1:-1]
        self.steps = steps

    def around(self, members: dict[str, Any], open_messages: list[dict[str, Any]]) -> Ends:
        """The ends of a body of `members`, which has `PLACE` where the messages go."""
        keys = list(members)
        at = keys.index(PLACE)
        before = orjson.dumps({key: members[key] for key in keys[:at]})[:-1]
        behind = orjson.dumps({key: members[key] for key in keys[at + 1 :]})[1:-1]
        head = b'%b%b"%b":[' % (before, b"," if at else b"", PLACE.encode())
        now = orjson.dumps(open_messages)[1:-1]
        return Ends(head, b"%b%b]" % (b"," if now and self._text else b"", now), b"," + behind if behind else b"")

    def digest(self, ends: Ends) -> str:
        """SHA-256 of the body with these ends; only what is new of it is read."""
        if self._hashed is not None and self._hashed[0] == ends.head:
            _, so_far, done = self._hashed
        else:
            so_far, done = hashlib.sha256(ends.head), 0
        with memoryview(self._text) as view:
            so_far.update(view[done:])
        self._hashed = (ends.head, so_far, len(self._text))
        whole = so_far.copy()
        whole.update(ends.now)
        whole.update(ends.behind)
        whole.update(b"}")
        found: str = whole.hexdigest()
        return found

    def body(self, ends: Ends, more: bytes = b"") -> bytes:
        """The whole body, with the members `more` (`,"key":value`) at its end."""
        return b"".join((ends.head, self._text, ends.now, ends.behind, more, b"}"))
