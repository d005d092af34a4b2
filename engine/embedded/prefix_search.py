"""The longest prefix that every group holds in L1.

Full groups are read from the front up to the first miss. Window groups are read from the back: a hit needs the run of
blocks before its end that the window covers. A draft group gives up its last matched block. A group that finds less
shortens the prefix for all, until they agree; one group without any hit leaves nothing.
"""

from collections.abc import Sequence

from engine.embedded.block_pool import BlockPool
from engine.embedded.families import Family
from engine.embedded.groups import Geometry, KVGroup
from engine.embedded.retention import needed_blocks

NULL = 0


def longest_prefix(
    pool: BlockPool,
    geometry: Geometry,
    family: Family,
    drafts: frozenset[int],
    keys: Sequence[Sequence[bytes]],
    limit: int,
    known: int,
) -> tuple[list[list[int]], int, int]:
    """Blocks of each group (0 for those the window has left), tokens hit, and how far any one group alone got.

    `keys[g]` are the block keys of group `g`; at most `limit` tokens may be hit, and `known` tokens have a hash.
    """
    groups = geometry.groups
    if len(groups) == 1:
        draft = 0 in drafts
        found, length = _of_class(pool, groups[0], keys, (0,), limit, groups[0].block, draft)
        return found, length, length
    classes = geometry.classes
    draft_classes = {place for place, ids in enumerate(classes) if not drafts.isdisjoint(ids)}
    one_pass = len(classes) == 2 and not groups[classes[0][0]].windowed
    hits: list[list[int] | None] = [None] * len(groups)
    lengths = [0] * len(groups)
    total, longest = limit, 0
    verified: set[int] = set()
    while True:
        current = total
        for place, ids in enumerate(classes):
            group = groups[ids[0]]
            if not group.windowed and hits[ids[0]] is not None:
                current = min(current, lengths[ids[0]])
                continue
            drop = place in draft_classes and place not in verified
            reach = current
            if drop:
                reach = min(current + group.block, known if family.peek_past_end else limit)
            found, length = _of_class(pool, group, keys, ids, reach, geometry.step, drop)
            if drop:
                verified.add(place)
            elif length < current:
                verified.clear()
            current = length
            for number, blocks in zip(ids, found, strict=True):
                hits[number], lengths[number] = blocks, length
            longest = max(longest, current)
        if current >= total:
            break
        total = current
        if one_pass:
            break
    for number in geometry.full_ids:
        blocks_found = hits[number]
        if blocks_found is not None:
            del blocks_found[-(-total // groups[number].block) :]
    return [blocks or [] for blocks in hits], total, longest


def _of_class(
    pool: BlockPool,
    group: KVGroup,
    keys: Sequence[Sequence[bytes]],
    ids: Sequence[int],
    limit: int,
    align: int,
    drop: bool,
) -> tuple[list[list[int]], int]:
    find = _window if group.windowed else _full
    return find(pool, group, keys, ids, limit, align, drop)


def _full(
    pool: BlockPool,
    group: KVGroup,
    keys: Sequence[Sequence[bytes]],
    ids: Sequence[int],
    limit: int,
    align: int,
    drop: bool,
) -> tuple[list[list[int]], int]:
    size = group.block
    found = [pool.cached_prefix(keys[number], limit // size) for number in ids]
    count = min(map(len, found))
    length = count * size
    if drop and length:
        length -= size
    length -= length % align
    for blocks in found:
        del blocks[length // size :]
    return found, length


def _window(
    pool: BlockPool,
    group: KVGroup,
    keys: Sequence[Sequence[bytes]],
    ids: Sequence[int],
    limit: int,
    align: int,
    drop: bool,
) -> tuple[list[list[int]], int]:
    size = group.block
    need = needed_blocks(group, draft=drop)
    found = [[NULL] * (limit // size) for _ in ids]
    run, complete = 0, False
    for place in range(limit // size - 1, -1, -1):
        blocks = [pool.holder(keys[number][place]) for number in ids]
        if any(block is None for block in blocks):
            run = 0
            continue
        if not run and size != align and (place + (not drop)) * size % align:
            continue
        for row, block in zip(found, blocks, strict=True):
            row[place] = block or NULL
        run += 1
        if run >= need:
            for row in found:
                del row[place + run :]
            complete = True
            break
    if not complete:
        _cut(found, run, size, align)
    if drop and found[0]:
        _cut(found, len(found[0]) - 1, size, align)
    return found, len(found[0]) * size


def _cut(found: list[list[int]], count: int, size: int, align: int) -> None:
    """Down to `count` blocks, then to where a hit may end."""
    if size != align:
        count -= count * size % align // size
    for row in found:
        del row[count:]
