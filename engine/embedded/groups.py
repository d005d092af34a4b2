"""KV cache groups: which layers share a block table, and what one such table must keep.

A *full* (or *mla*) group keeps the whole prefix. A *window* group attends to the last `window` tokens, the one being
computed included, so `window - 1` tokens before it must be kept. A *draft* group belongs to the drafter of speculative
decoding (EAGLE, MTP); its last matched block is recomputed after every hit. Groups may have different block sizes: a
prefix is then cached at multiples of their least common multiple and hashed at their greatest common divisor.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd, lcm
from typing import Literal, get_args

GroupKind = Literal["full", "mla", "window"]


class GroupError(ValueError):
    """Groups no engine can be built from; the message says what to give instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KVGroup:
    """One group. `block` and `window` are in tokens; `layers` counts the layers that share the table."""

    kind: GroupKind = "full"
    block: int
    window: int | None = None
    draft: bool = False
    layers: int = 1

    def __post_init__(self) -> None:
        if self.kind not in get_args(GroupKind):
            raise GroupError(f"group kind {self.kind!r}: choose one of {', '.join(get_args(GroupKind))}")
        for name, value in (("block", self.block), ("layers", self.layers)):
            if value < 1:
                raise GroupError(f"{name}={value!r} of a group: give a whole number of at least 1")
        if (self.kind == "window") != (self.window is not None):
            raise GroupError("a window group needs a window in tokens, and no other group has one")
        if self.window is not None and self.window < 1:
            raise GroupError(f"window={self.window!r} of a group: give a whole number of at least 1")

    @property
    def windowed(self) -> bool:
        """Whether old tokens leave the group."""
        return self.window is not None

    @property
    def name(self) -> str:
        """As `parse_groups` reads it: `full:16`, `window:16:128`, `mla:256:draft`."""
        parts = [self.kind, str(self.block), *([str(self.window)] if self.window is not None else [])]
        if self.layers != 1:
            parts.append(f"x{self.layers}")
        return ":".join([*parts, *(["draft"] if self.draft else [])])

    def skipped(self, computed: int) -> int:
        """How many of `computed` tokens the next one does not attend to."""
        return 0 if self.window is None else max(0, computed - self.window + 1)


def parse_groups(text: str) -> tuple[KVGroup, ...]:
    """Groups out of `full:16,window:16:128,window:16:128:draft`. Raises `GroupError` with the part that is wrong.

    A part is kind, block size, the window for a window group, then in any order `xN` for N layers and `draft`.
    """
    groups = []
    for part in text.split(","):
        kind, *rest = part.strip().split(":")
        numbers = [int(value) for value in rest if value.isdigit()]
        layers = [int(value[1:]) for value in rest if value[:1] == "x" and value[1:].isdigit()]
        words = [value for value in rest if not value.isdigit() and not (value[:1] == "x" and value[1:].isdigit())]
        wanted = 2 if kind == "window" else 1
        if kind not in get_args(GroupKind) or len(numbers) != wanted or set(words) - {"draft"} or len(layers) > 1:
            raise GroupError(
                f"{part!r} is no KV group: write full:BLOCK, mla:BLOCK or window:BLOCK:WINDOW[:xN][:draft]"
            )
        groups.append(
            KVGroup(
                kind=kind,  # type: ignore[arg-type]
                block=numbers[0],
                window=numbers[1] if wanted == 2 else None,
                draft="draft" in words,
                layers=layers[0] if layers else 1,
            )
        )
    return tuple(groups)


@dataclass(frozen=True, slots=True)
class Geometry:
    """All groups of an engine. `step` (tokens) is where a prefix can be cut, `unit` what one hash covers."""

    groups: tuple[KVGroup, ...]
    step: int = field(init=False)
    unit: int = field(init=False)
    classes: tuple[tuple[int, ...], ...] = field(init=False)

    def __post_init__(self) -> None:
        if not self.groups:
            raise GroupError("an engine needs at least one KV group")
        blocks = [group.block for group in self.groups]
        object.__setattr__(self, "step", lcm(*blocks))
        object.__setattr__(self, "unit", gcd(*blocks))
        # Groups of one shape are looked up together, and a drafter among them makes drafters of them all.
        shapes: dict[tuple[GroupKind, int, int | None], list[int]] = {}
        for number, group in enumerate(self.groups):
            shapes.setdefault((group.kind, group.block, group.window), []).append(number)
        members = sorted(shapes.values(), key=lambda ids: self.groups[ids[0]].windowed)
        object.__setattr__(self, "classes", tuple(tuple(ids) for ids in members))

    @property
    def hybrid(self) -> bool:
        """Whether there is more than one table."""
        return len(self.groups) > 1

    @property
    def full_ids(self) -> tuple[int, ...]:
        """Groups that keep everything."""
        return tuple(number for number, group in enumerate(self.groups) if not group.windowed)

    @property
    def window_ids(self) -> tuple[int, ...]:
        """Groups that forget."""
        return tuple(number for number, group in enumerate(self.groups) if group.windowed)

    def drafts(self, *, unannotated: bool) -> frozenset[int]:
        """Draft groups; all of them where a drafter runs and no group is marked as its own."""
        marked = frozenset(number for number, group in enumerate(self.groups) if group.draft)
        return marked or (frozenset(range(len(self.groups))) if unannotated else marked)

    def replay_tokens(self) -> int:
        """Tokens whose recomputation restores every window layer exactly (docs/kv-groups.md has the proof)."""
        return sum(
            group.layers * (group.window - 1) for group in self.groups if group.window is not None and not group.draft
        )


def describe(groups: Sequence[KVGroup]) -> str:
    """All groups in `parse_groups`' notation."""
    return ",".join(group.name for group in groups)
