"""What is known of each request, and the sums over all of them; both can be sent from a worker and added up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

MOST_ROWS: Final = 20_000
"""Rows kept for the report; the sums count every request, however many there are."""

UNFINISHED: Final = "the run ended before the answer"
"""What stands for an error where nobody waited for the answer: it is none of the target's."""

_OVERDUE: Final = 3.0


@dataclass(slots=True)
class Sample:
    """One request. Times in seconds, `at` since 1970; None where the answer did not say or did not come that far.

    `ttft` is the time to the first content, `gap_mean` and `gap_max` lie between content events, `total` is the time
    to the end of the stream. `recalled` says whether the answer named the fact asked for.
    """

    at: float
    phase: str
    session: int
    conversation: str
    kind: str
    entry: str
    client: str
    sdk: bool
    sent_bytes: int
    status: int = 0
    error: str | None = None
    ttft: float | None = None
    total: float = 0.0
    gap_mean: float | None = None
    gap_max: float | None = None
    prompt: int | None = None
    cached: int | None = None
    created: int | None = None
    output: int | None = None
    recalled: bool | None = None
    start_prompt: int | None = None  # what message_start said
    answer: str = ""  # eight hex digits of the text's hash
    resent: bool = False  # on a new connection, where one that had not rested ended without a byte of an answer
    counts: bool = True  # False: a request that reports no usage by nature (count_tokens)

    def row(self) -> list[Any]:
        """The values in the order of `COLUMNS`."""
        return [getattr(self, name) for name in COLUMNS]


COLUMNS: Final = tuple(f.name for f in fields(Sample))
"""Names of a row's values."""


def from_row(row: list[Any]) -> Sample:
    """The sample a row was made of."""
    return Sample(**dict(zip(COLUMNS, row, strict=True)))


@dataclass(slots=True)
class Tally:
    """Sums over requests. `reported` are those that said both counts; only they make up the hit rate.

    `prompt` counts what was said at all, `rated` the prompt tokens of those that said how much of them was cached.
    """

    requests: int = 0
    errors: int = 0
    unfinished: int = 0
    resent: int = 0
    reported: int = 0
    unreported: int = 0
    prompt: int = 0
    rated: int = 0
    cached: int = 0
    output: int = 0
    sent_bytes: int = 0
    seconds: float = 0.0

    def add(self, sample: Sample) -> None:
        """Count one request."""
        self.requests += 1
        self.errors += sample.error not in (None, UNFINISHED)
        self.unfinished += sample.error == UNFINISHED
        self.resent += sample.resent and sample.error is None
        self.sent_bytes += sample.sent_bytes
        self.seconds += sample.total
        self.output += sample.output or 0
        if sample.error is not None or not sample.counts:
            return
        self.prompt += sample.prompt or 0
        if sample.prompt is None or sample.cached is None:
            self.unreported += 1
            return
        self.reported += 1
        self.rated += sample.prompt
        self.cached += sample.cached

    def join(self, other: Tally) -> None:
        """Add another's sums."""
        for f in fields(Tally):
            setattr(self, f.name, getattr(self, f.name) + getattr(other, f.name))

    @property
    def hit_rate(self) -> float | None:
        """Cached over prompt tokens where both were reported, None where they never were."""
        return self.cached / self.rated if self.rated else None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "hit_rate": self.hit_rate}


@dataclass
class Samples:
    """All requests of a run: sums by phase, entry, client and kind, and the first `MOST_ROWS` rows."""

    rows: list[Sample] = field(default_factory=list)
    tallies: dict[tuple[str, str, str, str], Tally] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    slowest: float = 0.0
    waited: float = 0.0
    """Seconds: the slowest good answer, and the longest wait for one that the run's end cut off."""

    def add(self, sample: Sample) -> None:
        """Count and keep one request."""
        key = (sample.phase, sample.entry, sample.client, sample.kind)
        self.tallies.setdefault(key, Tally()).add(sample)
        if sample.error is None:
            self.slowest = max(self.slowest, sample.total)
        elif sample.error == UNFINISHED:
            self.waited = max(self.waited, sample.total)
        else:
            self.errors[sample.error] = self.errors.get(sample.error, 0) + 1
        if len(self.rows) < MOST_ROWS:
            self.rows.append(sample)

    @property
    def hung(self) -> bool:
        """Whether an answer that the run's end cut off was overdue: nobody knows whether it would have come."""
        return self.waited > _OVERDUE * self.slowest

    def extend(self, rows: Iterable[list[Any]]) -> None:
        """Count and keep what a worker sent."""
        for row in rows:
            self.add(from_row(row))

    def total(
        self, *, phase: str | None = None, entry: str | None = None, client: str | None = None, kind: str | None = None
    ) -> Tally:
        """The sums of what matches; None matches all."""
        wanted = (phase, entry, client, kind)
        found = Tally()
        for key, tally in self.tallies.items():
            if all(w is None or w == k for w, k in zip(wanted, key, strict=True)):
                found.join(tally)
        return found

    def values(self, place: int) -> list[str]:
        """The phases (0), entries (1), clients (2) or kinds (3) met, in order of appearance."""
        return list(dict.fromkeys(key[place] for key in self.tallies))

    @property
    def ordered(self) -> list[Sample]:
        """The rows by the time they were sent."""
        return sorted(self.rows, key=lambda sample: sample.at)
