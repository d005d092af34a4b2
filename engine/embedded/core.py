"""The engine without model, clock, HTTP or threads: add requests, step, abort.

What a request generates is given when it is added; the core decides what vLLM's scheduler and cache would make of it.
A step schedules running requests first, then waiting ones while blocks, token budget and seats last. A waiting
request looks its prompt up in L1 (at most prompt - 1 tokens: one is always computed), then in L2 from the first chunk
that L1 does not cover, and gains from L2 only by a whole chunk or more. Full blocks get their hash when they are
scheduled. When no block is left the request that came last is preempted and starts over. Chunks of the prompt are
reserved in L2 in the step that computes them, and copied, and findable, at the next. Loads take no step of their own.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.embedded.block_pool import BlockPool
from engine.embedded.config import EngineConfig
from engine.embedded.hashing import TOKEN_BYTES, TokenIds, block_hashes, token_bytes
from engine.embedded.host_tier import HostTier

_ONE_TOKEN = b"\x01\x00\x00\x00"


@dataclass(frozen=True, slots=True)
class RequestResult:
    """A finished request. `cached_tokens` = `local_tokens` (L1) + `external_tokens` (L2), as first scheduled."""

    request_id: str
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    local_tokens: int
    external_tokens: int
    preemptions: int


class TokenEvent(NamedTuple):
    """One generated token, number `place` (from 0) of its request; `result` comes with the last one."""

    request_id: str
    place: int
    result: RequestResult | None


@dataclass(slots=True)
class EngineStats:
    """Running totals since the core was built, in tokens unless named otherwise. A reset does not clear them.

    `queries`/`hits` and their external twins count when a request is admitted, once per request: readmissions after a
    preemption are left out. External queries exclude local hits. The prompt's sources count at its first token.
    """

    prefix_queries: int = 0
    prefix_hits: int = 0
    external_queries: int = 0
    external_hits: int = 0
    lookups: int = 0  # L2 lookups made
    prompt_tokens: int = 0
    prompt_tokens_local: int = 0
    prompt_tokens_external: int = 0
    generation_tokens: int = 0
    preemptions: int = 0
    finished_requests: int = 0
    aborted_requests: int = 0
    store_bytes: int = 0
    stores: int = 0  # transfers
    store_failures: int = 0  # stores given up because L2 could not make room
    load_bytes: int = 0
    loads: int = 0  # transfers


@dataclass(slots=True, eq=False)
class _Request:
    id: str
    hashes: list[bytes]
    prompt_len: int
    output_len: int
    blocks: list[int] = field(default_factory=list)
    registered: int = 0  # leading blocks that carry their hash
    computed: int = 0  # tokens in the cache
    emitted: int = 0  # tokens generated
    stored_chunks: int = 0
    local: int = -1  # -1: not scheduled yet
    external: int = 0
    preemptions: int = 0

    @property
    def length(self) -> int:
        return self.prompt_len + self.emitted


class EngineCore:
    """One engine. Every method returns at once; nothing runs between calls."""

    pool_class = BlockPool
    tier_class = HostTier

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.stats = EngineStats()
        self.pool = self.pool_class(config.num_blocks)
        self.tier = self.tier_class(config.l2_capacity) if config.l2_capacity else None
        self._block_size = config.block_size
        self._requests: dict[str, _Request] = {}
        self._waiting: deque[_Request] = deque()
        self._running: list[_Request] = []
        self._copies: list[bytes] = []  # chunks reserved in the last step

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return bool(self._running or self._waiting or self._copies)

    @property
    def num_running(self) -> int:
        """Requests that hold a seat."""
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        """Requests queued for blocks, budget or a seat."""
        return len(self._waiting)

    def add(
        self,
        request_id: str,
        token_ids: TokenIds,
        *,
        outputs: TokenIds = _ONE_TOKEN,
        cache_salt: str | None = None,
    ) -> None:
        """Queue a request: its prompt and what it will generate, the end-of-sequence token included.

        Ids are given as `array('I')`, as bytes of 32-bit little-endian words, or as any sequence of ints. Raises
        `ValueError` for an empty prompt or output, an id already in use, or prompt + output longer than the context.
        """
        if request_id in self._requests:
            raise ValueError(f"request id {request_id!r} is in use")
        prompt, output = token_bytes(token_ids), token_bytes(outputs)
        prompt_len, output_len = len(prompt) // TOKEN_BYTES, len(output) // TOKEN_BYTES
        if not prompt_len or not output_len:
            raise ValueError("a request needs at least one prompt token and one output token")
        if prompt_len + output_len > self.config.context_tokens:
            raise ValueError(
                f"{prompt_len} prompt tokens and {output_len} output tokens exceed the context of "
                f"{self.config.context_tokens} tokens"
            )
        # The last output token is never fed back, so it is in no block.
        hashes = self._hash(prompt + output[:-TOKEN_BYTES], cache_salt)
        request = _Request(request_id, hashes, prompt_len, output_len)
        self._requests[request_id] = request
        self._waiting.append(request)

    def abort(self, request_id: str) -> bool:
        """Drop a request and free its blocks. False if it is unknown or already finished."""
        request = self._requests.pop(request_id, None)
        if request is None:
            return False
        if request in self._running:
            self._running.remove(request)
        else:
            self._waiting.remove(request)
        self.pool.release(request.blocks)
        self.stats.aborted_requests += 1
        return True

    def complete(
        self, token_ids: TokenIds, *, outputs: TokenIds = _ONE_TOKEN, cache_salt: str | None = None
    ) -> RequestResult:
        """Add one request to an idle core and step until it is idle again. Raises `RuntimeError` on a busy core."""
        if self._requests:
            raise RuntimeError("complete() needs an idle core: use add() and step() for concurrent requests")
        self.add("complete", token_ids, outputs=outputs, cache_salt=cache_salt)
        result = None
        while self.has_work:
            for event in self.step():
                result = event.result or result
        if result is None:
            raise RuntimeError("the request ended without a result")
        return result

    def reset_prefix_cache(self, reset_external: bool = False) -> bool:
        """Forget L1, and L2 too on request. False while a request holds blocks; L2 is cleared even then, as in vLLM."""
        done = self.pool.reset()
        if reset_external and self.tier is not None:
            self.tier.clear()
            self._copies.clear()
        return done

    def spoils(self, tokens: TokenIds, cache_salt: str | None) -> bool:  # noqa: ARG002 - faults look at them
        """Whether a fault makes the answer to this prompt come from blocks that are not its own."""
        return False

    def step(self) -> list[TokenEvent]:
        """One scheduler step; the tokens it generated, in scheduling order."""
        self._finish_copies()
        scheduled: list[tuple[_Request, int]] = []
        budget = self.config.max_num_batched_tokens
        budget, preempted = self._schedule_running(scheduled, budget)
        if not preempted and self._waiting:
            self._schedule_waiting(scheduled, budget)
        events: list[TokenEvent] = []
        for request, count in scheduled:
            request.computed += count
            if self.tier is not None:
                self._reserve_chunks(request, self.tier)
        for request, _count in scheduled:
            if request.computed == request.length:
                events.append(self._emit(request))
        return events

    def _hash(self, tokens: bytes, cache_salt: str | None) -> list[bytes]:
        return block_hashes(tokens, self._block_size, cache_salt)

    def _local_limit(self, request: _Request) -> int:
        """Most blocks an L1 hit may cover: at least one token is computed."""
        return (request.length - 1) // self._block_size

    def _schedule_running(self, scheduled: list[tuple[_Request, int]], budget: int) -> tuple[int, bool]:
        position = 0
        preempted = False
        while position < len(self._running) and budget:
            request = self._running[position]
            count = min(request.length - request.computed, budget)
            while not self._extend(request, count):
                preempted = True
                victim = self._running.pop()
                self._preempt(victim)
                if victim is request:
                    return budget, preempted
            scheduled.append((request, count))
            budget -= count
            position += 1
        return budget, preempted

    def _schedule_waiting(self, scheduled: list[tuple[_Request, int]], budget: int) -> None:
        seats = self.config.max_num_seqs - len(self._running)
        while self._waiting and budget and seats:
            request = self._waiting[0]
            count = self._admit(request, budget)
            if not count:
                return
            self._waiting.popleft()
            self._running.append(request)
            scheduled.append((request, count))
            budget -= count
            seats -= 1

    def _admit(self, request: _Request, budget: int) -> int:
        """Look the request up, give it blocks, and return how many tokens to compute; 0 if blocks are short."""
        size, stats = self._block_size, self.stats
        hits = self.pool.cached_prefix(request.hashes, self._local_limit(request))
        local = len(hits) * size
        external = 0
        if self.tier is not None:
            external = self._external_tokens(request, local, self.tier)
        # A prompt that L2 holds to its last token still has that token computed.
        cached = min(local + external, request.length - 1)
        count = min(request.length - cached, budget)
        needed = -(-(cached + count) // size) - len(hits)
        if needed > self.pool.num_free - self.pool.num_unreferenced(hits):
            return 0
        self.pool.touch(hits)
        request.blocks = hits + self.pool.allocate(needed)
        request.registered = len(hits)
        request.computed = cached
        if external:
            stats.loads += 1
            stats.load_bytes += external * self.config.bytes_per_token
            request.stored_chunks = (local + external) // self.config.chunk_tokens
        self._register(request, max(local + external, cached + count))
        if request.local < 0:
            request.local, request.external = local, external
            stats.prefix_queries += request.length
            stats.prefix_hits += local
            if self.tier is not None:
                stats.external_queries += request.length - local
                stats.external_hits += external
        return count

    def _external_tokens(self, request: _Request, local: int, tier: HostTier) -> int:
        """Tokens L2 adds after `local` ones from L1: 0, or at least a chunk."""
        chunk = self.config.chunk_tokens
        keys = self._chunk_keys(request, request.length // chunk)
        tier.touch(keys)
        if len(keys) * chunk - local < chunk:
            return 0
        self.stats.lookups += 1
        first = local // chunk
        gain = (first + tier.count_ready(keys[first:])) * chunk - local
        return gain if gain >= chunk else 0

    def _chunk_keys(self, request: _Request, count: int) -> Sequence[bytes]:
        blocks = self.config.chunk_blocks
        return request.hashes[blocks - 1 : count * blocks : blocks]

    def _extend(self, request: _Request, count: int) -> bool:
        """Room for `count` more tokens; False if the pool is short."""
        needed = -(-(request.computed + count) // self._block_size) - len(request.blocks)
        if needed > 0:
            if needed > self.pool.num_free:
                return False
            request.blocks += self.pool.allocate(needed)
        self._register(request, request.computed + count)
        return True

    def _register(self, request: _Request, tokens: int) -> None:
        full = tokens // self._block_size
        done = request.registered
        if full > done:
            self.pool.register(request.blocks[done:full], request.hashes[done:full])
            request.registered = full

    def _preempt(self, request: _Request) -> None:
        self.pool.release(request.blocks)
        request.blocks = []
        request.registered = request.computed = request.stored_chunks = 0
        request.preemptions += 1
        self.stats.preemptions += 1
        self._waiting.appendleft(request)

    def _reserve_chunks(self, request: _Request, tier: HostTier) -> None:
        tokens = request.computed
        if self.config.offload_prompt_only:
            tokens = min(tokens, request.prompt_len)
        count = tokens // self.config.chunk_tokens
        if count <= request.stored_chunks:
            return
        keys = self._chunk_keys(request, count)
        fresh = tier.reserve(keys[request.stored_chunks :])
        if fresh is None:
            self.stats.store_failures += 1
            return
        request.stored_chunks = count
        if fresh:
            tier.touch(keys)
            self._copies += fresh
            self.stats.stores += 1

    def _finish_copies(self) -> None:
        if self._copies and self.tier is not None:
            self.tier.complete(self._copies)
            self.stats.store_bytes += len(self._copies) * self.config.chunk_bytes
            self._copies = []

    def _emit(self, request: _Request) -> TokenEvent:
        place = request.emitted
        request.emitted += 1
        stats = self.stats
        stats.generation_tokens += 1
        if not place:
            stats.prompt_tokens += request.prompt_len
            stats.prompt_tokens_local += request.local
            stats.prompt_tokens_external += request.external
        if request.emitted < request.output_len:
            return TokenEvent(request.id, place, None)
        stats.finished_requests += 1
        self._running.remove(request)
        del self._requests[request.id]
        self.pool.release(request.blocks)
        return TokenEvent(
            request.id,
            place,
            RequestResult(
                request.id,
                request.prompt_len,
                request.output_len,
                request.local + request.external,
                request.local,
                request.external,
                request.preemptions,
            ),
        )
