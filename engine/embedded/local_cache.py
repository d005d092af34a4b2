"""L1 as a request sees it: one block table for each group, filled, shared, registered and given back.

A table lists a request's blocks in the order of its tokens, 0 standing for those a window has left. Full blocks get
their key when the tokens in them are scheduled, in every group up to the same prefix length, window groups only where a
later lookup could use them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.embedded.block_pool import BlockPool
from engine.embedded.families import Family
from engine.embedded.groups import Geometry
from engine.embedded.prefix_search import NULL, longest_prefix
from engine.embedded.retention import kept


@dataclass(slots=True)
class Tables:
    """Block tables of one request. `registered[g]` leading blocks of group `g` have had their chance of a key."""

    blocks: list[list[int]]
    registered: list[int]
    tails: list[tuple[int, bytes] | None]  # where the prompt ends inside a block (tokens), and that prefix's key

    @classmethod
    def empty(cls, count: int) -> "Tables":
        """For `count` groups whose prompts end on blocks."""
        return cls([[] for _ in range(count)], [0] * count, [None] * count)

    def clear(self) -> None:
        """Forget everything; the blocks are somebody else's by then."""
        for row in self.blocks:
            row.clear()
        self.registered = [0] * len(self.registered)


@dataclass(frozen=True, slots=True)
class Hit:
    """What L1 holds of a prompt: blocks of each group, tokens, and where a group with more of it could have gone on."""

    blocks: list[list[int]]
    tokens: int
    junction: int

    @classmethod
    def nothing(cls, count: int) -> "Hit":
        """No hit, in `count` groups."""
        return cls([[] for _ in range(count)], 0, 0)


