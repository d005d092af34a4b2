"""What the findings do not explain: printed, not hidden."""

from __future__ import annotations

from conformance.forensics.constants import Constant, Status
from conformance.forensics.granularity import Granularity
from conformance.forensics.sections import culprit
from conformance.forensics.streams import Log, Stream
from conformance.forensics.wording import rate, share

_LOW = 0.5
_GOOD = 0.6


def remainders(log: Log, constants: list[Constant], granularity: Granularity) -> list[str]:
    """Sentences, each with its numbers."""
    faults = [c for c in constants if c.status in (Status.PINNED, Status.SUSPECTED)]
    lines: list[str] = []
    for fault in faults[:5]:
        lines += _arithmetic(fault)
    lines += _alike_but_unexplained(log, faults, constants)
    lines += _hidden_by_the_sum(log, faults)
    lines += _removed_in_between(log)
    if granularity.odd:
        lines.append(
            f"{granularity.odd:,} counts are no multiple of {granularity.step:,}, which all others are: another "
            "engine, or another way of counting"
        )
    if log.unfollowed:
        lines.append(
            f"{log.unfollowed:,} requests belong to streams beyond the first {len(log.streams):,}: they are in the "
            "totals and were not examined for constants; filter the log by entry or model to see them"
        )
    return lines


def _arithmetic(c: Constant) -> list[str]:
    total = c.stream.total
    mean = total.prompt / total.requests
    explained = c.seen.count * c.value
    rest = total.cached - explained
    lines = [
        f"{c.stream.entry} ({c.stream.client}): {c.seen.count:,} x {c.value:,} = {explained:,} of {total.cached:,} "
        f"cached tokens; the other {total.requests - c.seen.count:,} requests give {rest:,}. Together over "
        f"{total.prompt:,} prompt tokens: {rate(total.rate)}"
    ]
    naive = c.value / mean
    if abs(naive - total.rate) > 0.01:
        lines.append(
            f"{c.value:,} / {mean:,.0f} (the mean prompt) would be {share(naive)}, which is not the hit rate: not "
            "every request stands at the constant"
        )
    return lines


def _alike_but_unexplained(log: Log, faults: list[Constant], constants: list[Constant]) -> list[str]:
    told = {c.stream.key for c in constants}
    lines = []
    for stream in sorted(log.streams.values(), key=lambda s: -s.total.prompt):
        total = stream.total
        if stream.key in told or total.rate >= _LOW or total.prompt < 0.002 * log.total.prompt:
            continue
        mean = total.prompt / total.requests
        line = (
            f"{stream.name()}: {total.requests:,} requests at {rate(total.rate)}, mean prompt {mean:,.0f}: no constant "
            f"found{' in so few' if total.requests < 12 else ''}, so this rate is not explained here"
        )
        line += "".join(_as_if(stream, mean, fault) for fault in _nearest(stream, faults))
        lines.append(line)
        if len(lines) == 6:
            break
    return lines


def _nearest(stream: Stream, faults: list[Constant]) -> list[Constant]:
    related = [f for f in faults if f.stream.model == stream.model or f.stream.entry == stream.entry]
    return related[:1]


def _as_if(stream: Stream, mean: float, fault: Constant) -> str:
    pinned = fault.value * stream.total.requests / stream.total.prompt
    text = f"; a pin at {fault.value:,} as on {fault.stream.entry} would give {rate(pinned)}"
    largest = fault.stream.prompts.largest
    if mean > largest:
        text += f", and its mean prompt is above that stream's largest ({largest:,})"
    return text


def _hidden_by_the_sum(log: Log, faults: list[Constant]) -> list[str]:
    if not faults:
        return []
    return [
        f"the sum over everything is {rate(log.total.rate)} ({log.total.cached:,} / {log.total.prompt:,}): it "
        "describes none of the streams"
    ]


def _removed_in_between(log: Log) -> list[str]:
    lines = []
    for stream in log.streams.values():
        part = culprit(stream.parts) if stream.parts is not None and stream.parts.requests >= 12 else None
        if part is not None and stream.total.rate >= _GOOD:
            lines.append(
                f"{stream.name()}: {part.path} varies in what was captured, and {rate(stream.total.rate)} is cached "
                "all the same: something behind the capture takes it out"
            )
    return lines[:6]
