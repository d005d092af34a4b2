"""L2: the bounded host tier of chunks, least recently used out first.

A chunk is `chunk_blocks` blocks of one group and is keyed by the hash of its last one. A store first reserves room
(evicting then), is copied, and only then can be found; a load pins its chunks until it is done. What counts as use
differs by release: up to 0.30 a request's lookups and stores, from 0.31 on one use of all its chunks when it ends, head
last, so that the head of a prompt outlives its tail either way. (vLLM `CPUOffloadingManager`, policy lru.)
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

PENDING = -1


class HostTier:
    """Room for `capacity` chunks (> 0). `by_end`: recency is set by `touch` and insertion alone, whatever is pinned."""

    def __init__(self, capacity: int, *, by_end: bool = True) -> None:
        self.capacity = capacity
        self._by_end = by_end
        # Readers of each chunk, oldest use first; `PENDING` until its copy is done.
        self._readers: OrderedDict[bytes, int] = OrderedDict()
        self._idle: OrderedDict[bytes, None] = OrderedDict()  # evictable, in the older releases' order
        self._evictable = 0

    def __len__(self) -> int:
        return len(self._readers)

    def recency(self) -> list[bytes]:
        """Chunk keys, next to be evicted first."""
        return list(self._readers if self._by_end else self._idle)

    def contents(self) -> dict[bytes, bool]:
        """Key -> whether it can be read."""
        return {key: readers != PENDING for key, readers in self._readers.items()}

    def state(self, key: bytes) -> bool | None:
        """True: readable; False: its copy is under way; None: not here."""
        readers = self._readers.get(key)
        return None if readers is None else readers != PENDING

    def touch(self, keys: Sequence[bytes]) -> None:
        """Mark chunks as just used, the first one as the most recent."""
        order: OrderedDict[bytes, int] | OrderedDict[bytes, None] = self._readers if self._by_end else self._idle
        for key in reversed(keys):
            if key in order:
                order.move_to_end(key)

    def reserve(self, keys: Sequence[bytes]) -> list[bytes] | None:
        """Make room for the chunks of `keys` that are not here yet, and return those.

        Evicts old readable chunks, but none of `keys`. None, and nothing changed, when too few can go.
        """
        fresh = [key for key in keys if key not in self._readers]
        surplus = len(self._readers) + len(fresh) - self.capacity
        if fresh and surplus > 0:
            victims = self._victims(surplus, set(keys))
            if victims is None:
                return None
            for key in victims:
                del self._readers[key]
                self._idle.pop(key, None)
            self._evictable -= len(victims)
        for key in fresh:
            self._readers[key] = PENDING
        return fresh

    def _victims(self, count: int, spared: set[bytes]) -> list[bytes] | None:
        if count > self._evictable:
            return None
        victims: list[bytes] = []
        for key in self._readers if self._by_end else self._idle:
            if self._readers[key] == 0 and key not in spared:
                victims.append(key)
                if len(victims) == count:
                    return victims
        return None

    def complete(self, keys: Iterable[bytes]) -> None:
        """The copies of `keys` are done: they can be found. Chunks cleared meanwhile stay gone."""
        for key in keys:
            if self._readers.get(key) == PENDING:
                self._release(key)

    def pin(self, keys: Iterable[bytes]) -> None:
        """A load of `keys` begins."""
        for key in keys:
            if not self._readers[key]:
                self._evictable -= 1
                self._idle.pop(key, None)
            self._readers[key] += 1

    def unpin(self, keys: Iterable[bytes]) -> None:
        """A load of `keys` is done."""
        for key in keys:
            readers = self._readers.get(key, 0)
            if readers == 1:
                self._release(key)
            elif readers > 1:
                self._readers[key] = readers - 1

    def _release(self, key: bytes) -> None:
        self._readers[key] = 0
        self._evictable += 1
        if not self._by_end:
            self._idle[key] = None

    def clear(self) -> None:
        """Drop everything, copies in flight included."""
        self._readers.clear()
        self._idle.clear()
        self._evictable = 0
