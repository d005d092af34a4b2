"""Other explanations of a constant, and what in the log speaks against each."""

from __future__ import annotations

from conformance.forensics.constants import Constant, Status
from conformance.forensics.streams import Log, Stream, Tally
from conformance.forensics.wording import rate, share

_CONTROL_RATE = 0.5
_CONTROL_REQUESTS = 20


def control_of(constant: Constant, log: Log, constants: list[Constant]) -> tuple[Stream, Tally] | None:
    """The largest stream that stayed warm on the days of the constant, the same model first; what it did on them."""
    touched = {
        c.stream.key for c in constants if c.status in (Status.PINNED, Status.SUSPECTED) or c.stream is constant.stream
    }
    found: list[tuple[bool, int, Stream, Tally]] = []
    days = constant.days or sorted(constant.stream.days)
    for stream in log.streams.values():
        if stream.key in touched:
            continue
        tally = Tally()
        for day in days:
            other = stream.days.get(day)
            if other is not None:
                tally.requests += other.requests
                tally.prompt += other.prompt
                tally.cached += other.cached
        if tally.requests >= _CONTROL_REQUESTS and tally.rate >= _CONTROL_RATE:
            found.append((stream.model == constant.stream.model, tally.prompt, stream, tally))
    if not found:
        return None
    _, _, stream, tally = max(found, key=lambda item: item[:2])
    return stream, tally


def ruled_out(constant: Constant, log: Log, constants: list[Constant]) -> list[str]:
    """One sentence for each explanation that the log speaks against."""
    lines = [_chance(constant), *_compaction(constant), *_contention(constant, log, constants), *_parts(constant)]
    return [line for line in lines if line]


def _chance(c: Constant) -> str:
    if c.above > 0.05 * c.stream.total.requests:
        return ""
    return (
        f"chance (eviction, routing over replicas): it would scatter counts; {c.seen.count:,} of "
        f"{c.stream.total.requests:,} requests have exactly {c.value:,}"
    )


def _compaction(c: Constant) -> list[str]:
    cold = c.stream.total.requests - c.seen.count - max(0, c.above)
    if cold <= 0:
        return []
    return [
        f"compaction and other cold starts: {cold:,} requests ({share(cold / c.stream.total.requests)}) are below "
        f"{c.value:,}; of the {c.stream.zeros:,} with no hit at all {c.stream.cold_starts:,} open a conversation or "
        "follow a pause of ten minutes. They explain those requests, not the ones that stand at the constant in between"
    ]


def _contention(c: Constant, log: Log, constants: list[Constant]) -> list[str]:
    control = control_of(c, log, constants)
    if control is None:
        return []
    stream, tally = control
    engine = (
        "the same model"
        if stream.model == c.stream.model
        else f"model {stream.model}, which the log does not show to be the same engine"
    )
    return [
        f"contention for the pool: on the same days {stream.entry} ({stream.client}, {engine}) stayed at "
        f"{rate(tally.rate)} over {tally.requests:,} requests"
    ]


def _parts(c: Constant) -> list[str]:
    table = c.stream.parts
    if table is None:
        return []
    lines = []
    for seen in table.paths.values():
        if not seen.stable or seen is c.part:
            continue
        where = ""
        if seen.path == "system[2]" and c.stream.client.lower().startswith("claude"):
            where = " (Claude Code keeps git status and working directory at its end)"
        hashes = "1 hash" if seen.distinct == 1 else f"{seen.distinct:,} hashes"
        lines.append(f"{seen.path}{where}: {hashes} in {seen.requests:,} requests, changed {seen.changed:,} times")
    if table.pairs and table.history_changed <= 0.05 * table.pairs:
        lines.append(
            f"the history: earlier messages were altered in {table.history_changed:,} of {table.pairs:,} comparisons"
        )
    return lines[:12]
