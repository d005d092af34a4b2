"""Which chunks a request offers to the host tier: those that are full, have blocks, and can serve a later lookup."""

from engine.embedded.families import Family
from engine.embedded.groups import Geometry
from engine.embedded.offload_search import ChunkGroup
from engine.embedded.offload_state import OffloadState
from engine.embedded.prefix_search import NULL
from engine.embedded.retention import kept, store_worthy_before_030


class StorePlan:
    """The rules of one engine."""

    def __init__(
        self,
        geometry: Geometry,
        groups: tuple[ChunkGroup, ...],
        family: Family,
        *,
        chunk_blocks: int,
        retention: int | None,
        prompt_only: bool,
        whole: bool = False,
    ) -> None:
        self._specs = geometry.groups
        self._family = family
        self._chunk_blocks = chunk_blocks
        self._prompt_only = prompt_only
        self._whole = whole  # store no chunk of which a window has left a part, as vLLM does
        self._interval = retention if family.sparse_store else None
        full = {group.tokens for group in groups if group.window is None}
        self._align: int | None = None
        if len(full) == 1:
            self._align = full.pop()
        elif not full and family.sparse_store:
            self._align = max(group.tokens for group in groups)

    def limit(self, state: OffloadState, tokens: int) -> int:
        """How many of the first `tokens` tokens may be stored."""
        known = min(tokens, state.known)
        return min(known, state.prompt_len) if self._prompt_only else known

    def storable(self, state: OffloadState, group: ChunkGroup, limit: int) -> int:
        """Leading chunks of a group that are full, have blocks and keys, and will not change."""
        count = limit // group.tokens
        if group.draft and limit > state.prompt_len and not (state.ended and self._family.stable_tail):
            # A drafter may still rewrite its last chunk while tokens are being proposed.
            count = max(0, count - 1)
        return min(count, len(state.blocks[group.number]) // self._chunk_blocks, state.known // group.tokens)

    def offers(self, state: OffloadState, group: ChunkGroup, limit: int, junction: int) -> tuple[int, int, list[int]]:
        """The range of chunks under consideration, and those in it that are worth storing."""
        count = self.storable(state, group, limit)
        start = state.stored[group.number]
        first, again = self._revisit(state, group, count, start)
        if count <= first:
            return first, count, []
        return first, count, self._worthy(state, group, first, count, start, again, junction)

    def _revisit(self, state: OffloadState, group: ChunkGroup, count: int, start: int) -> tuple[int, bool]:
        """Where an ended request's offer begins: its last window may end elsewhere than the prompt's did."""
        size = self._specs[group.number].block
        if (
            not self._family.stable_tail
            or not state.ended
            or self._interval is not None
            or group.draft
            or group.window is None
            or self._align is None
            or self._align % size
            or count == self._prompt_chunks(state, group)
        ):
            return start, False
        per_segment = self._align // size
        blocks = count * self._chunk_blocks
        return min(start, (blocks - blocks % per_segment) // self._chunk_blocks), True

    def _prompt_chunks(self, state: OffloadState, group: ChunkGroup) -> int:
        return min(state.prompt_len, state.known) // group.tokens

    def _worthy(
        self,
        state: OffloadState,
        group: ChunkGroup,
        first: int,
        count: int,
        start: int,
        again: bool,
        junction: int,
    ) -> list[int]:
        """Those of the chunks `first` .. `count` - 1 that have blocks and that a later lookup could use."""
        per, row = self._chunk_blocks, state.blocks[group.number]
        if self._whole:
            chunks = [chunk for chunk in range(first, count) if NULL not in row[chunk * per : (chunk + 1) * per]]
        else:
            chunks = [chunk for chunk in range(first, count) if row[chunk * per + per - 1] != NULL]
        if group.window is None:
            return chunks
        spec = self._specs[group.number]
        if not self._family.sparse_store:
            return [
                chunk
                for chunk in chunks
                if store_worthy_before_030(
                    spec, chunk, count, align=self._align, chunk_tokens=group.tokens, draft=group.draft
                )
            ]
        prompt_chunks = self._prompt_chunks(state, group)
        last: int | None = None
        if self._interval is None and not group.draft:
            if state.ended:
                last = count
            elif count <= prompt_chunks:
                last = prompt_chunks
        mask = self._mask(group, first, count, last, state.prompt_len, junction)
        earlier = self._mask(group, first, count, prompt_chunks, state.prompt_len, junction) if again else None
        found = []
        for chunk in chunks:
            offered = chunk < start and (earlier is None or self._any(earlier, chunk - first))
            if again and offered:
                continue
            if mask is None or self._any(mask, chunk - first):
                found.append(chunk)
        return found

    def _mask(
        self, group: ChunkGroup, first: int, count: int, last: int | None, prompt: int, junction: int
    ) -> list[bool] | None:
        boundaries: tuple[int, ...] = ()
        if self._interval is not None:
            boundaries = (prompt - 1, junction) if junction else (prompt - 1,)
        per = self._chunk_blocks
        return kept(
            self._specs[group.number],
            first * per,
            count * per,
            align=self._align,
            draft=group.draft,
            interval=self._interval,
            boundaries=boundaries,
            last_end=None if last is None else last * per,
        )

    def _any(self, mask: list[bool], chunk: int) -> bool:
        return any(mask[chunk * self._chunk_blocks : (chunk + 1) * self._chunk_blocks])
