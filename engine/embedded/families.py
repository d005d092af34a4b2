"""Where vLLM's releases differ in how they store and find prefixes, as one set of rules for each family.

Read from and checked against the releases named in docs/kv-groups.md (`engine.differential` is the check).
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The rules of some releases.

    `sparse_store`: in L2 window groups keep only what a retention interval leaves reachable; else the tails of each
    alignment segment. `wide_draft`: draft groups of any kind, not only windows, ask L2 for one chunk beyond the
    boundary, a partial last chunk widens the window asked for, and a chunk being copied delays only the run it lies in.
    `all_draft`: a drafter without a group of its own makes draft groups of all in L2 too. `stable_tail`: when a request
    ends its last chunk is stored as well, but never the token that was not fed back. `replay_pairs`: L1 keeps the tail
    for an exact re-send and for a longer prompt where there is a drafter. `peek_past_end`: a draft group may look in L1
    behind the last token that can be hit. `recency_at_end`: a request's chunks count as used once, when it ends, not at
    each lookup and store. `holders_only`: of the requests that had to wait only those holding blocks are asked first.
    `short_tail`: the key of an incomplete last block leaves out the last token of a prompt, where nothing drafts.
    """

    name: str
    sparse_store: bool
    wide_draft: bool
    all_draft: bool
    stable_tail: bool
    replay_pairs: bool
    peek_past_end: bool
    recency_at_end: bool
    holders_only: bool
    short_tail: bool


_OLD = Family(
    name="0.27-0.29",
    sparse_store=False,
    wide_draft=False,
    all_draft=True,
    stable_tail=False,
    replay_pairs=False,
    peek_past_end=False,
    recency_at_end=False,
    holders_only=False,
    short_tail=False,
)
_MIDDLE = Family(
    name="0.30",
    sparse_store=True,
    wide_draft=True,
    all_draft=False,
    stable_tail=True,
    replay_pairs=True,
    peek_past_end=False,
    recency_at_end=False,
    holders_only=False,
    short_tail=True,
)
_NEXT = replace(_MIDDLE, name="0.31", recency_at_end=True, holders_only=True)
_NEW = replace(_NEXT, name="0.32+", peek_past_end=True)

FAMILIES = {family.name: family for family in (_OLD, _MIDDLE, _NEXT, _NEW)}
NEWEST = _NEW.name


def family_of(version: str) -> Family:
    """The family of a release such as `0.32.0`, or of a family's own name. Raises `KeyError` for one not covered."""
    if version in FAMILIES:
        return FAMILIES[version]
    parts = version.split(".")
    try:
        number = (int(parts[0]), int(parts[1]))
    except (IndexError, ValueError):
        raise KeyError(version) from None
    if number < (0, 27):
        raise KeyError(version)
    if number <= (0, 29):
        return _OLD
    return {(0, 30): _MIDDLE, (0, 31): _NEXT}.get(number, _NEW)
