"""The report as text: the answer first, then what it stands on."""

from __future__ import annotations

from conformance.forensics.changes import Onset
from conformance.forensics.compare import Comparison, Side
from conformance.forensics.constants import Status
from conformance.forensics.report import Distribution, FileRead, Finding, Report, Row
from conformance.forensics.request import DIMENSIONS
from conformance.forensics.values import shown_day, shown_time, utc_offset
from conformance.forensics.wording import Page, plural, rate, share, tokens

SHOWN_SKIPS = 12
MOST_FINDINGS = 8


def as_text(report: Report, width: int) -> str:
    """The whole report in lines of at most `width` characters."""
    page = Page(width)
    page.line(verdict(report))
    _files(page, report)
    _sections(page, report)
    if report.after is not None:
        page.head("After")
        page.line(verdict(report.after))
        _files(page, report.after)
        _sections(page, report.after)
    if report.comparison is not None:
        _comparison(page, report.comparison)
    return page.text()


def verdict(report: Report) -> str:
    """One paragraph: whether a prefix is lost, where, since when, and what names it."""
    pinned = [f for f in report.findings if f.status is Status.PINNED]
    suspected = [f for f in report.findings if f.status is Status.SUSPECTED]
    if report.after is not None:
        return "Before: " + _verdict(report, pinned, suspected)
    return _verdict(report, pinned, suspected)


def _verdict(report: Report, pinned: list[Finding], suspected: list[Finding]) -> str:
    if pinned:
        more = f" ({plural(len(pinned) - 1, 'further stream')} below.)" if len(pinned) > 1 else ""
        return "A lost prefix. " + _told(pinned[0]) + more
    constants = f"{_read(report)}: {rate(report.total.rate)} of prompt tokens were cached"
    if suspected:
        f = suspected[0]
        return (
            f"No fault proven. {constants}. Suspicious: exactly {f.value:,} cached tokens in {f.requests:,} of "
            f"{plural(f.of, 'request')} on {f.entry} ({f.client}); why that is no proof stands below."
        )
    if report.total.cached == 0:
        return f"No hit at all. {constants}: the cache is off, or every prompt differs from its first token on."
    told = f"Nothing found. {constants}, and no count stays constant while conversations grow past it (pinned: 0)."
    if report.findings:
        f = report.findings[0]
        told += f" {_EXCUSED[f.status].format(value=f.value, requests=f.requests, of=f.of, entry=f.entry)}"
    return told


_EXCUSED = {
    Status.FLOOR: "On {entry} {requests:,} of {of:,} requests hit only the template floor ({value:,}): their prompts "
    "have nothing else in common, or nothing is kept for them.",
    Status.LEGITIMATE: "On {entry} {requests:,} of {of:,} requests have exactly {value:,} cached, as they should: each "
    "opens a conversation of its own over the same front.",
    Status.UNDECIDED: "On {entry} {requests:,} of {of:,} requests have exactly {value:,} cached; nothing shows that "
    "conversations grow past it, so it is not called a fault.",
}


def _told(f: Finding) -> str:
    days = f"on {shown_day(f.days[0])}" if len(f.days) == 1 else ""
    if len(f.days) > 1:
        days = f"on {len(f.days)} days from {shown_day(f.days[0])} to {shown_day(f.days[-1])}"
    text = (
        f"On {f.entry} ({f.model}, {f.client}) {days or 'in the log'} exactly {f.value:,} tokens were cached in "
        f"{f.requests:,} of {plural(f.of, 'request')} ({share(f.share)}) while prompts grew from {f.prompt_from:,} to "
        f"{f.prompt_to:,}."
    )
    if f.onset.ended:
        text += f" It has ended: the {f.onset.after_requests:,} requests after have {rate(f.onset.after_rate)}."
    if f.part is not None and f.part.field is not None:
        return f"{text} What varies is {f.part.path}, the value of `{f.part.field}`."
    if f.part is not None:
        return f"{text} What varies is {f.part.path}."
    return f"{text} What comes after about {f.value:,} tokens is not reused: {f.part_wanted}."


def _read(report: Report) -> str:
    return f"{plural(report.total.requests, 'request')} with {report.total.prompt:,} prompt tokens"


