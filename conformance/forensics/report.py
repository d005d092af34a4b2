"""The result as plain data: what was read, how it splits, what was found, what is left over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from conformance.forensics.changes import Onset, OtherUser, onset, other_users
from conformance.forensics.compare import Comparison, compare
from conformance.forensics.constants import Constant, Status, find_constants, template_floor
from conformance.forensics.granularity import Granularity, factorisations, of_log
from conformance.forensics.readers import LogFile
from conformance.forensics.remainders import remainders
from conformance.forensics.request import DIMENSIONS
from conformance.forensics.ruled_out import ruled_out
from conformance.forensics.sections import varying_field
from conformance.forensics.streams import Log, Stream, Tally

SCHEMA = "prefixproof-forensics/1"
CAPTURE_NEEDED = "a capture is needed to name the part"

SHOWN_VALUES = 12
SHOWN_STREAMS = 12
SHOWN_COUNTS = 4


@dataclass(frozen=True)
class FileRead:
    """One file: its mapping, its rows, and how many were skipped for what."""

    name: str
    kind: str
    columns: str
    mapping: dict[str, list[str]]
    rows: int
    used: int
    skipped: list[tuple[str, int, int]]
    """(reason, rows, first line)."""
    times: dict[str, int]
    """How times were spelled -> rows."""


@dataclass(frozen=True)
class Row:
    """One value of a dimension, or one stream."""

    name: str
    requests: int
    prompt: int
    cached: int
    rate: float


@dataclass(frozen=True)
class Spread:
    """A dimension and its values, by prompt tokens. `explains`: the share of the variance of the hit rate, weighted by
    prompt tokens, that lies between its values."""

    dimension: str
    explains: float
    values: list[Row]
    more: int


@dataclass(frozen=True)
class Distribution:
    """The cached counts of one stream: none, the frequent ones, and bands."""

    stream: Row
    prompt_low: int
    prompt_median: int
    prompt_high: int
    zero: int
    frequent: list[tuple[int, int]]
    below_64k: int
    to_128k: int
    from_128k: int
    exact: bool
    """False where counts of frequent values are lower bounds."""


@dataclass(frozen=True)
class Part:
    """The part of the requests that varies, where a capture names one."""

    path: str
    field: str | None
    field_evidence: str | None
    place: list[str]


@dataclass(frozen=True)
class Finding:
    """One constant, with all that the log says about it."""

    status: Status
    entry: str
    model: str
    client: str
    user: str
    value: int
    requests: int
    of: int
    share: float
    prompt_from: int
    prompt_to: int
    ends_in: tuple[int, int]
    """The shared prefix ends in [first, second)."""
    factorisations: str
    granularity: Granularity
    days: list[int]
    onset: Onset
    users: list[OtherUser]
    part: Part | None
    part_wanted: str | None
    why: list[str]
    doubts: list[str]
    ruled_out: list[str]


@dataclass(frozen=True)
class Report:
    """Everything one run says. `code` is the exit code: 0 no fault, 1 a fault."""

    files: list[FileRead]
    offset_s: int
    first: float
    last: float
    sorted_on_disk: bool
    total: Row
    granularity: Granularity
    floor: int | None
    spreads: list[Spread]
    distributions: list[Distribution]
    more_streams: int
    findings: list[Finding]
    remainders: list[str]
    comparison: Comparison | None
    code: int
    after: Report | None = None
    schema: str = field(default=SCHEMA)


def build(
    files: Sequence[LogFile], log: Log, offset_s: int, *, was_sorted: bool, after: tuple[Sequence[LogFile], Log] | None
) -> Report:
    """The report over `log`. With `after`, that period's own report and the comparison; it then decides the code."""
    granularity = of_log(log)
    floor = template_floor(log, granularity)
    constants = find_constants(log, granularity, floor)
    later = build(*after, offset_s, was_sorted=was_sorted, after=None) if after is not None else None
    code = int(any(c.status is Status.PINNED for c in constants))
    ordered = sorted(log.streams.values(), key=lambda s: -s.total.prompt)
    return Report(
        [_file(file) for file in files],
        offset_s,
        log.first,
        log.last,
        was_sorted,
        _row("all", log.total),
        granularity,
        floor,
        [_spread(log, name) for name in DIMENSIONS],
        [_distribution(stream) for stream in ordered[:SHOWN_STREAMS]],
        max(0, len(ordered) - SHOWN_STREAMS),
        [_finding(c, log, constants) for c in constants],
        remainders(log, constants, granularity),
        compare(log, after[1], constants) if after is not None else None,
        later.code if later is not None else code,
        later,
    )


