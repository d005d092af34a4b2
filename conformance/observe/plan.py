"""How much a run sends: sizes and counts by budget, entry and vantage, known before the first request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from conformance.options import Budget
from conformance.verdicts import Entry

BYTES_PER_TOKEN = 4.2
"""Of the suite's own text, for plans made before anything is measured (DeepSeek's vocabulary: 4.0 to 4.5)."""

FRAME_TOKENS = 400
"""What a chat template and a request's JSON frame add, roughly."""

IDENTICAL_REQUESTS = 20
"""Byte-identical short requests of PFX-14."""

COMPACTION_REQUESTS = 10
"""Streamed turns of CMP-01 and their twins, the request that compacts among them."""

OTHER_REQUESTS = 10
"""One request in all its forms, the same text on both entries, and what is counted before it is sent."""

RESTART_REQUESTS, RESTART_TOKENS = 9, 1_100
"""Requests that are compared across a restart, the question whether the target is back among them; tokens of each."""

SCRIPTED = {
    Budget.QUICK: {Entry.MESSAGES: 71, Entry.CHAT: 46},
    Budget.STANDARD: {Entry.MESSAGES: 95, Entry.CHAT: 50},
    Budget.FULL: {Entry.MESSAGES: 95, Entry.CHAT: 50},
}
"""Requests that the recorder answers by script (measured)."""

SCRIPTED_TOKENS = 52
"""Prompt tokens of one of them (measured); no engine sees it."""

PROBES = {Entry.MESSAGES: (32, 17_000), Entry.CHAT: (17, 15_000)}
"""Requests of the translation probes and their prompt tokens, a template preamble of 350 each included (measured)."""

PROBES_NEW = 0.25
"""Share of the probes' tokens that no probe before had sent (measured)."""

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
    streamed: bool = False  # the first half of each arm's turns is sent as streams: their code may be another
    scripted: Mapping[Entry, int] = field(default_factory=dict)  # requests answered by script
    engine: bool = True  # False: nothing but scripts answers, and nothing else is sent
    translation: bool = False  # the probes of rules that only upstream bytes decide
    restart: bool = False  # the target is restarted, and some requests are sent before and after it

    def tokens(self, entry: Entry, growth: int = 300) -> int:
        """Prompt tokens this plan sends to `entry` if granules are small; failures confirm at extra cost."""
        return round(sum(part.tokens for part in self._parts(entry, growth)))

    def requests(self, entry: Entry) -> int:
        """Requests this plan sends to `entry`, before any failure is confirmed."""
        return sum(part.requests for part in self._parts(entry, 300))

    def held(self, entry: Entry, growth: int = 300) -> int:
        """Prompt tokens of this plan that an engine computes anew and keeps in its cache."""
        return round(sum(part.held for part in self._parts(entry, growth)))

    def _parts(self, entry: Entry, growth: int) -> tuple[_Part, ...]:
        count = self.scripted.get(entry, 0)
        scripted = _Part(count, count * SCRIPTED_TOKENS, 0)
        if not self.engine:
            return (scripted,)
        base = self.base_bytes / BYTES_PER_TOKEN + FRAME_TOKENS
        messages = entry is Entry.MESSAGES
        pinned = self._arm(base, self.pairs, growth, self.controls and not messages)
        plain = self._arm(base, self.plain_pairs, growth, self.controls) if messages else _Part(0, 0, 0)
        return (
            scripted,
            _Part(2 * self.probes, self.probes * 2 * (base + 500), self.probes * (base + 500)),
            pinned,
            plain,
            *((_Part(COMPACTION_REQUESTS, COMPACTION_REQUESTS * (base + 600), 3 * (base + 600)),) if messages else ()),
            *((_Part(IDENTICAL_REQUESTS, IDENTICAL_REQUESTS * (base / 2), base / 2),) if self.translation else ()),
            _Part(OTHER_REQUESTS, OTHER_REQUESTS * (base + 150), 2 * (base + 150)),
            *((_Part(*PROBES[entry], PROBES[entry][1] * PROBES_NEW),) if self.translation else ()),
            *((_Part(RESTART_REQUESTS, RESTART_REQUESTS * RESTART_TOKENS, RESTART_TOKENS),) if self.restart else ()),
        )

    def _arm(self, base: float, pairs: int, growth: int, controls: bool) -> _Part:
        if not pairs:
            return _Part(0, 0, 0)
        turns = [base + growth * i for i in range(pairs + 1)]
        requests, sends, held = len(turns), sum(turns), turns[-1]
        for turn in range(1, pairs + 1):
            if self.repeat_turns is None or turn in self.repeat_turns:
                requests, sends = requests + 1, sends + turns[turn - 1]
            if controls:
                requests, sends, held = requests + 2, sends + turns[turn - 1] + turns[turn], held + turns[turn]
        return _Part(requests, sends, held)


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a plan: its requests, their prompt tokens, and how many of those no earlier request had sent."""

    requests: int
    tokens: float
    held: float


def plan_for(
    budget: Budget, *, sees_upstream: bool, shape: str = "scaled", engine: bool = True, restart: bool = False
) -> Plan:
    """The plan of a run; `engine` is False where only scripts answer, `restart` True where the target is restarted.

    With a recorder the prefix rules read upstream bytes and need no control arms.
    """
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
            streamed=not sees_upstream,
            scripted=SCRIPTED[budget] if sees_upstream else {},
            engine=engine,
            translation=sees_upstream,
            restart=restart,
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
        streamed=not sees_upstream,
        scripted=SCRIPTED[budget] if sees_upstream else {},
        engine=engine,
        translation=sees_upstream,
        restart=restart,
    )
