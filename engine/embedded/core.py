"""The engine without model, clock, HTTP or threads: add requests, step, abort.

What a request generates is given when it is added; the core decides what vLLM's scheduler and cache would make of it.
A step schedules running requests first, then waiting ones while blocks, token budget and seats last. A waiting
request looks its prompt up in L1 (at most prompt - 1 tokens: one is always computed), then in L2 from the first chunk
that L1 does not cover, and gains from L2 only by a whole chunk or more. A load takes the request's blocks at once and
ends, with its copies, `copy_steps` steps later; the request is scheduled in the step after that. Full blocks get their
hash when they are scheduled. When no block is left the request that came last is preempted and starts over. Chunks are
reserved in L2 in the step that computes them and can be found when their copy has ended.
"""

from collections import deque

from engine.embedded.admission import Admission
from engine.embedded.block_pool import BlockPool
from engine.embedded.config import EngineConfig
from engine.embedded.hashing import TOKEN_BYTES, TokenIds, block_hashes, token_bytes
from engine.embedded.host_tier import HostTier
from engine.embedded.local_cache import LocalCache
from engine.embedded.offload import Offload
from engine.embedded.requests import EngineStats, Request, RequestResult, TokenEvent

_ONE_TOKEN = b"\x01\x00\x00\x00"


