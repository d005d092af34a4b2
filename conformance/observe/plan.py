"""How much a run sends: sizes and counts by budget, entry and vantage, known before the first request."""

from __future__ import annotations

from dataclasses import dataclass

from conformance.options import Budget
from conformance.verdicts import Entry

BYTES_PER_TOKEN = 4.2
"""Of the suite's own text, for plans made before anything is measured (DeepSeek's vocabulary: 4.0 to 4.5)."""

FRAME_TOKENS = 400
"""What a chat template and a request's JSON frame add, roughly."""

IDENTICAL_REQUESTS = 20
"""Byte-identical short requests of PFX-14."""

COMPACTION_REQUESTS = 7
"""Streamed turns of CMP-01, the request that compacts among them."""

PROBE_TOKENS = {Entry.MESSAGES: 17_000, Entry.CHAT: 15_000}
"""Prompt tokens of the translation probes, a template preamble of 350 tokens each included (measured)."""

PINNED_PAIRS = 7
"""Pairs of the arm PIN-01 reads: six constant new turns after the first, and one to spare."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is sent to one entry. Sizes in UTF-8 bytes of the first turn."""

    base_bytes: int
    probes: int
    scales: tuple[float, ...]  # tried in order until exact repeats hit
    pairs: int  # of each arm
    controls: bool  # repeat-again and other-salt controls: client evidence for the prefix rules
    repeat_turns: frozenset[int] | None  # turns that are repeated; None = all
    plain_pairs: int  # of the arm without attribution block, where that is not the arm PIN-01 reads
    max_growth: int  # tokens a turn; a target with coarser counts needs a larger budget
    translation: bool = False  # the probes of rules that only upstream bytes decide

    def tokens(self, entry: Entry, growth: int = 300) -> int:
        """Prompt tokens this plan sends to `entry` if granules are small; failures confirm at extra cost."""
        base = self.base_bytes / BYTES_PER_TOKEN + FRAME_TOKENS
        probes = self.probes * 2 * (base + 500)
        pinned = self._arm(base, self.pairs, growth, self.controls and entry is Entry.CHAT)
        plain = self._arm(base, self.plain_pairs, growth, self.controls) if entry is Entry.MESSAGES else 0.0
        compaction = COMPACTION_REQUESTS * (base + 600) if entry is Entry.MESSAGES else 0.0
        small = IDENTICAL_REQUESTS * (base / 2) + 7 * (base + 150)
        special = PROBE_TOKENS[entry] if self.translation else 0
        return round(probes + pinned + plain + compaction + small + special)

    def _arm(self, base: float, pairs: int, growth: int, controls: bool) -> float:
        turns = [base + growth * i for i in range(pairs + 1)]
        sends = sum(turns)
        for turn in range(1, pairs + 1):
            if self.repeat_turns is None or turn in self.repeat_turns:
                sends += turns[turn - 1]
            if controls:
                sends += turns[turn - 1] + turns[turn]
        return sends


def plan_for(budget: Budget, *, sees_upstream: bool, shape: str = "scaled") -> Plan:
    """The plan of a run. With a recorder the prefix rules read upstream bytes and need no control arms."""
    full_size = shape == "full"
    if budget is Budget.QUICK:
        return Plan(
            base_bytes=100_000 if full_size else 3_600,
            probes=4,
            scales=(1.0,) if full_size else (1.0, 4.0),
            pairs=PINNED_PAIRS,
            controls=False,
            repeat_turns=frozenset({1, 4, PINNED_PAIRS}),
            plain_pairs=3 if sees_upstream else 0,
            max_growth=700,
            translation=sees_upstream,
        )
    standard = budget is Budget.STANDARD
    return Plan(
        base_bytes=100_000 if full_size else (5_200 if standard else 18_500),
        probes=5 if standard else 6,
        scales=(1.0,) if full_size else ((1.0, 4.0) if standard else (1.0, 3.0)),
        pairs=8,
        controls=not sees_upstream,
        repeat_turns=None,
        plain_pairs=3 if sees_upstream else 8,
        max_growth=1_500 if standard else 12_000,
        translation=sees_upstream,
    )
