"""CNT rules: is a prompt counted before it is sent what it then turns out to be?"""

from __future__ import annotations

from conformance.judgements.verdict import Judging, evidence
from conformance.observe.counting import PATH, Counted
from conformance.observe.observed import Observed
from conformance.verdicts import Excerpt, Status, Table, Vantage, Verdict
from conformance.wire.problems import error_line

SHARE, TOKENS = 0.02, 32
"""How far a count may be off: 2 % of the total and 32 tokens (rule CNT-01)."""

ABSENT = (404, 405, 501)
"""Statuses by which an entry that is not there is told apart from one that fails."""


def count_is_near_the_total(observed: Observed) -> Verdict:
    """CNT-01: count_tokens is near the total the real request reports, or cleanly absent."""
    judging = Judging("CNT-01", observed.entry, Vantage.CLIENT)
    counted = observed.counting
    n = 2 * len(counted)
    table = Table(
        "count_tokens and the real request",
        ("request", "HTTP status", "count", "real total"),
        tuple((c.what, c.reply.status, c.count, c.total) for c in counted),
    )
    if all(c.reply.status in ABSENT for c in counted):
        return judging.passes(
            f"the gateway has no count_tokens (HTTP {counted[0].reply.status}): clients estimate without it",
            n, tables=(table,),
        )  # fmt: skip
    failed = [c for c in counted if not 200 <= c.reply.status < 300]
    if failed and all(not c.real.ok for c in failed):
        # What is refused when it is sent may be refused when it is counted: that is no fault of the count.
        said = error_line(failed[0].reply.status, failed[0].reply.body)
        return judging.undecided(
            f"the request itself is refused like its count ({failed[0].what}: {said})", n, tables=(table,)
        )
    if failed:
        said = error_line(failed[0].reply.status, failed[0].reply.body)
        return judging.says(
            Status.WARN, f"{PATH} fails ({said}): a clean 404 lets clients estimate", n, code="fails", tables=(table,),
            excerpts=_both(failed[0], observed),
        )  # fmt: skip
    if silent := [c for c in counted if c.count is None]:
        return judging.says(
            Status.WARN, "an answer of count_tokens has no integer input_tokens", n, code="no-count", tables=(table,),
            excerpts=_both(silent[0], observed),
        )  # fmt: skip
    known = [c for c in counted if c.total is not None and c.total >= 0]
    if not known:
        return judging.undecided(f"the real requests report no total: {counted[0].real.error}", n, tables=(table,))
    off = [c for c in known if _off(c)]
    if off:
        worst = max(off, key=lambda c: abs((c.count or 0) - (c.total or 0)))
        return judging.says(
            Status.WARN,
            f"count_tokens says {worst.count:,}, the real request reports {worst.total:,} tokens ({worst.what})",
            n,
            code="count-off" if worst.seen_upstream is not None else "off-the-report",
            tables=(table,),
            excerpts=_both(worst, observed),
        )
    near = max(abs((c.count or 0) - (c.total or 0)) for c in known)
    return judging.passes(f"counts are within {near} tokens of the real total", n, tables=(table,))


def _both(counted: Counted, observed: Observed) -> tuple[Excerpt, Excerpt]:
    return (
        evidence(f"{counted.what}, counted by {PATH}", counted.asked, observed),
        evidence(f"{counted.what}, sent", counted.real, observed),
    )


def _off(counted: Counted) -> bool:
    total = counted.total or 0
    return abs((counted.count or 0) - total) > SHARE * total + TOKENS
