"""L1: the device pool of KV blocks, with vLLM's order of reuse.

Block 0 is the null block and never handed out. The free queue starts in id order and is taken from its head. A block
keeps its hash while it lies in the queue and loses it when it is handed out again, so a freed prefix stays readable
until it is overwritten. Freed blocks without a hash go to the front, hashed ones to the back (read from vLLM 0.33).
Blocks of equal content are not merged; a lookup returns the one registered first.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence


class BlockPool:
    """`num_blocks` blocks, the null block included. Ids are small integers, hashes are bytes."""

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(1, num_blocks))
        self._refs = [0] * num_blocks
        self._hashes: list[bytes | None] = [None] * num_blocks
        self._covers = [0] * num_blocks  # tokens of the prefix a block's key stands for
        self._extra: dict[int, list[bytes]] = {}  # further keys of a block
        # A hash nearly always has one holder: a bare id then, a dict in registration order when there are several.
        self._holders: dict[bytes, int | dict[int, None]] = {}

    @property
    def num_free(self) -> int:
        """Blocks that can be handed out, cached ones among them."""
        return len(self._free)

    @property
    def usage(self) -> float:
        """Share of the pool held by requests, 0..1."""
        return 1.0 - len(self._free) / (self.num_blocks - 1)

    @property
    def num_cached(self) -> int:
        """Distinct hashes a lookup can find."""
        return len(self._holders)

    def free_order(self) -> list[int]:
        """Free block ids, next to be reused first."""
        return list(self._free)

    def cached_prefix(self, hashes: Sequence[bytes], limit: int) -> list[int]:
        """Ids of the blocks that hold `hashes[0]`, `hashes[1]`, ... up to the first miss or `limit` blocks."""
        found: list[int] = []
        holders = self._holders
        for key in hashes[:limit]:
            holder = holders.get(key)
            if holder is None:
                break
            found.append(holder if isinstance(holder, int) else next(iter(holder)))
        return found

    def holder(self, key: bytes) -> int | None:
        """The block that holds `key`, the first registered of several; None if none does."""
        found = self._holders.get(key)
        return found if found is None or isinstance(found, int) else next(iter(found))

    def num_unreferenced(self, blocks: Iterable[int]) -> int:
        """How many of `blocks` lie in the free queue."""
        refs = self._refs
        return sum(1 for block in blocks if block and not refs[block])

    def touch(self, blocks: Iterable[int]) -> None:
        """Take hits out of the free queue and hold them; the null block is nobody's."""
        refs, free = self._refs, self._free
        for block in blocks:
            if not block:
                continue
            if not refs[block]:
                del free[block]
            refs[block] += 1

    def allocate(self, count: int) -> list[int]:
        """Hand out `count` blocks from the head of the queue. Raises `IndexError` when fewer are free."""
        if count > len(self._free):
            raise IndexError(f"{count} blocks asked, {len(self._free)} free")
        blocks: list[int] = []
        free, hashes, refs = self._free, self._hashes, self._refs
        for _ in range(count):
            block, _none = free.popitem(last=False)
            key = hashes[block]
            if key is not None:
                self._forget(block, key)
                if block in self._extra:
                    self._drop_keys(block)
            refs[block] = 1
            blocks.append(block)
        return blocks

    def register(self, blocks: Sequence[int], hashes: Sequence[bytes], covers: Sequence[int] | None = None) -> None:
        """Make full, held blocks findable under their hashes; the null block is passed over.

        `covers`: tokens of the prefix each ends, where a block may carry the key of a part of itself till then.
        """
        for place, (block, key) in enumerate(zip(blocks, hashes, strict=True)):
            if not block:
                continue
            if covers is not None:
                self._drop_keys(block)
                self._covers[block] = covers[place]
            self._hashes[block] = key
            self._insert(block, key)

    def register_tail(self, block: int, key: bytes, covers: int) -> None:
        """A prompt ends inside `block`, `covers` tokens long: the block carries that prefix's key until it is full."""
        own = self._hashes[block]
        if own == key or key in self._extra.get(block, ()):
            return
        if own is not None and self._covers[block] < covers:
            self._drop_keys(block)
            own = None
        if own is None:
            self._hashes[block], self._covers[block] = key, covers
        else:
            self._extra.setdefault(block, []).append(key)
        self._insert(block, key)

    def _insert(self, block: int, key: bytes) -> None:
        holder = self._holders.setdefault(key, block)
        if isinstance(holder, dict):
            holder[block] = None
        elif holder != block:
            self._holders[key] = {holder: None, block: None}

    def _drop_keys(self, block: int) -> None:
        for key in (self._hashes[block], *self._extra.pop(block, ())):
            if key is not None:
                self._forget(block, key)

    def release(self, blocks: Sequence[int]) -> None:
        """Give up a request's blocks, in the order of its tokens; the last is queued first, so tails go first."""
        refs, free, hashes = self._refs, self._free, self._hashes
        unhashed: list[int] = []
        for block in reversed(blocks):
            if not block:
                continue
            refs[block] -= 1
            if refs[block]:
                continue
            if hashes[block] is None:
                unhashed.append(block)
            else:
                free[block] = None
        for block in reversed(unhashed):
            free[block] = None
            free.move_to_end(block, last=False)

    def contents(self) -> dict[int, bytes]:
        """Block id -> key, of every block that carries one."""
        return {block: key for block, key in enumerate(self._hashes) if key is not None}

    def key_of(self, block: int) -> bytes | None:
        """The key a block carries."""
        return self._hashes[block]

    def reset(self) -> bool:
        """Forget every hash. False, and nothing done, while a request holds a block. The queue's order stays."""
        if len(self._free) != self.num_blocks - 1:
            return False
        self._hashes = [None] * self.num_blocks
        self._extra.clear()
        self._holders.clear()
        return True

    def _forget(self, block: int, key: bytes) -> None:
        if self._hashes[block] == key:
            self._hashes[block] = None
        holder = self._holders[key]
        if isinstance(holder, int):
            del self._holders[key]
            return
        del holder[block]
        if len(holder) == 1:
            self._holders[key] = next(iter(holder))
