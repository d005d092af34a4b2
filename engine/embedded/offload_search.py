"""How much of a prompt the host tier can give, when every group must agree.

Full groups are scanned from the first chunk L1 does not cover; window groups from the back, for a run of chunks as
long as the window. A draft group asks for one chunk more and gives it up. Whoever finds less lowers the boundary for
all, and windows already accepted are asked again. **A group that finds nothing makes the whole answer 0.**
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.embedded.families import Family
from engine.embedded.groups import Geometry


@dataclass(frozen=True, slots=True)
class ChunkGroup:
    """A group as the tier sees it: chunks of `tokens` tokens; `window` chunks must be there, None: all of them."""

    number: int
    tokens: int
    window: int | None
    window_tokens: int
    draft: bool

    def load_window(self, boundary: int, family: Family) -> int:
        """Chunks a window ending at `boundary` tokens reaches into, the partial one at its end included."""
        window = self.window or 0
        if family.wide_draft:
            window = max(window, -(-(self.window_tokens - 1 + -boundary % self.tokens) // self.tokens))
        return window


def chunk_groups(geometry: Geometry, chunk_blocks: int, drafts: frozenset[int]) -> tuple[ChunkGroup, ...]:
    """The groups of a geometry, `chunk_blocks` blocks a chunk."""
    found = []
    for number, group in enumerate(geometry.groups):
        tokens = group.block * chunk_blocks
        window = None if group.window is None else -(-group.window // tokens)
        found.append(ChunkGroup(number, tokens, window, group.window or 0, number in drafts))
    return tuple(found)


@dataclass(slots=True)
class Veto:
    """Why a lookup came to nothing: the group that ended it, and the tokens the groups before it had agreed on."""

    group: int | None = None
    lost: int = 0


class Search:
    """Lookups over one tier. `state(key)` is True for a readable chunk, False for one being copied, None for a miss."""

    def __init__(
        self,
        groups: tuple[ChunkGroup, ...],
        family: Family,
        state: Callable[[bytes], bool | None],
    ) -> None:
        self.groups = groups
        self._family = family
        self._state = state
        self._windows = tuple(
            sorted((g for g in groups if g.window is not None), key=lambda g: g.window or 0, reverse=True)
        )
        self._order = tuple(g for g in groups if g.window is None) + self._windows
        self.veto = Veto()

    def tokens(self, keys: Sequence[Sequence[bytes]], local: int, length: int) -> int | None:
        """Tokens to gain behind `local` ones, of a prompt of `length` tokens; 0: none; None: ask again, copies run.

        `keys[g]` are the chunk keys of group `g`, as many as the prompt has full chunks.
        """
        self.veto = Veto()
        limit = length - 1 if self._windows else length
        gained, waiting = 0, False
        verified: set[int] = set()
        pending = self._order
        while pending:
            round_groups, pending = pending, ()
            windows_seen = False
            for group in round_groups:
                size = group.tokens
                own = keys[group.number]
                unverified = group.draft and group.number not in verified
                limit = min(limit, len(own) * size)
                if limit - local < size:
                    return 0
                found = self._ask(group, own, local, limit, unverified)
                if found == 0:
                    self.veto = Veto(group.number, gained)
                    return 0
                if found is None:
                    waiting = True
                else:
                    if unverified:
                        found -= 1
                        verified.add(group.number)
                    limit = min(limit, size * (local // size + found))
                if limit - local < size:
                    self.veto = Veto(group.number, gained)
                    return 0
                if limit - local < gained:
                    if not group.draft:
                        verified.clear()
                    if waiting:
                        waiting = False
                        pending = self._order
                    elif windows_seen and not pending:
                        pending = self._windows
                windows_seen |= group.window is not None
                gained = limit - local
        return None if waiting else gained

    def _ask(self, group: ChunkGroup, own: Sequence[bytes], local: int, limit: int, unverified: bool) -> int | None:
        """Chunks found from the first one L1 does not cover on, the drafter's extra one included."""
        size = group.tokens
        reach = limit
        if unverified and (self._family.wide_draft or group.window is not None):
            reach = min(limit + size, len(own) * size)
        count = min(-(-reach // size), len(own))
        asked = own[local // size : count]
        if group.window is None:
            return self._run(asked)
        first = None
        if self._family.wide_draft:
            candidate = min(limit, (count - unverified) * size)
            first = group.load_window(candidate, self._family) + unverified
        return self._last_run(asked, group.window + unverified, first)

    def _run(self, keys: Sequence[bytes]) -> int | None:
        count, waiting = 0, False
        for key in keys:
            state = self._state(key)
            if state is None:
                break
            waiting |= not state
            count += 1
        return None if waiting else count

    def _last_run(self, keys: Sequence[bytes], window: int, first: int | None) -> int | None:
        """Where the last run of `window` chunks ends; the very last run must have `first` of them.

        A chunk being copied counts; from 0.30 on it only delays the answer if it lies in the run that is taken.
        """
        run, waiting, want = 0, False, window if first is None else first
        forgiving = self._family.wide_draft
        for place in range(len(keys) - 1, -1, -1):
            state = self._state(keys[place])
            if state is None:
                run, want = 0, window
                if forgiving:
                    waiting = False
            else:
                run += 1
                waiting |= not state
            if run == want:
                return None if waiting else place + want
        return None if waiting else run
