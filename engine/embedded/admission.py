"""How a waiting request comes to its blocks: looked up in both tiers, loaded or not, if what it needs is free."""

from engine.embedded.block_pool import BlockPool
from engine.embedded.config import EngineConfig
from engine.embedded.groups import Geometry
from engine.embedded.local_cache import Hit, LocalCache
from engine.embedded.offload import Offload
from engine.embedded.offload_state import OffloadState
from engine.embedded.requests import EngineStats, Request


class Admission:
    """The part of the core that admits; the attributes are the core's."""

    config: EngineConfig
    stats: EngineStats
    pool: BlockPool
    cache: LocalCache
    offload: Offload | None
    _geometry: Geometry
    _requests: dict[str, Request]
    _loaders: dict[str, Request]
    _now: int

    def _admit(self, request: Request, budget: int) -> int | None:
        """Look the request up, give it blocks, and return how many tokens to compute; 0 if blocks are short.

        None: it has to wait for copies, its own load among them.
        """
        hit = self.cache.find(request.keys, request.length)
        request.junction = hit.junction
        external = 0
        if self.offload is not None and request.offload is not None:
            self.stats.lookups += not request.offload.jobs
            found = self.offload.lookup(request.offload, hit.tokens, request.length)
            if found is None:
                return None
            external = found
        if not request.preemptions:
            request.local, request.external = hit.tokens, external
        # A prompt held to its last token still has that one computed.
        computed = hit.tokens + external if external else min(hit.tokens, request.length - 1)
        count = 0 if external else min(request.length - computed, budget)
        ahead = request.offload.promoted - computed if external and request.offload is not None else 0
        if not self._fits(request, hit, computed, max(count, ahead), reserved=self._reserved() if external else 0):
            return 0
        promoted = request.offload.promoted if external and request.offload is not None else 0
        if promoted:
            self.cache.promote(request.tables, hit, computed, promoted, request.length)
        else:
            self.cache.adopt(request.tables, hit, external)
        self._count_admission(request, hit.tokens, external)
        request.computed = computed
        if external and self.offload is not None and request.offload is not None:
            self._load(self.offload, request, request.offload, hit.tokens, external)
            return None
        self.cache.extend(request.tables, computed + count)
        self.cache.register(request.tables, request.keys, computed + count, request.prompt_len, request.junction)
        return count

    def _take_in(self, request: Request) -> None:
        """A load has ended: its blocks get their keys. The last token of a prompt is computed all the same."""
        promoted = request.offload.promoted if request.offload is not None else 0
        self.cache.register(
            request.tables,
            request.keys,
            promoted or request.computed,
            request.prompt_len,
            request.junction,
            windows=not promoted,
        )
        request.computed = min(request.computed, request.length - 1)
        request.arrived, request.loaded = False, True

    def _readmit(self, request: Request, budget: int) -> int:
        """Schedule a request whose load has ended; 0 if blocks are short."""
        count = min(request.length - request.computed, budget)
        total = request.computed + count
        if not self._fits(request, None, request.computed, count, reserved=0):
            return 0
        self.cache.extend(request.tables, total)
        self.cache.register(request.tables, request.keys, total, request.prompt_len, request.junction)
        return count

    def _fits(self, request: Request, hit: Hit | None, computed: int, count: int, *, reserved: int) -> bool:
        """Whether the whole request could be held now, and what it takes in this step is free and not reserved."""
        cache, tables, free = self.cache, request.tables, self.pool.num_free
        if cache.needed(tables, hit, request.length, computed, capped=True) > free:
            return False
        cache.leave_window(tables, computed)
        return cache.needed(tables, hit, computed + count, computed) <= self.pool.num_free - reserved

    def _reserved(self) -> int:
        """Blocks that requests under way still need for their prompts; a load must leave them."""
        return sum(
            self.cache.needed(request.tables, None, request.length, request.computed, capped=True)
            for request in self._requests.values()
            if request.prefilling or request.loading or request.arrived or request.loaded
        )

    def _load(self, offload: Offload, request: Request, state: OffloadState, local: int, external: int) -> None:
        tables = request.tables.blocks
        unkeyed = []
        for row, group in zip(tables, self._geometry.groups, strict=True):
            if state.promoted and group.windowed:
                unkeyed.append(request.length)  # nothing of a window is loaded: it is computed once more
                continue
            first = -(-local // group.block)
            while first < len(row) and (not row[first] or self.pool.key_of(row[first]) is not None):
                first += 1
            unkeyed.append(first)
        copies = offload.load(state, tables, unkeyed, external, self._now)
        request.loading = True
        self._loaders[request.id] = request
        self.stats.loads += 1
        self.stats.load_bytes += len(copies.blocks) * self.config.page_bytes

    def _count_admission(self, request: Request, local: int, external: int) -> None:
        if request.admitted:
            return
        request.admitted = True
        stats = self.stats
        stats.prefix_queries += request.length
        stats.prefix_hits += local
        if self.offload is not None:
            stats.external_queries += request.length - local
            stats.external_hits += external
