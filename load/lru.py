"""What a cache of a given size would have kept: the load generator's own prediction, made without the engine's code.

Requests are served one after the other. A prompt is a row of block keys, each standing for all before it. Blocks of a
finished request are given back tail first, so that the head of a prompt outlives its tail (vLLM prefix-caching design).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Predicted:
    """Tokens of one prompt that each tier would have had."""

    prompt: int
    l1: int
    l2: int

    @property
    def cached(self) -> int:
        """Both tiers together."""
        return self.l1 + self.l2


@dataclass
class Cache:
    """L1 of `blocks` blocks (None: endless) of `block_size` tokens, and L2 of `chunks` chunks (0: none)."""

    block_size: int
    blocks: int | None = None
    chunks: int = 0
    chunk_blocks: int = 1
    prompt_tokens: int = 0
    l1_tokens: int = 0
    l2_tokens: int = 0
    _free: OrderedDict[int, Hashable] = field(default_factory=OrderedDict, repr=False)
    _held: dict[Hashable, list[int]] = field(default_factory=dict, repr=False)
    _serial: int = 0
    _host: OrderedDict[Hashable, None] = field(default_factory=OrderedDict, repr=False)

    def serve(self, keys: Sequence[Hashable], prompt: int, *, private: int = 0, whole: bool = False) -> Predicted:
        """One prompt of `prompt` tokens whose full blocks have `keys`; `private` blocks more are filled or begun.

        At least one token is computed, so a prompt that ends with a full block misses that one; with `whole` it may
        be found too, as definitions that only look at blocks have it.
        """
        held, size = self._held, self.block_size
        limit = len(keys) if whole else min(len(keys), (prompt - 1) // size)
        local = 0
        while local < limit and keys[local] in held:
            local += 1
        external = self._external(keys, local)
        blocks = [held[key][0] for key in keys[:local]]
        for block in blocks:
            del self._free[block]
        if self.blocks is not None:
            room = self.blocks - local - len(self._free)
            for _ in range(min(len(self._free), max(0, len(keys) - local + private - room))):
                self._overwrite()
        for key in keys[local:]:
            # A block computed again is a second copy of the first, which stays where it is.
            self._serial += 1
            held.setdefault(key, []).append(self._serial)
            blocks.append(self._serial)
        for block, key in zip(reversed(blocks), reversed(keys), strict=True):
            self._free[block] = key
        found = Predicted(prompt, local * size, external)
        self.prompt_tokens += prompt
        self.l1_tokens += found.l1
        self.l2_tokens += found.l2
        return found

    def _overwrite(self) -> None:
        """Give the block that lay free the longest to somebody else."""
        block, key = self._free.popitem(last=False)
        copies = self._held[key]
        copies.remove(block)
        if not copies:
            del self._held[key]

    @property
    def hit_rate(self) -> float:
        """Of both tiers, over all prompts so far; 0 before the first."""
        return (self.l1_tokens + self.l2_tokens) / self.prompt_tokens if self.prompt_tokens else 0.0

    def _external(self, keys: Sequence[Hashable], local: int) -> int:
        """Tokens L2 adds: whole chunks from the first one L1 does not cover. Then the prompt's chunks are stored."""
        if not self.chunks:
            return 0
        host, step = self._host, self.chunk_blocks
        ends = keys[step - 1 :: step]
        for key in reversed(ends):
            if key in host:
                host.move_to_end(key)
        first = place = local // step
        while place < len(ends) and ends[place] in host:
            place += 1
        chunk = step * self.block_size
        gain = place * chunk - local * self.block_size if place > first else 0
        fresh = [key for key in ends if key not in host]
        surplus = len(host) + len(fresh) - self.chunks
        # This prompt's own chunks make no room for it; where others are too few, none of it is stored.
        if fresh and surplus <= len(host) - (len(ends) - len(fresh)):
            for _ in range(max(0, surplus)):
                host.popitem(last=False)
            for key in fresh:
                host[key] = None
        for key in reversed(ends):
            if key in host:
                host.move_to_end(key)
        return gain if gain >= chunk else 0
