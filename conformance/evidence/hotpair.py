"""Hot pairs: turn N exactly again must hit; within about a second turn N+1 must hit at least as much.

No block size, draft model or template needs to be known: the repeat measures what is hot at this very moment, and
the control arms measure how often hot things go cold by themselves (other tenants, small pools, several replicas).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from conformance.evidence.conversation import Conversation, Sent
from conformance.evidence.thresholds import HotPairThresholds
from conformance.verdicts import Table


@dataclass(frozen=True)
class Pair:
    """One hot pair of turn `turn` (the repeat) and `turn + 1` (the new turn), with its controls.

    `repeat` is None where a plan repeats only some turns. `again` is the repeat sent once more: the control
    without any new text. `fresh` is the new turn under another salt: the negative control, which must fall to the
    floor.
    """

    turn: int
    repeat: Sent | None
    new: Sent
    again: Sent | None = None
    fresh: Sent | None = None


@dataclass
class Arm:
    """One conversation and the pairs it was observed in."""

    name: str
    conversation: Conversation
    growth: int  # tokens a turn
    controls: bool = False
    repeat_turns: frozenset[int] | None = None  # None: every turn is repeated
    first: Sent | None = None
    pairs: list[Pair] = field(default_factory=list)

    @property
    def sends(self) -> list[Sent]:
        """All sends of the arm in no particular order."""
        extra = [s for p in self.pairs for s in (p.repeat, p.new, p.again, p.fresh) if s is not None]
        return ([self.first] if self.first else []) + extra

    @property
    def repeats(self) -> list[Sent]:
        """Every send of a prompt that had been sent just before."""
        return [s for p in self.pairs for s in (p.repeat, p.again) if s is not None]

    @property
    def new_turns(self) -> list[Sent]:
        """Every turn when it was sent for the first time, in order."""
        return ([self.first] if self.first else []) + [p.new for p in self.pairs]

    def table(self) -> Table:
        """One row per pair; the control columns only where controls were sent."""
        names = ["turn", "prompt", "cached (repeat)", "next prompt", "cached (next)"]
        if self.controls:
            names += ["cached (repeat again)", "cached (other salt)"]
        rows = []
        for pair in self.pairs:
            row = (pair.turn, *_cells(pair.repeat), pair.new.prompt, pair.new.cached)
            rows.append((*row, _cells(pair.again)[1], _cells(pair.fresh)[1]) if self.controls else row)
        return Table(f"hot pairs, {self.name}", tuple(names), tuple(rows))


def _cells(sent: Sent | None) -> tuple[int | None, int | None]:
    return (sent.prompt, sent.cached) if sent else (None, None)


def run_arms(arms: Sequence[Arm], *, pairs: int, warm_send: int, rng: random.Random) -> None:
    """Send `pairs` more pairs of each arm, interleaved, their order drawn anew for each pair. Fills `arm.pairs`.

    `warm_send` is the send of a prompt that is the first to hit (2, or 3 for engines that admit on the second).
    """
    for arm in arms:
        if arm.first is None:
            arm.first = arm.conversation.send()
    for _ in range(pairs):
        for arm in rng.sample(list(arms), len(arms)):
            arm.pairs.append(_pair(arm, len(arm.pairs) + 1, warm_send, rng))


def _pair(arm: Arm, turn: int, warm_send: int, rng: random.Random) -> Pair:
    conversation = arm.conversation
    repeat = again = None
    if arm.repeat_turns is None or turn in arm.repeat_turns:
        for _ in range(warm_send - 2):
            conversation.send()
        repeat = conversation.send()
    if not arm.controls:
        conversation.grow(arm.growth)
        return Pair(turn, repeat, conversation.send())
    if rng.random() < 0.5:
        again = conversation.send()
        conversation.grow(arm.growth)
        new = conversation.send()
    else:
        # The control repeats the old turn, so the new one is sent from a copy that runs ahead.
        new = conversation.ahead(arm.growth).send()
        again = conversation.send()
        conversation.grow(arm.growth)
    return Pair(turn, repeat, new, again, conversation.resalted().send())


class Loss(StrEnum):
    """What an arm's pairs amount to."""

    KEPT = "kept"
    LOST = "lost"
    MIXED = "mixed"
    TOO_FEW = "too few valid pairs"


@dataclass(frozen=True)
class Count:
    """Valid pairs of an arm and how many of them lost the prefix."""

    valid: int
    lost: int

    def says(self, thresholds: HotPairThresholds) -> Loss:
        if self.valid < thresholds.min_valid:
            return Loss.TOO_FEW
        if self.lost >= self.valid - thresholds.fail_misses:
            return Loss.LOST
        if self.lost <= thresholds.pass_losses:
            return Loss.KEPT
        return Loss.MIXED


def _count(
    pairs: list[tuple[Sent | None, Sent | None]], floor: float, granule: int, thresholds: HotPairThresholds
) -> Count:
    valid = lost = 0
    for repeat, seen in pairs:
        if repeat is None:
            continue
        slack = thresholds.slack(granule, repeat.prompt or 0)
        # A repeat must stand far enough above the floor for a loss to show.
        if seen is None or not seen.valid or not repeat.valid or (repeat.cached or 0) <= floor + slack:
            continue
        valid += 1
        slack = thresholds.slack(granule, seen.prompt or 0)
        lost += (seen.cached or 0) < (repeat.cached or 0) - slack
    return Count(valid, lost)


def count_new(arm: Arm, floor: float, granule: int, thresholds: HotPairThresholds) -> Count:
    """New turns that hit less than their hot repeat."""
    return _count([(p.repeat, p.new) for p in arm.pairs], floor, granule, thresholds)


def count_again(arm: Arm, floor: float, granule: int, thresholds: HotPairThresholds) -> Count:
    """Hot repeats that, sent once more, hit less: what goes cold by itself."""
    return _count([(p.repeat, p.again) for p in arm.pairs], floor, granule, thresholds)


def count_fresh(arm: Arm, floor: float, granule: int, thresholds: HotPairThresholds) -> Count:
    """Turns under another salt; "lost" here is as it must be: at the floor."""
    return _count([(p.repeat, p.fresh) for p in arm.pairs], floor, granule, thresholds)
