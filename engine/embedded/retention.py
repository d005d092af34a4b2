"""Which blocks of a window group are worth keeping: only those a later lookup can use.

A hit ends on a multiple of `align` tokens and needs the blocks of the window before it. Between two such ends the rest
is never asked for. A retention interval thins the ends out further: 0 leaves only the ends named by the caller.
"""

from collections.abc import Sequence

from engine.embedded.groups import KVGroup


def needed_blocks(group: KVGroup, *, draft: bool) -> int:
    """Blocks before a boundary that the next token attends to, and the block behind it that a drafter asks for."""
    if group.window is None:
        raise ValueError(f"group {group.name} keeps everything")
    return -(-(group.window - 1) // group.block) + draft


def kept(
    group: KVGroup,
    start: int,
    end: int,
    *,
    align: int | None,
    draft: bool,
    interval: int | None,
    boundaries: Sequence[int],
    last_end: int | None = None,
) -> list[bool] | None:
    """For each of the blocks `start` .. `end` - 1 of a window group: is it kept? None: all are.

    `align` (tokens) is where hits may end; `boundaries` are token positions whose tail is kept in any case;
    `last_end` (blocks) is where the request's prefix stops, if its incomplete last segment is to be usable too.
    """
    size = group.block
    if align is None or align % size:
        return None
    need = needed_blocks(group, draft=draft)
    mask = [False] * (end - start)
    segment = align if interval is None else interval
    if segment:
        count = segment // size
        if need >= count:
            return None
        for block in range(max(start, int(draft)), end):
            if (block - draft) % count >= count - need:
                mask[block - start] = True
        if last_end is not None and not draft and last_end % count:
            first = max(last_end - last_end % count, last_end - need)
            for block in range(max(start, first), min(end, last_end)):
                mask[block - start] = True
    if interval is not None:
        for boundary in boundaries:
            stop = boundary // align * (align // size) + draft
            for block in range(max(start, stop - need), min(end, stop)):
                mask[block - start] = True
    return mask


def store_worthy_before_030(
    group: KVGroup, chunk: int, count: int, *, align: int | None, chunk_tokens: int, draft: bool
) -> bool:
    """The rule of 0.27-0.29: in each alignment segment, cut short by the last of `count` chunks, the window's tail."""
    if group.window is None or align is None or align <= chunk_tokens:
        return True
    window = -(-group.window // chunk_tokens)
    segment = align // chunk_tokens
    if window >= segment:
        return True
    place = chunk % segment
    length = min(segment, count - (chunk - place))
    return place >= length - (window + draft)
