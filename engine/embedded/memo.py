"""A bounded memo for token bytes, cheap enough to be asked for every message of every request."""


class TextMemo:
    """Maps text to token bytes and forgets what was not asked for in a long while.

    Two generations: when the young one holds more than `limit` characters it becomes the old one and the former old
    one is dropped; a hit in the old one is carried over. So between `limit` and twice `limit` characters are kept.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._young: dict[str, bytes] = {}
        self._old: dict[str, bytes] = {}

    @property
    def size(self) -> int:
        """Characters kept, counted once per generation."""
        return self._size + sum(map(len, self._old))

    def get(self, text: str) -> bytes | None:
        """The remembered token bytes, if any."""
        found = self._young.get(text)
        if found is None:
            found = self._old.get(text)
            if found is not None:
                self.put(text, found)
        return found

    def put(self, text: str, tokens: bytes) -> None:
        """Remember; a text longer than the limit is not kept."""
        if len(text) > self._limit:
            return
        if self._size + len(text) > self._limit:
            self._old, self._young, self._size = self._young, {}, 0
        self._young[text] = tokens
        self._size += len(text)