def _file(file: LogFile) -> FileRead:
    columns = file.columns
    return FileRead(
        file.path.name,
        file.kind,
        columns.name if columns is not None else "a capture of ours",
        {name: list(paths) for name, paths in columns.paths.items()} if columns is not None else {},
        file.rows,
        file.used,
        file.skips.items(),
        dict(sorted(file.spelled.items())),
    )


def _row(name: str, tally: Tally) -> Row:
    return Row(name, tally.requests, tally.prompt, tally.cached, tally.rate)


def _spread(log: Log, dimension: str) -> Spread:
    values = sorted(log.dimensions[dimension].items(), key=lambda item: -item[1].prompt)
    mean, total = log.total.rate, log.total.prompt or 1
    between = sum(tally.prompt * (tally.rate - mean) ** 2 for _, tally in values) / total
    whole = mean * (1 - mean)
    return Spread(
        dimension,
        between / whole if whole else 0.0,
        [_row(name, tally) for name, tally in values[:SHOWN_VALUES]],
        max(0, len(values) - SHOWN_VALUES),
    )


def _distribution(stream: Stream) -> Distribution:
    items = [(value, seen.count) for value, seen in stream.counts.items() if seen.count > 1]
    frequent = sorted(items[:SHOWN_COUNTS])
    low, middle, high = stream.bands
    return Distribution(
        _row(stream.name(), stream.total),
        stream.prompts.at(0.1),
        stream.prompts.at(0.5),
        stream.prompts.at(0.9),
        stream.zeros,
        frequent,
        low - stream.zeros,
        middle,
        high,
        stream.counts.lost == 0,
    )


def _finding(c: Constant, log: Log, constants: list[Constant]) -> Finding:
    stream = c.stream
    part = _part(c)
    suspicious = c.status in (Status.PINNED, Status.SUSPECTED)
    return Finding(
        c.status,
        *stream.key,
        c.value,
        c.seen.count,
        stream.total.requests,
        c.seen.count / stream.total.requests,
        c.seen.smallest,
        c.seen.largest,
        (c.value, c.value + c.granularity.safe),
        factorisations(c.value),
        c.granularity,
        c.days,
        onset(c, log),
        other_users(c, log, constants),
        part,
        _wanted(c, part) if suspicious else None,
        c.why,
        c.doubts,
        ruled_out(c, log, constants) if suspicious else [],
    )


def _part(c: Constant) -> Part | None:
    if c.part is None:
        return None
    name, evidence = varying_field(c.part, c.stream.client)
    place = []
    for edge in c.boundaries:
        verdict = "the constant ends there" if edge.fits else "the constant does not end there"
        place.append(f"rendered {edge.order}, about {edge.tokens:,} tokens stand before {edge.path}: {verdict}")
    return Part(c.part.path, name, evidence, place)


def _wanted(c: Constant, part: Part | None) -> str | None:
    """What is still needed to name what varies."""
    if part is not None:
        return None
    table = c.stream.parts
    if table is None:
        return CAPTURE_NEEDED
    return (
        f"the captured requests do not vary in front ({table.pairs:,} comparisons): what varies is added behind the "
        "capture, by the gateway or its engine; a capture of what the gateway sends upstream is needed to name it"
    )
