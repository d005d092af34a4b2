"""Constant cached counts: which are a lost prefix, which are as they should be, and which a log cannot tell apart.

A count that stands still is no fault by itself. Requests that each open a conversation of their own over the same
system text and tools all hit exactly those; so do the first turns of sessions. It is a lost prefix when conversations
grow past it, turn after turn, and never reuse more. Nothing here says who loses it: a client, a gateway or an engine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from conformance.forensics.climbs import QUICK_S, Runs
from conformance.forensics.granularity import Granularity, of_stream
from conformance.forensics.parts import PathSeen
from conformance.forensics.sections import Boundary, boundaries, culprit
from conformance.forensics.sketches import Seen
from conformance.forensics.streams import Log, Stream

FEWEST = 12
"""Requests at one count, at least."""

_AGENTS = re.compile(r"(claude-(cli|code)|opencode|reasonix|qwen-?code|codex|pi)\b", re.IGNORECASE)
_TURNS_SHARE = 0.4
_MIRROR_SHARE = 0.25
_QUICK_TURNS = 8
_SPAN_STEPS, _HELD_STEPS = 8, 4
_DOMINATES = 0.5
_ABOVE_SHARE = 0.1
_FLOOR_TOKENS = 1_024


class Status(StrEnum):
    PINNED = "pinned"
    """Conversations grow past it and reuse no more: a fault."""
    SUSPECTED = "suspected"
    """It looks so, but the log does not rule the innocent explanations out."""
    UNDECIDED = "undecided"
    """A constant, and nothing shows that conversations grow."""
    LEGITIMATE = "legitimate"
    """A capture shows that every request opens a conversation of its own over the same front."""
    FLOOR = "template floor"
    """What every prompt shares by its template."""


@dataclass
class Constant:
    """One count that many requests of a stream share, and what became of the suspicion."""

    stream: Stream
    value: int
    seen: Seen
    granularity: Granularity
    status: Status
    runs: Runs
    falls: Runs
    days: list[int]
    above: int
    """Requests of the stream with a higher count, at most."""
    why: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    part: PathSeen | None = None
    boundaries: list[Boundary] = field(default_factory=list)


def template_floor(log: Log, granularity: Granularity) -> int | None:
    """The smallest count that at least three requests share, if it is small enough for a preamble; else None."""
    times: dict[int, int] = {}
    for stream in log.streams.values():
        for value, seen in stream.counts.items():
            times[value] = times.get(value, 0) + seen.count
    repeated = [value for value, n in times.items() if n >= 3]
    smallest = min(repeated, default=0)
    return smallest if 0 < smallest <= max(_FLOOR_TOKENS, granularity.safe) else None


def find_constants(log: Log, granularity: Granularity, floor: int | None) -> list[Constant]:
    """Every constant worth a word, faults first, then by requests."""
    found = []
    for stream in log.streams.values():
        if stream.total.requests >= FEWEST:
            found += _of_stream(stream, granularity, floor)
    order = list(Status)
    return sorted(found, key=lambda c: (order.index(c.status), -c.seen.count, c.stream.key))


def _of_stream(stream: Stream, whole: Granularity, floor: int | None) -> list[Constant]:
    rising, falling = stream.rising.runs(), stream.falling.runs()
    own = of_stream(stream)
    granularity = own if own.measured else whole
    if own.step and whole.step and not own.measured and not whole.measured:
        granularity = own if own.step <= whole.step else whole
    found = []
    for value, seen in stream.counts.items()[:8]:
        if seen.count < max(FEWEST, 0.1 * stream.total.requests):
            break
        runs, falls = _sum(rising.get(value)), _sum(falling.get(value))
        days = sorted(rising.get(value, {}))
        hits = stream.total.requests - stream.zeros
        above = hits - sum(other.count for count, other in stream.counts.items() if count <= value)
        constant = Constant(stream, value, seen, granularity, Status.UNDECIDED, runs, falls, days, above)
        if _judge(constant, floor, hits):
            found.append(constant)
    return found


def _sum(days: dict[int, Runs] | None) -> Runs:
    total = Runs()
    for runs in (days or {}).values():
        total.add(runs)
    return total


def _judge(c: Constant, floor: int | None, hits: int) -> bool:
    """Set the status and its reasons; False for a count that is not worth a word."""
    step = c.granularity.safe
    dominates = c.seen.count >= _DOMINATES * hits and c.above <= _ABOVE_SHARE * hits
    is_floor = c.value <= (floor or 0) + 2 * step or c.value <= 512
    table = c.stream.parts
    grows = _grows(c)
    if table is not None and table.requests >= FEWEST:
        part = culprit(table)
        if part is not None and dominates:
            c.part, c.boundaries = part, boundaries(table, part.path, c.value, c.granularity)
            if any(edge.fits for edge in c.boundaries):
                c.status = Status.PINNED
                c.why += _why_part(part)
                c.why += _why_growth(c) if grows else []
                return True
        if part is None and not grows and table.openings >= 0.9 * table.requests and dominates:
            c.status = Status.FLOOR if is_floor else Status.LEGITIMATE
            c.why.append(
                f"{table.openings:,} of {table.requests:,} captured requests open a conversation of their own; what "
                "they share in front has not changed, and is what the count counts"
            )
            return True
    if is_floor:
        return _judge_floor(c, grows, dominates)
    if grows:
        c.why += _why_growth(c)
        c.doubts += _doubts(c)
        c.status = Status.SUSPECTED if c.doubts else Status.PINNED
        return True
    if dominates:
        c.why.append(_no_growth(c))
    return dominates


def _judge_floor(c: Constant, grows: bool, dominates: bool) -> bool:
    c.status = Status.FLOOR
    if grows and dominates:
        c.status = Status.SUSPECTED
        c.why += _why_growth(c)
        c.doubts.append(
            f"{c.value:,} is what the template alone may share: either the very first content varies, or the engine "
            "keeps nothing (cache off, pool overrun)"
        )
    return dominates


def _grows(c: Constant) -> bool:
    """True when conversations rise past the count, by much more than a step of the counts, and do not fall likewise."""
    runs, step = c.runs, c.granularity.safe
    return (
        runs.turns >= FEWEST
        and runs.span >= _SPAN_STEPS * step * runs.runs
        and runs.held >= _HELD_STEPS * step * max(1, runs.held_turns)
        and c.falls.turns <= _MIRROR_SHARE * runs.turns
    )


def _why_growth(c: Constant) -> list[str]:
    runs = c.runs
    mean = runs.held // max(1, runs.held_turns)
    return [
        f"{runs.runs:,} times a conversation of at least 6 turns grew (in all from {runs.smallest:,} to "
        f"{runs.largest:,} prompt tokens, {runs.turns:,} turns) while the count stayed at {c.value:,}; on average "
        f"{mean:,} tokens more had been sent the turn before",
        f"{runs.quick:,} of these turns came within {QUICK_S:.0f} s of the one before, when a prefix is still cached; "
        f"{c.above:,} requests of the stream have a higher count",
        _continuity(c),
    ]


def _continuity(c: Constant) -> str:
    appending = c.stream.rising.appending
    if c.runs.proven:
        return "hashes of the messages show that these requests continue one another"
    if appending.shown:
        return (
            f"prompts grew by what had been answered: in {appending.covered:,} of {appending.n:,} steps by at least "
            f"the answer's length, and more after longer answers (correlation {appending.correlation:.2f})"
        )
    if is_agent(c.stream.client):
        return f"{c.stream.client} is a coding client that appends to its conversations"
    return "whether these requests continue one another is not in the log"


def is_agent(client: str) -> bool:
    """True for clients known to send append-only conversations, by the product of their user agent."""
    return _AGENTS.match(client) is not None


def _why_part(part: PathSeen) -> list[str]:
    compared = (
        f"changed in {part.changed:,} of {part.pairs:,} consecutive requests of a conversation"
        if part.pairs
        else "differs from request to request"
    )
    return [
        f"{part.path} {compared} ({part.distinct:,} hashes in {part.requests:,} requests, "
        f"{_sizes(part)} bytes), while parts behind it did not change"
    ]


def _sizes(part: PathSeen) -> str:
    return f"{part.smallest:,}" if part.smallest == part.largest else f"{part.smallest:,} to {part.largest:,}"


def _doubts(c: Constant) -> list[str]:
    runs = c.runs
    doubts = []
    appending = c.stream.rising.appending
    if not runs.proven and appending.refuted:
        doubts.append(
            f"in {appending.n - appending.covered:,} of {appending.n:,} steps prompts grew by less than the answer "
            "before: these requests do not seem to continue one another, or the client drops most of its answers"
        )
    elif not (runs.proven or appending.shown or is_agent(c.stream.client)):
        doubts.append(
            "nothing shows that these requests continue one another (no capture, no lengths of answers that the "
            "prompts grow by, no client known for it): batches sorted by size look the same"
        )
    elif not runs.proven and runs.runs < 2:
        doubts.append(
            "the prompts rose only once, and nothing proves that they belong together: separate requests sorted by "
            "size look the same"
        )
    if runs.turns < _TURNS_SHARE * c.seen.count:
        doubts.append(f"only {runs.turns:,} of the {c.seen.count:,} requests at {c.value:,} belong to growing sessions")
    if runs.quick < _QUICK_TURNS:
        doubts.append(
            f"only {runs.quick:,} turns came within {QUICK_S:.0f} s of the one before: a pool that loses conversations "
            "between turns, while others keep the front warm, is not ruled out"
        )
    return doubts


def _no_growth(c: Constant) -> str:
    if c.runs.turns and c.falls.turns > _MIRROR_SHARE * c.runs.turns:
        return (
            f"prompts fall as they rise ({c.falls.turns:,} against {c.runs.turns:,} turns): these look like requests "
            "of their own, not like growing sessions; a front that all of them share gives a constant, as it should"
        )
    return (
        "no session is seen to grow past it: requests that each open a conversation over the same system text and "
        "tools have a constant count, as they should; a capture would tell"
    )
