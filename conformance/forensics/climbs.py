"""Sessions that grow, found in a mixed stream of requests, and counts that stand still while they do.

A log seldom names the session, and several run at once. A request is taken to continue the conversation whose last
prompt was a little shorter than its own. Among unrelated requests that links strangers too; they are told from growing
sessions by the mirror: unrelated sizes fall as often as they rise, a conversation only rises.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log1p, sqrt

FEWEST_TURNS = 6
"""A run of fewer turns with one count is no sign of anything."""

QUICK_S = 120.0
"""A turn that follows the one before so soon finds it cached, unless the pool is being overrun."""

_OPEN = 12
_STEP, _STEP_SHARE = 16_384, 4
_MOST_VALUES = 96


@dataclass
class Runs:
    """All runs at one count on one day: at least `FEWEST_TURNS` turns of a conversation each, its prompt moving."""

    runs: int = 0
    turns: int = 0
    proven: int = 0
    """Runs of conversations that a capture shows to append."""
    quick: int = 0
    """Turns within `QUICK_S` of the one before."""
    held: int = 0
    """Sum over turns of (the prompt before - the count): what could have been reused, in tokens."""
    held_turns: int = 0
    span: int = 0
    """Sum over runs of the prompt's change, in tokens."""
    smallest: int = 0
    largest: int = 0

    def add(self, other: Runs) -> None:
        """Take another day's in."""
        self.smallest = min(self.smallest or other.smallest, other.smallest or self.smallest)
        self.largest = max(self.largest, other.largest)
        for name in ("runs", "turns", "proven", "quick", "held", "held_turns", "span"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Appending:
    """Whether prompts grow by what was answered: in a conversation the answer is part of the next prompt.

    Requests of their own, even in order of size, grow by steps that know nothing of the answers in between.
    """

    __slots__ = ("covered", "n", "sums")

    def __init__(self) -> None:
        self.n = self.covered = 0
        self.sums = (0.0, 0.0, 0.0, 0.0, 0.0)

    def add(self, answer: int, step: int) -> None:
        """A prompt grew by `step` tokens after an answer of `answer`."""
        self.n += 1
        # Answers with dropped reasoning and re-tokenised borders are a little shorter when they come back.
        self.covered += step >= 0.9 * answer
        x, y = log1p(answer), log1p(step)
        a, b, aa, bb, ab = self.sums
        self.sums = (a + x, b + y, aa + x * x, bb + y * y, ab + x * y)

    @property
    def correlation(self) -> float:
        """Of the logarithms of answers and steps; 0 where either never changes."""
        a, b, aa, bb, ab = self.sums
        spread = (self.n * aa - a * a) * (self.n * bb - b * b)
        return (self.n * ab - a * b) / sqrt(spread) if spread > 1e-9 else 0.0

    @property
    def refuted(self) -> bool:
        """True when prompts often grow by less than the answer: it cannot be part of the next prompt."""
        return self.n >= 30 and self.covered < 0.7 * self.n

    @property
    def shown(self) -> bool:
        """True when steps cover the answers and go with them, far beyond chance (four standard errors)."""
        return self.n >= 30 and self.covered >= 0.9 * self.n and self.correlation * sqrt(self.n) >= 4


class _Chain:
    __slots__ = (
        "answer",
        "day",
        "first",
        "held",
        "held_turns",
        "last",
        "proven",
        "quick",
        "session",
        "time",
        "turns",
        "value",
    )

    def __init__(self, session: str, prompt: int, time: float, value: int, day: int, proven: bool) -> None:
        self.session = session
        self.proven = proven
        self.answer: int | None = None
        self.time = time
        self.last = prompt
        self.start(prompt, value, day, 1)

    def start(self, prompt: int, value: int, day: int, turns: int) -> None:
        self.first, self.value, self.day = prompt, value, day
        self.turns = turns
        self.quick = self.held = self.held_turns = 0


class Climbs:
    """Runs of one count in conversations whose prompts rise; with `falling`, the mirror: whose prompts fall."""

    def __init__(self, *, falling: bool = False) -> None:
        self._falling = falling
        self._open: list[_Chain] = []
        self._runs: dict[tuple[int, int], Runs] = {}
        self.starts = 0
        """Requests that continued nothing."""
        self.appending = Appending()

    def add(
        self,
        prompt: int,
        cached: int,
        time: float,
        session: str,
        day: int,
        proven: bool = False,
        answer: int | None = None,
    ) -> bool:
        """One more request, in the order of time. True when it continued a conversation."""
        best: _Chain | None = None
        gap = 0
        sign = -1 if self._falling else 1
        for chain in self._open:
            last = chain.last
            step = (prompt - last) * sign
            if step < 0 or chain.session != session:
                continue
            if step == 0:
                chain.time = time  # the same request again
                return True
            if (best is None or step < gap) and (step <= _STEP or step <= last // _STEP_SHARE):
                best, gap = chain, step
        if best is None:
            self.starts += 1
            if len(self._open) >= _OPEN:
                self._close(self._open.pop(0))
            self._open.append(_Chain(session, prompt, time, cached, day, proven))
            self._open[-1].answer = answer
            return False
        if best.answer is not None:
            self.appending.add(best.answer, gap)
        best.answer = answer
        if self._open[-1] is not best:
            self._open.remove(best)
            self._open.append(best)  # the one longest unused comes first
        self._continue(best, prompt, cached, time, day)
        return True

    def runs(self) -> dict[int, dict[int, Runs]]:
        """Count -> day -> runs, the open ones included. To be asked once, at the end."""
        for chain in self._open:
            self._close(chain)
        self._open = []
        found: dict[int, dict[int, Runs]] = {}
        for (value, day), runs in self._runs.items():
            found.setdefault(value, {})[day] = runs
        return found

    def _continue(self, chain: _Chain, prompt: int, cached: int, time: float, day: int) -> None:
        if cached == chain.value:
            if day != chain.day:
                self._close(chain)
                chain.start(prompt, cached, day, 0)
            chain.turns += 1
            chain.quick += time - chain.time <= QUICK_S
            chain.held += chain.last - cached
            chain.held_turns += 1
        elif cached > chain.value:
            self._close(chain)
            chain.start(prompt, cached, day, 1)
        # A lower count is a cold start inside the session: it neither ends the run nor belongs to it.
        chain.last, chain.time = prompt, time

    def _close(self, chain: _Chain) -> None:
        if chain.turns < FEWEST_TURNS or chain.value == 0:
            return
        key = (chain.value, chain.day)
        if key not in self._runs and len(self._runs) >= _MOST_VALUES:
            del self._runs[min(self._runs, key=lambda k: self._runs[k].turns)]
        low, high = sorted((chain.first, chain.last))
        self._runs.setdefault(key, Runs()).add(
            Runs(
                runs=1,
                turns=chain.turns,
                proven=int(chain.proven),
                quick=chain.quick,
                held=chain.held,
                held_turns=chain.held_turns,
                span=high - low,
                smallest=low,
                largest=high,
            )
        )
