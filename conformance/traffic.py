"""What became of the requests to one entry: how many failed, how many the recorder saw, and what may be said then.

A verdict rests on the requests it saw. Where a notable share of an entry's requests failed, or went past the recorder,
a pass speaks of the rest only: it is withheld. A failure that was proven stays one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from conformance.verdicts import Entry, Fact, Status, Vantage, Verdict
from conformance.wire.exchange import Exchange

FAILED_SHARE = 0.05
"""Share of an entry's requests that may fail before its passes are withheld."""

FAILED_LEAST = 2
"""One failed request is a stated fact, whatever its share."""


@dataclass(frozen=True)
class Traffic:
    """The requests to one entry. `recorded` counts, of those answered, what the recorder saw; None: there is none."""

    entry: Entry
    sent: int
    failures: Mapping[int, int]  # HTTP status -> how many; 0: no answer came
    answered: int
    recorded: int | None

    @property
    def failed(self) -> int:
        return sum(self.failures.values())

    @property
    def troubled(self) -> bool:
        """True when so many requests failed that nothing passes on the rest."""
        return self.failed >= FAILED_LEAST and self.failed > FAILED_SHARE * self.sent

    @property
    def blind(self) -> bool:
        """True when there is a recorder and some answers did not come through it."""
        return self.recorded is not None and self.recorded < self.answered

    @property
    def failure_line(self) -> str:
        """How many failed, and how; e.g. "7 of 62 requests failed (7 x HTTP 500)"."""
        kinds = ", ".join(
            f"{n} x {f'HTTP {status}' if status else 'no answer'}" for status, n in sorted(self.failures.items())
        )
        return f"{self.failed} of {self.sent} requests to {self.entry.path} failed ({kinds})"

    @property
    def recorder_line(self) -> str:
        """How many of the answers the recorder saw the request of."""
        return f"the recorder saw {self.recorded} of {self.answered} answered requests to {self.entry.path}"


def traffic(entry: Entry, exchanges: Iterable[Exchange], *, recorder: bool) -> Traffic:
    """The traffic of one entry. Requests that a gateway may refuse (`Exchange.odd`) count neither way when it does."""
    sent = answered = recorded = 0
    failures: Counter[int] = Counter()
    for exchange in exchanges:
        refused = exchange.status == 0 or exchange.status >= 400
        if exchange.odd and refused:
            continue
        sent += 1
        if refused:
            failures[exchange.status] += 1
        elif exchange.ok:
            answered += 1
            recorded += bool(exchange.upstream)
    return Traffic(entry, sent, failures, answered, recorded if recorder else None)


def facts(found: Traffic) -> tuple[Fact, ...]:
    """What a reader needs to know of it; nothing where all went well."""
    told = []
    if found.failures:
        so = "; no rule passes on the rest" if found.troubled else ""
        told.append(Fact(name=f"{found.entry}: failures", value=found.failure_line + so))
    if found.blind and found.recorded:
        told.append(Fact(name=f"{found.entry}: recorder", value=f"{found.recorder_line}: {ELSEWHERE}"))
    return tuple(told)


ELSEWHERE = (
    "the rest was answered elsewhere (another upstream of the gateway, or a cache of its own), and what passes on the "
    "part that was seen is withheld"
)


def withheld(verdict: Verdict, found: Traffic) -> Verdict:
    """The verdict as it may stand beside the entry's whole traffic."""
    if verdict.status is not Status.PASS:
        return verdict
    if found.troubled:
        why = found.failure_line
    elif found.blind and verdict.vantage is Vantage.UPSTREAM:
        why = found.recorder_line
    else:
        return verdict
    return replace(verdict, status=Status.INCONCLUSIVE, reason=f"it passes on the rest, but {why}")
