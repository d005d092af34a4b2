"""Where vLLM's releases differ in how they store and find prefixes, as one set of rules for each family.

Read from and checked against the releases named in docs/kv-groups.md (`engine.differential` is the check).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The rules of some releases.

    `sparse_store`: window groups store only what a retention interval leaves reachable (else: the tails of each
    alignment segment). `wide_draft`: a draft group of any kind asks one chunk beyond the boundary, not only a window
    group, and a partial last chunk widens the window asked for. `all_draft`: a drafter without a group of its own makes
    draft groups of all, in L2 too. `stable_tail`: the last chunk is stored once a request is finished, without the
    token that was never fed back. `replay_pairs`: L1 keeps the tail for an exact re-send and for a longer prompt.
    `peek_past_end`: a draft lookup in L1 may look past the last token that may be hit. `recency`: when a request's
    chunks count as used: at its end, or at each lookup and store. `load_scan`: where the search for the first block
    to load begins: behind the local hit, or at the front.
    """

    name: str
    sparse_store: bool
    wide_draft: bool
    all_draft: bool
    stable_tail: bool
    replay_pairs: bool
    peek_past_end: bool
    recency_at_end: bool
    holders_first: bool


_OLD = Family(
    name="0.27-0.29",
    sparse_store=False,
    wide_draft=False,
    all_draft=True,
    stable_tail=False,
    replay_pairs=False,
    peek_past_end=False,
    recency_at_end=False,
    holders_first=False,
)
_MIDDLE = Family(
    name="0.30",
    sparse_store=True,
    wide_draft=True,
    all_draft=False,
    stable_tail=True,
    replay_pairs=True,
    peek_past_end=True,
    recency_at_end=False,
    holders_first=True,
)
_NEW = Family(
    name="0.31+",
    sparse_store=True,
    wide_draft=True,
    all_draft=False,
    stable_tail=True,
    replay_pairs=True,
    peek_past_end=True,
    recency_at_end=True,
    holders_first=True,
)

FAMILIES = {family.name: family for family in (_OLD, _MIDDLE, _NEW)}
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
    return _OLD if number <= (0, 29) else _MIDDLE if number == (0, 30) else _NEW