def _files(page: Page, report: Report) -> None:
    page.head("Read")
    for file in report.files:
        page.line(
            f"{file.name}: {file.kind}, {file.columns}; {plural(file.rows, 'row')}, {file.used:,} used, "
            f"{file.rows - file.used:,} skipped"
        )
        if file.mapping:
            mapped = ", ".join(f"{name}={'|'.join(paths)}" for name, paths in file.mapping.items())
            page.item(f"columns: {mapped}")
        missing = [name for name in DIMENSIONS if file.mapping and name not in file.mapping]
        if missing:
            page.item(f"no column for {', '.join(missing)}: the log cannot be split by it")
        _times(page, file, report.offset_s)
        for reason, rows, line in file.skipped[:SHOWN_SKIPS]:
            page.item(f"skipped {rows:,}: {reason} (first in line {line:,})")
        for reason, rows, _ in file.skipped:
            if reason == "cached tokens exceed prompt tokens" and rows > 0.01 * file.rows:
                page.item("if this log's prompt counts leave cached tokens out, read it with --prompt-excludes-cached")
    if report.total.requests:
        order = "; not in the order of time, sorted on disk" if report.sorted_on_disk else ""
        page.line(
            f"{shown_time(report.first, report.offset_s)} to {shown_time(report.last, report.offset_s)} "
            f"({_zone(report.offset_s)}){order}"
        )


def _times(page: Page, file: FileRead, offset_s: int) -> None:
    if len(file.times) > 1 or "without zone" in file.times:
        kinds = ", ".join(
            f"{rows:,} {'in ' if kind.endswith('seconds') else ''}{kind}" for kind, rows in file.times.items()
        )
        zone = f"; without a zone means {_zone(offset_s)} (--utc-offset)" if "without zone" in file.times else ""
        page.item(f"times: {kinds}{zone}")


def _zone(offset_s: int) -> str:
    if not offset_s:
        return "UTC"
    sign, rest = ("-", -offset_s) if offset_s < 0 else ("+", offset_s)
    text = f"{sign}{rest // 3600:02}:{rest % 3600 // 60:02}"
    assert utc_offset(text) == offset_s
    return f"UTC{text}"


def _sections(page: Page, report: Report) -> None:
    page.head("Split by dimension")
    page.table(("", "requests", "prompt", "cached", "hit rate"), [_cells(report.total, "all")])
    for spread in report.spreads:
        if len(spread.values) > 1:
            page.line(f"by {spread.dimension}: explains {share(spread.explains)} of the difference in hit rates", 2)
            page.table(
                ("", "requests", "prompt", "cached", "hit rate"), [_cells(row, row.name) for row in spread.values], 4
            )
            if spread.more:
                page.line(f"and {spread.more:,} more", 4)
        else:
            page.line(f"by {spread.dimension}: only {', '.join(row.name for row in spread.values)}", 2)
    _alike(page, report)
    page.head("Distribution of cached counts")
    for distribution in report.distributions:
        _distribution(page, distribution)
    if report.more_streams:
        page.line(f"and {plural(report.more_streams, 'smaller stream')}")
    _steps(page, report)
    for finding in report.findings[:MOST_FINDINGS]:
        _finding(page, finding, report.offset_s)
    if len(report.findings) > MOST_FINDINGS:
        page.line(f"and {plural(len(report.findings) - MOST_FINDINGS, 'more constant')}; --json lists them")
    if report.remainders:
        page.head("Not explained by this")
        for line in report.remainders:
            page.item(line)


def _cells(row: Row, name: str) -> tuple[str, ...]:
    return name, f"{row.requests:,}", tokens(row.prompt), tokens(row.cached), rate(row.rate)


def _alike(page: Page, report: Report) -> None:
    strong = [s.dimension for s in report.spreads if len(s.values) > 1 and s.explains >= 0.1]
    if len(strong) > 1:
        page.line(
            f"{', '.join(strong[:-1])} and {strong[-1]} split alike here: which of them matters, this split alone does "
            "not tell",
            2,
        )


def _distribution(page: Page, d: Distribution) -> None:
    page.line(
        f"{d.stream.name}: {plural(d.stream.requests, 'request')}, prompts {d.prompt_low:,} / {d.prompt_median:,} / "
        f"{d.prompt_high:,} (10, 50, 90 %)"
    )
    least = "" if d.exact else "at least "
    page.item(
        f"cached 0 in {d.zero:,}"
        + "".join(f"; {value:,} in {least}{count:,}" for value, count in d.frequent)
        + f"; in bands: {d.below_64k:,} below 64 k, {d.to_128k:,} to 128 k, {d.from_128k:,} above"
    )


def _steps(page: Page, report: Report) -> None:
    g = report.granularity
    if g.measured:
        of = f"all but {g.odd:,} of" if g.odd else "all"
        page.line(f"granularity: {g.step:,} (divides {of} {g.distinct:,} different counts)")
    elif g.step:
        page.line(
            f"granularity: not measured, {plural(g.distinct, 'different count')} only; it divides {g.step:,} if one "
            "engine served all"
        )
    if report.floor is not None:
        page.line(f"template floor: {report.floor:,}, the smallest count that several requests share")