class LocalCache:
    """The device pool and the rules by which requests share it."""

    def __init__(
        self,
        pool: BlockPool,
        geometry: Geometry,
        family: Family,
        *,
        drafts: frozenset[int],
        retention: int | None,
        step_tokens: int,
        context_tokens: int,
    ) -> None:
        self.pool = pool
        self.geometry = geometry
        self._family = family
        self._retention = retention
        self._context = context_tokens
        # Groups of one shape are cached together, so a drafter's rules reach its whole shape.
        self._drafting = [False] * len(geometry.groups)
        for ids in geometry.classes:
            for number in ids:
                self._drafting[number] = not drafts.isdisjoint(ids)
        self._drafts = drafts
        # Most blocks a windowed request holds at once: it gives blocks back as it goes.
        self._most = [
            None if group.window is None else -(-min(group.window - 1 + step_tokens, context_tokens) // group.block) + 1
            for group in geometry.groups
        ]

    def open(self, hashes: Sequence[bytes], prompt_len: int) -> tuple[list[list[bytes]], Tables]:
        """Block keys of each group, and empty tables, for a request whose units of tokens have these hashes."""
        geometry, unit = self.geometry, self.geometry.unit
        keys: list[list[bytes]] = []
        tables = Tables.empty(len(geometry.groups))
        for number, group in enumerate(geometry.groups):
            per = group.block // unit
            own = list(hashes[per - 1 :: per])
            mark = bytes([number])
            keys.append([key + mark for key in own] if number else own)
            if per > 1 and not group.windowed:
                whole = self._drafting[number] or not self._family.short_tail
                end = (prompt_len if whole else prompt_len - 1) // unit * unit
                if end % group.block:
                    key = hashes[end // unit - 1]
                    tables.tails[number] = (end, key + mark if number else key)
        return keys, tables

    def find(self, keys: Sequence[Sequence[bytes]], length: int) -> Hit:
        """The longest prefix of a prompt of `length` tokens held here; its last token is never part of a hit."""
        unit = self.geometry.unit
        blocks, tokens, longest = longest_prefix(
            self.pool, self.geometry, self._family, self._drafts, keys, self._limit(length), length // unit * unit
        )
        return Hit(blocks, tokens, longest if longest > tokens else 0)

    def _limit(self, length: int) -> int:
        return length - 1

    def needed(self, tables: Tables, hit: Hit | None, total: int, computed: int, *, capped: bool = False) -> int:
        """Blocks a request must take from the queue to hold `total` tokens, `computed` of them not its own work.

        Without a hit the request is one that already holds its blocks. `capped`: by what a window ever holds at once.
        """
        count = 0
        for number, group in enumerate(self.geometry.groups):
            required = -(-total // group.block)
            most = self._most[number]
            if capped and most is not None:
                required = min(required, most)
            held = len(tables.blocks[number])
            if hit is None:
                count += max(0, required - held)
                continue
            skipped = group.skipped(computed) // group.block
            found = hit.blocks[number]
            count += max(0, required - max(skipped, len(found) + held))
            count += self.pool.num_unreferenced(found[max(0, skipped - held) :])
        return count

    def leave_window(self, tables: Tables, computed: int) -> None:
        """Give back the blocks no later token attends to, the youngest of them first."""
        for number in self.geometry.window_ids:
            group = self.geometry.groups[number]
            row = tables.blocks[number]
            going: list[int] = []
            for place in range(min(group.skipped(computed) // group.block, len(row)) - 1, -1, -1):
                if row[place] == NULL:
                    break
                going.append(row[place])
                row[place] = NULL
            if going:
                self.pool.release(going[::-1])

    def adopt(self, tables: Tables, hit: Hit, external: int) -> None:
        """Start a request's tables with its hit, and take blocks for `external` tokens behind it."""
        groups, total = self.geometry.groups, hit.tokens + external
        for number, group in enumerate(groups):
            skipped = group.skipped(total) // group.block
            found = hit.blocks[number][skipped:]
            self.pool.touch(found)
            row = tables.blocks[number]
            row.extend([NULL] * skipped)
            row.extend(found)
            tables.registered[number] = len(row)
        if external > 0:
            for number, group in enumerate(groups):
                skipped_tokens = group.skipped(total)
                if not skipped_tokens or min(total - skipped_tokens, external) > 0:
                    self._grow(tables.blocks[number], total, group.block)

    def promote(self, tables: Tables, hit: Hit, start: int, end: int, length: int) -> None:
        """Tables for a load of the full groups up to `end` of `length` tokens, all from `start` on computed once more.

        Full groups get their blocks to `end`. Window groups get none before `start`; theirs may carry keys again where
        recomputation has made them exact.
        """
        for number, group in enumerate(self.geometry.groups):
            row, found = tables.blocks[number], hit.blocks[number]
            if group.window is None:
                self.pool.touch(found)
                row.extend(found)
                tables.registered[number] = len(found)
                continue
            gone = min(group.skipped(start) // group.block, len(found))
            self.pool.touch(found[gone:])
            row.extend([NULL] * gone)
            row.extend(found[gone:])
            row.extend([NULL] * (start // group.block - len(row)))
            exact = max(0, min(end, length - 1) - (group.window - 1))
            tables.registered[number] = max(len(found), -(-exact // group.block))
        for number in self.geometry.full_ids:
            self._grow(tables.blocks[number], end, self.geometry.groups[number].block)

    def extend(self, tables: Tables, total: int) -> None:
        """Blocks for `total` tokens in every group. Raises `IndexError` when the pool is short."""
        for number, group in enumerate(self.geometry.groups):
            self._grow(tables.blocks[number], total, group.block)

    def _grow(self, row: list[int], total: int, block: int) -> None:
        wanted = -(-total // block) - len(row)
        if wanted > 0:
            row.extend(self.pool.allocate(wanted))

    def register(
        self,
        tables: Tables,
        keys: Sequence[Sequence[bytes]],
        tokens: int,
        prompt_len: int,
        junction: int,
        *,
        windows: bool = True,
    ) -> None:
        """Give the full blocks of the first `tokens` tokens their keys, in window groups too or not."""
        step = self.geometry.step
        hybrid = self.geometry.hybrid
        cacheable = tokens - tokens % step if hybrid else tokens
        boundaries: tuple[int, ...] | None = None
        for number, group in enumerate(self.geometry.groups):
            if group.windowed and not windows:
                continue
            reach = cacheable
            if hybrid and self._drafting[number] and cacheable > 0:
                reach = min(tokens, cacheable + group.block)
            done, full = tables.registered[number], reach // group.block
            tail = tables.tails[number]
            row, own = tables.blocks[number], keys[number]
            if done >= full:
                self._register_tail(row, tail, reach, group.block)
                continue
            tables.registered[number] = full
            if group.windowed:
                if boundaries is None:
                    boundaries = self._boundaries(prompt_len, junction)
                mask = kept(
                    group,
                    done,
                    full,
                    align=step,
                    draft=self._drafting[number],
                    interval=self._retention,
                    boundaries=boundaries,
                )
                if mask is not None:
                    places = [place for place, keep in enumerate(mask, done) if keep]
                    self.pool.register([row[place] for place in places], [own[place] for place in places])
                    continue
            covers = range((done + 1) * group.block, (full + 1) * group.block, group.block) if tail else None
            self.pool.register(row[done:full], own[done:full], covers)
            self._register_tail(row, tail, reach, group.block)

    def _register_tail(self, row: list[int], tail: tuple[int, bytes] | None, reach: int, block: int) -> None:
        if tail is not None and tail[0] <= reach and tail[0] // block < len(row):
            self.pool.register_tail(row[tail[0] // block], tail[1], tail[0])

    def _boundaries(self, prompt_len: int, junction: int) -> tuple[int, ...]:
        """Token positions at which a later request may resume this prompt."""
        step = self.geometry.step
        ends: tuple[int, ...] = (prompt_len - 1,)
        if self._family.replay_pairs and self._drafts:
            again, longer = (prompt_len - 1) // step * step, prompt_len // step * step
            ends = (max(again - step, 0), max(longer - step, 0))
        return (*ends, junction) if junction else ends

    def free(self, tables: Tables) -> None:
        """Give all blocks back, group by group, tails first."""
        for row in tables.blocks:
            self.pool.release(row)
        tables.clear()
