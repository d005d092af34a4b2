"""The host tier's scheduler: what is stored when, what is loaded, and which copies are under way.

Follows vLLM's `OffloadingConnectorScheduler`: chunks are offered to the tier in the step that fills them, copies end
some steps later (`copy_steps`), and a request with copies under way is not looked up again before they end.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from engine.embedded.families import Family
from engine.embedded.groups import Geometry
from engine.embedded.host_tier import HostTier
from engine.embedded.offload_search import ChunkGroup, Search, chunk_groups
from engine.embedded.offload_state import Copies, OffloadState
from engine.embedded.prefix_search import NULL
from engine.embedded.store_plan import StorePlan


class Offload:
    """One tier and the requests that use it."""

    plan_class = StorePlan

    def __init__(
        self,
        tier: HostTier,
        geometry: Geometry,
        family: Family,
        *,
        chunk_blocks: int,
        drafts: frozenset[int],
        retention: int | None,
        prompt_only: bool,
        copy_steps: int,
        replay: int | None = None,
    ) -> None:
        self.tier = tier
        self.groups = chunk_groups(geometry, chunk_blocks, drafts)
        self.search = Search(self.groups, family, tier.state)
        self._specs = geometry.groups
        self._family = family
        self._chunk_blocks = chunk_blocks
        self._copy_steps = copy_steps
        self._replay = replay if geometry.window_ids else None
        self._step = geometry.step
        self._full = Search(tuple(group for group in self.groups if group.window is None), family, tier.state)
        self.vetoes: Counter[int] = Counter()  # lookups that one group brought to nothing, by group
        self._states: dict[str, OffloadState] = {}
        self._loading: set[bytes] = set()
        self._fences: dict[int, list[Copies]] = {}
        self._jobs: list[Copies] = []
        self._allocated: set[int] = set()
        self._flush: list[Copies] = []
        self.plan = self.plan_class(
            geometry,
            self.groups,
            family,
            chunk_blocks=chunk_blocks,
            retention=retention,
            prompt_only=prompt_only,
            whole=replay is not None,
        )

    def knows(self, state: OffloadState) -> bool:
        """Whether the request still has something to store or copy."""
        return self._states.get(state.request_id) is state

    @property
    def busy(self) -> bool:
        """Whether copies are under way."""
        return bool(self._jobs)

    def open(self, request_id: str, prompt_len: int, keys: Sequence[Sequence[bytes]]) -> OffloadState:
        """A new request, with the block keys of each group."""
        per = self._chunk_blocks
        count = len(self.groups)
        state = OffloadState(
            request_id,
            prompt_len,
            [list(own[per - 1 :: per]) for own in keys],
            [[] for _ in range(count)],
            [0] * count,
            [0] * count,
        )
        self._states[request_id] = state
        return state

    def lookup(self, state: OffloadState, local: int, length: int) -> int | None:
        """Tokens to load behind `local` ones from L1; None: not yet, ask in a later step."""
        for row in state.blocks:
            row.clear()
        if state.jobs:
            return None
        state.known, state.local = length, local
        found = self.gain(state, local, length)
        state.promoted = 0
        if found is not None and self._replay is not None:
            found = self._promote(state, local, length, found, self._replay)
        if found == 0 and self.search.veto.lost:
            self.vetoes[self.search.veto.group or 0] += 1
        for number, group in enumerate(self.groups):
            state.hit_chunks[number] = (local + (found or 0)) // group.tokens
        if not self._family.recency_at_end:
            self._touch(state)
        return found

    def _promote(self, state: OffloadState, local: int, length: int, found: int, replay: int) -> int | None:
        """The fixed rule: what the full groups give alone, less what has to be recomputed for the windows."""
        keys = [state.known_keys(group) for group in self.groups]
        reach = self._full.tokens(keys, local, length)
        if reach is None:
            return None
        end = local + reach
        # The last token of a prompt must come out right too, although its own values may have been loaded.
        start = max(0, min(end, length - 1) - replay)
        gained = start - start % self._step - local
        if gained <= found or gained < max(group.tokens for group in self._full.groups):
            return found
        for group in self._full.groups:
            own = state.keys[group.number][local // group.tokens : -(-end // group.tokens)]
            if not self._loading.isdisjoint(own):
                return None
        state.promoted = end
        return gained

    def gain(self, state: OffloadState, local: int, length: int) -> int | None:
        """The search itself, delayed while another request loads what this one would."""
        found = self.search.tokens([state.known_keys(group) for group in self.groups], local, length)
        if found and self._loading:
            end = local + found
            for group in self.groups:
                keys = state.keys[group.number][local // group.tokens : -(-end // group.tokens)]
                if group.window is not None:
                    keys = keys[-group.load_window(end, self._family) :]
                if not self._loading.isdisjoint(keys):
                    return None
        return found

    def load(
        self, state: OffloadState, tables: Sequence[Sequence[int]], unkeyed: Sequence[int], external: int, now: int
    ) -> Copies:
        """Begin to load `external` tokens into the request's blocks. `unkeyed[g]` is where its blocks lack a key."""
        total = state.promoted or state.local + external
        keys: list[bytes] = []
        blocks: list[int] = []
        for number, group in enumerate(self.groups):
            row = tables[number]
            self._allocated.update(row)
            size = self._specs[number].block
            end = -(-total // size)
            start = min(unkeyed[number], end)
            chunks = -(-total // group.tokens)
            if start < end:
                first = start // self._chunk_blocks
                keys += state.keys[number][first:chunks]
                self._see(state, group, range(first, chunks))
            blocks += row[start:end]
            state.stored[number] = chunks
        self.tier.pin(keys)
        copies = Copies(state, keys, blocks, False, now + self._copy_steps)
        state.jobs.append(copies)
        self._jobs.append(copies)
        self._loading.update(keys)
        return copies

    def scheduled(
        self, state: OffloadState, known: int, fresh: Sequence[Sequence[int]], *, restarted: bool
    ) -> list[int]:
        """A request was scheduled and got blocks; its tables' lengths before that."""
        state.known = known
        if restarted:
            for row in state.blocks:
                row.clear()
        before = [len(row) for row in state.blocks]
        for row, new in zip(state.blocks, fresh, strict=True):
            row.extend(new)
            self._allocated.update(new)
        return before

    def forget_reused(self, before: dict[str, list[int]]) -> None:
        """Window blocks that were given back and handed out again no longer hold what is still to be stored."""
        self._allocated.discard(NULL)
        windows = [group for group in self.groups if group.window is not None]
        if not windows or not self._allocated:
            return
        for name, state in self._states.items():
            for group in windows:
                row = state.blocks[group.number]
                end = before[name][group.number] if name in before else len(row)
                for place in range(state.stored[group.number] * self._chunk_blocks, end):
                    if row[place] in self._allocated:
                        row[place] = NULL

    def flush_preempted(self, state: OffloadState) -> None:
        """A preempted request's stores must be done before its blocks are used again."""
        self._flush += state.jobs

    def flush_reused(self) -> None:
        """So must the stores from blocks handed out in this step."""
        if self._fences:
            for block in self._allocated:
                self._flush += self._fences.get(block, ())

    def store(self, state: OffloadState, tokens: int, junction: int, now: int) -> tuple[Copies | None, bool]:
        """Offer what the first `tokens` tokens fill. The transfer, if there is one; True if the tier had no room."""
        limit = self.plan.limit(state, tokens)
        wanted: list[bytes] = []
        offered: list[tuple[ChunkGroup, list[int]]] = []
        ranges: list[tuple[int, int]] = []
        for group in self.groups:
            first, count, chunks = self.plan.offers(state, group, limit, junction)
            ranges.append((first, count))
            offered.append((group, chunks))
            own = state.keys[group.number]
            wanted += [own[chunk] for chunk in chunks]
        if not wanted:
            self._advance(state, limit)
            return None, False
        fresh = self.tier.reserve(wanted)
        fresh_keys = set(fresh or ())
        for group, chunks in offered:
            own = state.keys[group.number]
            # A chunk that another request is just copying is neither stored nor reused by this one.
            self._see(state, group, [c for c in chunks if own[c] in fresh_keys or self.tier.state(own[c]) is not False])
        if fresh is None:
            return None, True
        if not fresh:
            self._advance(state, limit)
            return None, False
        if not self._family.recency_at_end:
            self._touch(state)
        copies = Copies(state, fresh, [], True, now + self._copy_steps)
        for group, (first, count) in zip(self.groups, ranges, strict=True):
            row = state.blocks[group.number]
            for chunk in range(first, count):
                if state.keys[group.number][chunk] not in fresh_keys:
                    continue
                blocks = [b for b in row[chunk * self._chunk_blocks : (chunk + 1) * self._chunk_blocks] if b != NULL]
                copies.blocks += blocks
                (copies.fenced_at_end if group.window is None else copies.fenced).extend(blocks)
            state.stored[group.number] = max(state.stored[group.number], count)
        state.jobs.append(copies)
        self._jobs.append(copies)
        self._fence(copies, copies.fenced)
        if state.ended:
            self._fence(copies, copies.fenced_at_end)
            if not self._allocated.isdisjoint(copies.fenced_at_end):
                self._flush.append(copies)
        return copies, False

    def end(self, state: OffloadState, known: int, *, aborted: bool) -> None:
        """The request ended; what it still has to store is stored in the next step."""
        state.known, state.ended, state.aborted = known, True, aborted
        for copies in state.jobs:
            self._fence(copies, copies.fenced_at_end)

    def sign_off(self, state: OffloadState) -> None:
        """The last stores of an ended request are under way: now its chunks count as used."""
        state.signed_off = True
        if self._family.recency_at_end:
            self.tier.touch(sorted(state.seen, key=state.seen.__getitem__))
        if not state.jobs:
            self._states.pop(state.request_id, None)

    def complete_due(self, now: int) -> tuple[list[Copies], int]:
        """End the copies that are due, or must be; the loads among them, and how many blocks stores have copied."""
        done = [copies for copies in self._jobs if copies.due <= now or copies in self._flush]
        self._flush = []
        self._allocated.clear()
        if not done:
            return [], 0
        self._jobs = [copies for copies in self._jobs if copies not in done]
        loads, blocks = [], 0
        for copies in done:
            if copies.is_store:
                self.tier.complete(copies.keys)
                blocks += len(copies.blocks)
            else:
                self.tier.unpin(copies.keys)
                self._loading.difference_update(copies.keys)
                loads.append(copies)
            self._unfence(copies, copies.fenced)
            state = copies.owner
            if state.ended:
                self._unfence(copies, copies.fenced_at_end)
            state.jobs.remove(copies)
            if state.signed_off and not state.jobs:
                self._states.pop(state.request_id, None)
        return loads, blocks

    def reset(self) -> None:
        """Drop everything in the tier; copies under way are dropped too."""
        self.tier.clear()
        for copies in self._jobs:
            copies.owner.jobs.clear()
        self._jobs.clear()
        self._fences.clear()
        self._loading.clear()
        self._flush.clear()
        for name, state in list(self._states.items()):
            state.stored = [0] * len(state.stored)
            state.seen.clear()
            if state.ended:
                del self._states[name]

    def _advance(self, state: OffloadState, limit: int) -> None:
        for group in self.groups:
            state.stored[group.number] = max(state.stored[group.number], self.plan.storable(state, group, limit))

    def _see(self, state: OffloadState, group: ChunkGroup, chunks: Iterable[int]) -> None:
        if not self._family.recency_at_end:
            return
        own, size, number = state.keys[group.number], group.tokens, group.number
        for chunk in chunks:
            state.seen.setdefault(own[chunk], ((chunk + 1) * size, number))

    def _touch(self, state: OffloadState) -> None:
        for group in self.groups:
            keys = list(state.known_keys(group))
            if group.window is not None:
                keys = keys[max(0, state.hit_chunks[group.number] - group.window) :]
            self.tier.touch(keys)

    def _fence(self, copies: Copies, blocks: Iterable[int]) -> None:
        for block in blocks:
            holders = self._fences.setdefault(block, [])
            if copies not in holders:
                holders.append(copies)

    def _unfence(self, copies: Copies, blocks: Iterable[int]) -> None:
        for block in blocks:
            holders = self._fences.get(block)
            if holders and copies in holders:
                holders.remove(copies)
                if not holders:
                    del self._fences[block]
