"""A second, naive model of the cache, for requests sent one after another: lists, no hashes, no shared code.

Written from the facts about vLLM alone; imports nothing from the project. Contents are kept as the tokens themselves
(everything up to the end of a block or chunk), so a collision or a hashing fault cannot agree with it by accident.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

Tokens = tuple[int, ...]
Key = tuple[str | None, Tokens]


def rounded(value: int, step: int) -> int:
    """Down to a multiple of `step`."""
    return value // step * step


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """Tokens two prompts share from the start."""
    length = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        length += 1
    return length


@dataclass(frozen=True)
class Sent:
    """A request: prompt, generated tokens, salt."""

    prompt: Tokens
    outputs: Tokens
    salt: str | None = None


def expected_cached(
    request: Sent,
    earlier_l1: Sequence[Sent],
    earlier_l2: Sequence[Sent],
    *,
    block: int,
    chunk: int,
    prompt_only: bool,
) -> tuple[int, int]:
    """The closed formula where nothing is evicted: (tokens from L1, tokens from L2).

    `earlier_l1` are the requests since L1 was reset, `earlier_l2` those since L2 was; `chunk` 0 means no L2.
    """
    new = len(request.prompt)
    local = reach = 0
    for old in earlier_l1:
        if old.salt == request.salt:
            shared = common_prefix(old.prompt + old.outputs, request.prompt)
            local = max(local, rounded(min(shared, len(old.prompt) + len(old.outputs) - 1, new - 1), block))
    if not chunk:
        return local, 0
    for old in earlier_l2:
        if old.salt == request.salt:
            shared = common_prefix(old.prompt + old.outputs, request.prompt)
            stored = len(old.prompt) if prompt_only else len(old.prompt) + len(old.outputs) - 1
            reach = max(reach, rounded(min(shared, stored, new), chunk))
    return (local, reach - local) if reach - local >= chunk else (local, 0)


@dataclass
class ReferenceCache:
    """Both tiers with eviction. `blocks` excludes the null block; `budget` is tokens a step; `chunks` 0: no L2."""

    block: int
    blocks: int
    chunk_blocks: int
    chunks: int
    prompt_only: bool
    budget: int
    content: dict[int, Key] = field(default_factory=dict)  # in the order of registration
    queue: list[int] = field(default_factory=list)
    tier: list[Key] = field(default_factory=list)  # next to go first

    def __post_init__(self) -> None:
        self.queue = list(range(1, self.blocks + 1))

    def send(self, request: Sent) -> tuple[int, int]:
        """Run a request to its end; returns (tokens from L1, tokens from L2)."""
        total = request.prompt + request.outputs
        prompt_len = len(request.prompt)
        held = self._hits(request, prompt_len)
        local = len(held) * self.block
        seen: set[Key] = set()
        external = self._from_tier(request, local, seen)
        for number in held:
            self.queue.remove(number)
        registered = len(held)
        stored = (local + external) // self._chunk if external else 0
        computed = min(local + external, prompt_len - 1)
        while computed < len(total) - 1:
            known = max(prompt_len, computed + 1)
            target = min(known, computed + self.budget)
            while len(held) * self.block < target:
                number = self.queue.pop(0)
                self.content.pop(number, None)
                held.append(number)
            full = max(target, local + external) // self.block
            for place in range(registered, full):
                self.content[held[place]] = (request.salt, total[: (place + 1) * self.block])
            registered = max(registered, full)
            computed = target
            upto = min(computed, prompt_len) if self.prompt_only else computed
            stored = self._store(request, total, upto, stored, seen)
        self._free(held)
        # A request uses its chunks once, when it ends, the last of them first.
        self._touch(sorted(seen, key=lambda key: len(key[1])))
        return local, external

    def reset(self, *, external: bool) -> None:
        """Forget L1, and L2 if asked."""
        self.content.clear()
        if external:
            self.tier.clear()

    @property
    def _chunk(self) -> int:
        return self.block * self.chunk_blocks

    def _hits(self, request: Sent, prompt_len: int) -> list[int]:
        held: list[int] = []
        for place in range((prompt_len - 1) // self.block):
            wanted = (request.salt, request.prompt[: (place + 1) * self.block])
            holders = [number for number, key in self.content.items() if key == wanted]
            if not holders:
                break
            held.append(holders[0])
        return held

    def _from_tier(self, request: Sent, local: int, seen: set[Key]) -> int:
        if not self.chunks:
            return 0
        size = self._chunk
        keys = [(request.salt, request.prompt[:end]) for end in range(size, len(request.prompt) + 1, size)]
        reach = local // size * size
        for key in keys[local // size :]:
            if key not in self.tier:
                break
            reach += size
        if reach - local < size:
            return 0
        seen.update(keys[local // size : reach // size])
        return reach - local

    def _touch(self, keys: list[Key]) -> None:
        for key in reversed(keys):
            if key in self.tier:
                self.tier.remove(key)
                self.tier.append(key)

    def _store(self, request: Sent, total: Tokens, upto: int, stored: int, seen: set[Key]) -> int:
        size = self._chunk
        if not self.chunks or upto // size <= stored:
            return stored
        keys = [(request.salt, total[:end]) for end in range(size, upto + 1, size)]
        batch = keys[stored:]
        seen.update(batch)
        fresh = [key for key in batch if key not in self.tier]
        surplus = len(self.tier) + len(fresh) - self.chunks
        if fresh and surplus > 0:
            # Chunks reserved by the same request in an earlier step are copied by now, so any other chunk may go.
            going = [key for key in self.tier if key not in batch][:surplus]
            if len(going) < surplus:
                return stored
            self.tier = [key for key in self.tier if key not in going]
        self.tier += fresh
        return upto // size

    def _free(self, held: list[int]) -> None:
        hashed = [number for number in reversed(held) if number in self.content]
        bare = [number for number in reversed(held) if number not in self.content]
        self.queue = bare + self.queue + hashed