class EngineCore(Admission):
    """One engine. Every method returns at once; nothing runs between calls."""

    pool_class = BlockPool
    tier_class = HostTier
    cache_class = LocalCache
    offload_class = Offload

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.stats = EngineStats()
        self.pool = self.pool_class(config.num_blocks)
        family, geometry = config.family, config.geometry
        self.cache = self.cache_class(
            self.pool,
            geometry,
            family,
            drafts=geometry.drafts(unannotated=config.drafter),
            retention=config.retention_interval,
            step_tokens=config.max_num_batched_tokens,
            context_tokens=config.context_tokens,
        )
        self.tier: HostTier | None = None
        self.offload: Offload | None = None
        if config.l2_capacity:
            self.tier = self.tier_class(config.l2_capacity, by_end=family.recency_at_end)
            self.offload = self.offload_class(
                self.tier,
                geometry,
                family,
                chunk_blocks=config.chunk_blocks,
                drafts=geometry.drafts(unannotated=config.drafter and family.all_draft),
                retention=config.retention_interval,
                prompt_only=config.offload_prompt_only,
                copy_steps=config.copy_steps,
                replay=geometry.replay_tokens() if config.window_rule == "fixed" else None,
            )
        self._geometry, self._family = geometry, family
        self._requests: dict[str, Request] = {}
        self._waiting: deque[Request] = deque()
        # Asked before the others: those whose loads run or have ended; up to 0.30 all that once had to wait for copies.
        self._holders: deque[Request] = deque()
        self._running: list[Request] = []
        self._ended: list[Request] = []  # since the last step
        self._loaders: dict[str, Request] = {}  # requests whose loads run, those aborted meanwhile among them
        self._now = 0
        self.last_scheduled: list[tuple[Request, int]] = []  # who computed how many tokens in the last step

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        busy = self.offload is not None and (self.offload.busy or bool(self._ended))
        return bool(self._running or self._waiting or self._holders or busy)

    @property
    def num_running(self) -> int:
        """Requests that hold a seat."""
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        """Requests queued for blocks, budget or a seat, or for a load to end."""
        return len(self._waiting) + len(self._holders)

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
        keys, tables = self.cache.open(self._hash(prompt + output, cache_salt), prompt_len)
        request = Request(request_id, keys, prompt_len, output_len, tables)
        if self.offload is not None:
            request.offload = self.offload.open(request_id, prompt_len, keys)
        self._requests[request_id] = request
        self._waiting.append(request)

    def request(self, request_id: str) -> Request:
        """A request that has not ended. Raises `KeyError` for any other."""
        return self._requests[request_id]

    def abort(self, request_id: str) -> bool:
        """Drop a request and free its blocks. False if it is unknown or already finished."""
        request = self._requests.pop(request_id, None)
        if request is None:
            return False
        for queue in (self._running, self._waiting, self._holders):
            if request in queue:
                queue.remove(request)
        self.stats.aborted_requests += 1
        self._end(request, aborted=True)
        return True

    def complete(
        self, token_ids: TokenIds, *, outputs: TokenIds = _ONE_TOKEN, cache_salt: str | None = None
    ) -> RequestResult:
        """Add one request to an idle core and step until it is idle again. Raises `RuntimeError` on a busy core.

        Also where the engine makes no headway, which no configuration that is accepted should lead to.
        """
        if self._requests:
            raise RuntimeError("complete() needs an idle core: use add() and step() for concurrent requests")
        self.add("complete", token_ids, outputs=outputs, cache_salt=cache_salt)
        result, idle = None, 0
        while self.has_work:
            for event in self.step():
                result = event.result or result
            busy = self.last_scheduled or (self.offload is not None and self.offload.busy)
            idle = 0 if busy else idle + 1
            if idle > 2:
                raise RuntimeError("the engine makes no headway with a request")
        if result is None:
            raise RuntimeError("the request ended without a result")
        return result

    def reset_prefix_cache(self, reset_external: bool = False) -> bool:
        """Forget L1, and L2 too on request. False while a request holds blocks; L2 is cleared even then, as in vLLM."""
        done = self.pool.reset()
        if reset_external and self.offload is not None:
            self.offload.reset()
            for request in self._loaders.values():
                request.loading, request.arrived = False, True
                if request.id not in self._requests:
                    self.cache.free(request.tables)
            self._loaders.clear()
        return done

    def spoils(self, tokens: TokenIds, cache_salt: str | None) -> bool:  # noqa: ARG002 - faults look at them
        """Whether a fault makes the answer to this prompt come from blocks that are not its own."""
        return False

    def step(self) -> list[TokenEvent]:
        """One scheduler step; the tokens it generated, in scheduling order."""
        scheduled: list[tuple[Request, int]] = []
        self.last_scheduled = scheduled
        grown: list[tuple[Request, list[int], bool]] = []
        budget, preempted = self._schedule_running(scheduled, grown, self.config.max_num_batched_tokens)
        if not preempted:
            self._schedule_waiting(scheduled, grown, budget)
        if self.offload is not None:
            self._offload_step(self.offload, scheduled, grown, preempted)
        ended, self._ended = self._ended, []
        if self.offload is not None:
            for request in ended:
                if request.offload is not None and self.offload.knows(request.offload):
                    self.offload.sign_off(request.offload)
        events: list[TokenEvent] = []
        for request, count in scheduled:
            request.computed += count
            if request.computed >= request.length:
                request.prefilling = False
        for request, _count in scheduled:
            if request.computed == request.length:
                events.append(self._emit(request))
        if self.offload is not None:
            self._finish_copies(self.offload)
        self._now += 1
        return events

    def _hash(self, tokens: bytes, cache_salt: str | None) -> list[bytes]:
        return block_hashes(tokens, self._geometry.unit, cache_salt)

    def _schedule_running(
        self, scheduled: list[tuple[Request, int]], grown: list[tuple[Request, list[int], bool]], budget: int
    ) -> tuple[int, list[Request]]:
        position = 0
        preempted: list[Request] = []
        while position < len(self._running) and budget:
            request = self._running[position]
            count = min(request.length - request.computed, budget)
            before = [len(row) for row in request.tables.blocks]
            while not self._extend(request, count):
                victim = self._running.pop()
                self._preempt(victim)
                preempted.append(victim)
                if victim is request:
                    return budget, preempted
            scheduled.append((request, count))
            grown.append((request, before, False))
            budget -= count
            position += 1
        return budget, preempted

    def _extend(self, request: Request, count: int) -> bool:
        """Room for `count` more tokens; False if the pool is short."""
        cache, tables, total = self.cache, request.tables, request.computed + count
        cache.leave_window(tables, request.computed)
        if cache.needed(tables, None, total, request.computed) > self.pool.num_free:
            return False
        cache.extend(tables, total)
        cache.register(tables, request.keys, total, request.prompt_len, request.junction)
        return True

    def _schedule_waiting(
        self, scheduled: list[tuple[Request, int]], grown: list[tuple[Request, list[int], bool]], budget: int
    ) -> None:
        skipped: list[Request] = []
        skipped_holders: list[Request] = []
        while budget and (self._holders or self._waiting) and len(self._running) < self.config.max_num_seqs:
            queue = self._holders or self._waiting
            request = queue[0]
            if request.loading:
                queue.popleft()
                skipped_holders.append(request)
                continue
            if request.arrived:
                self._take_in(request)
            count = self._readmit(request, budget) if request.loaded else self._admit(request, budget)
            if count is None:
                queue.popleft()
                aside = request.id in self._loaders or not self._family.holders_only
                (skipped_holders if aside else skipped).append(request)
                continue
            if not count:
                break
            queue.popleft()
            request.loaded = False
            request.prefilling = request.computed + count < request.length
            self._running.append(request)
            scheduled.append((request, count))
            grown.append((request, [0] * len(request.tables.blocks), True))
            budget -= count
        self._holders.extendleft(reversed(skipped_holders))
        self._waiting.extendleft(reversed(skipped))

    def _preempt(self, request: Request) -> None:
        self.cache.free(request.tables)
        request.computed = 0
        request.prefilling = False
        request.preemptions += 1
        self.stats.preemptions += 1
        self._waiting.appendleft(request)

    def _offload_step(
        self,
        offload: Offload,
        scheduled: list[tuple[Request, int]],
        grown: list[tuple[Request, list[int], bool]],
        preempted: list[Request],
    ) -> None:
        """Tell the tier of this step's blocks, and offer it what the step fills."""
        before: dict[str, list[int]] = {}
        for request, lengths, restarted in grown:
            if request.offload is None:
                continue
            fresh = [row[length:] for row, length in zip(request.tables.blocks, lengths, strict=True)]
            ends = offload.scheduled(request.offload, request.length, fresh, restarted=restarted)
            if any(fresh):
                before[request.id] = ends
        offload.forget_reused(before)
        for request in preempted:
            if request.offload is not None:
                offload.flush_preempted(request.offload)
        offload.flush_reused()
        for request, count in scheduled:
            self._store(offload, request, request.computed + count)
        for request in self._ended:
            if request.offload is None or not offload.knows(request.offload):
                continue
            if request.offload.aborted:
                tokens = request.computed
            else:
                last = request.length - 1 if self._family.stable_tail else request.length
                tokens = max(request.prompt_len, last)
            self._store(offload, request, tokens)

    def _store(self, offload: Offload, request: Request, tokens: int) -> None:
        if request.offload is None:
            return
        copies, failed = offload.store(request.offload, tokens, request.junction, self._now)
        self.stats.store_failures += failed
        self.stats.stores += copies is not None

    def _finish_copies(self, offload: Offload) -> None:
        loads, blocks = offload.complete_due(self._now)
        self.stats.store_bytes += blocks * self.config.page_bytes
        for copies in loads:
            request = self._loaders.pop(copies.owner.request_id)
            request.loading, request.arrived = False, True
            if copies.owner.ended:
                self.cache.free(request.tables)

    def _emit(self, request: Request) -> TokenEvent:
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
        self._end(request, aborted=False)
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

    def _end(self, request: Request, *, aborted: bool) -> None:
        request.prefilling = False
        self.cache.leave_window(request.tables, request.computed)
        if request.offload is not None and self.offload is not None:
            self.offload.end(request.offload, request.length, aborted=aborted)
        self._ended.append(request)
        # A load under way still writes into the blocks.
        if not request.loading:
            self.cache.free(request.tables)
