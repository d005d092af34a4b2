"""L2: the bounded host tier of chunks, least recently used out first.

A chunk is `chunk_blocks` blocks and is keyed by the hash of its last one. A store first reserves room (evicting
then), is copied by the next step, and only then can be found. A request's lookup and its stores touch all its chunks,
last to first, so that the head of a prompt outlives its tail. (vLLM `CPUOffloadingManager`, policy lru.)
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence


class HostTier:
    """Room for `capacity` chunks (> 0)."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._ready: OrderedDict[bytes, bool] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ready)

    def recency(self) -> list[bytes]:
        """Chunk keys, next to be evicted first."""
        return list(self._ready)

    def touch(self, keys: Sequence[bytes]) -> None:
        """Mark the chunks of a request as just used."""
        for key in reversed(keys):
            if key in self._ready:
                self._ready.move_to_end(key)

    def count_ready(self, keys: Iterable[bytes]) -> int:
        """Length of the run of readable chunks at the start of `keys`."""
        hits = 0
        for key in keys:
            if not self._ready.get(key, False):
                break
            hits += 1
        return hits

    def reserve(self, keys: Sequence[bytes]) -> list[bytes] | None:
        """Make room for the chunks of `keys` that are not here yet, and return those.

        Evicts old readable chunks, but none of `keys`. None, and nothing changed, when too few can go.
        """
        fresh = [key for key in dict.fromkeys(keys) if key not in self._ready]
        surplus = len(self._ready) + len(fresh) - self.capacity
        if fresh and surplus > 0:
            kept = set(keys)
            victims: list[bytes] = []
            for key, ready in self._ready.items():
                if ready and key not in kept:
                    victims.append(key)
                    if len(victims) == surplus:
                        break
            else:
                return None
            for key in victims:
                del self._ready[key]
        for key in fresh:
            self._ready[key] = False
        return fresh

    def complete(self, keys: Iterable[bytes]) -> None:
        """The copies of `keys` are done: they can be found. Chunks cleared meanwhile stay gone."""
        for key in keys:
            if key in self._ready:
                self._ready[key] = True

    def clear(self) -> None:
        """Drop everything, copies in flight included."""
        self._ready.clear()