def _finding(page: Page, f: Finding, offset_s: int) -> None:
    page.head(f"{f.value:,} cached tokens on {f.entry}, {f.client}: {f.status.value}")
    page.line(
        f"{f.requests:,} of {plural(f.of, 'request')} of {f.user} ({share(f.share)}), model {f.model}, prompts from "
        f"{f.prompt_from:,} to {f.prompt_to:,}"
    )
    for line in f.why:
        page.item(line, "because ")
    for line in f.doubts:
        page.item(line, "but ")
    if f.status not in (Status.PINNED, Status.SUSPECTED):
        return
    low, high = f.ends_in
    step = (
        f"{f.granularity.step:,} is the measured step"
        if f.granularity.measured
        else "the step of counts is not measured"
    )
    page.item(f"the shared prefix ends in [{low:,}, {high:,}) tokens; {step}", "where ")
    if " x " in f.factorisations:
        page.item(f"{f.value:,} = {f.factorisations}: factorisations, no evidence of a block size", "where ")
    if f.part is not None:
        named = f"{f.part.path}, the value of `{f.part.field}`" if f.part.field else f.part.path
        page.item(named + (f" ({f.part.field_evidence})" if f.part.field_evidence else ""), "varying ")
        for line in f.part.place:
            page.item(line, "where ")
    if f.part_wanted is not None:
        page.item(f.part_wanted, "open ")
    if f.part is None:
        page.item("usage alone does not tell a client, a gateway and an engine apart", "open ")
    _onset(page, f, f.onset, offset_s)
    for line in f.ruled_out:
        page.item(line, "ruled out ")


def _onset(page: Page, f: Finding, o: Onset, offset_s: int) -> None:
    page.item(f"first {shown_time(o.first, offset_s)}, last {shown_time(o.last, offset_s)}", "when ")
    if o.began:
        page.item(
            f"it began: the {o.before_requests:,} requests of this stream before had {rate(o.before_rate)}, those "
            f"at the constant and between have {rate(o.during_rate)}; look at what changed then",
            "when ",
        )
    elif o.from_the_start and o.stream_first - o.log_first > 3_600:
        whose = "this client's" if o.client_first == o.stream_first else "this user's"
        page.item(
            f"since {whose} first requests on this entry ({shown_time(o.stream_first, offset_s)}; the log begins "
            f"{shown_time(o.log_first, offset_s)}): it came with them, nothing in the log points to a deploy",
            "when ",
        )
    elif o.from_the_start:
        page.item("since the log begins: an earlier log is needed to see what it began with", "when ")
    if o.ended:
        page.item(f"it ended: the {o.after_requests:,} requests after have {rate(o.after_rate)}", "when ")
    if f.users:
        others = "; ".join(
            f"{u.user} {rate(u.rate)} over {u.requests:,}{' (constant too)' if u.pinned else ''}" for u in f.users
        )
        page.item(f"of the same client, entry and model: {others}", "other users ")


def _comparison(page: Page, c: Comparison) -> None:
    page.head("Before and after")
    page.line(
        f"mix of entries and clients: distance {c.distance:.2f} (0 the same, 1 nothing in common)"
        + ("; the sums over everything are not comparable, the rows below are" if c.distance > 0.2 else "")
    )
    rows = []
    for group in c.groups:
        for name, side in (("before", group.before), ("after", group.after)):
            if side is not None:
                rows.append((f"{group.client}, {group.entry}", name, *_side(side)))
    page.table(("", "", "requests", "hit rate", "median", "90 %", "cold"), rows)
    for group in c.groups:
        if group.alike is not None and group.before is not None and group.after is not None:
            state = "did not change" if group.alike else "changed"
            page.item(
                f"{group.entry}, {group.client}: usage itself {state}: prompts {group.before.median:,} and "
                f"{group.after.median:,} (medians), {group.before.high:,} and {group.after.high:,} (90 %), cold starts "
                f"{share(group.before.cold)} and {share(group.after.cold)}"
            )
    for gone in c.gone:
        text = f"pinned at {gone.value:,} on {gone.entry}, {gone.client}: {gone.before:,} before, {gone.after:,} after"
        if gone.rate_after:
            text += (
                f"; its prompts of after give {rate(gone.rate_after)}, pinned they would {rate(gone.rate_if_pinned)}"
            )
        if gone.alike is False:
            text += "; usage changed too, so compare with care"
        page.item(text)


def _side(side: Side) -> tuple[str, ...]:
    return f"{side.requests:,}", rate(side.rate), tokens(side.median), tokens(side.high), share(side.cold)
