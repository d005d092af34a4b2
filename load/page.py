"""A run as one self-contained HTML page: what a person wants to see first, then the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from load.charts import Line, Mark, dots, histogram, lines
from load.gate import Held
from load.predicting import Prediction, template_floor
from load.record import Point, Record
from load.samples import Sample, Tally

LEAST_PINNED: Final = 6
"""Requests with one exact count before it is marked as pinned."""


def page(
    record: Record,
    *,
    held: Sequence[Held] = (),
    recipe: Sequence[str] = (),
    predicted: Sequence[Prediction] = (),
    live: bool = False,
) -> str:
    """The page; `live` asks the browser to load it again and again."""
    total = record.samples.total()
    said = (
        f"{record.how_many}, {total.prompt:,} prompt tokens, "
        f"hit rate {_share(total.hit_rate)}, {total.errors:,} errors, {record.seconds:.0f} s; "
        f"seed {record.options.seed}"
    )
    if record.early:
        said += f". Ended early: {record.stopped}"
    return _template().render(
        title=f"{record.plan.shape}: cache hit rates under load",
        said=said,
        live=live,
        gate=held,
        recipe=recipe,
        charts=_charts(record),
        tables=[*_tables(record), *_predicted(predicted)],
    )


def _charts(record: Record) -> list[dict[str, str]]:
    marks = _phases(record.series)
    return [
        {"title": "Hit rate by entry", "svg": lines(_entry_rates(record.series), percent=True, marks=marks),
         "says": "Cached over prompt tokens of the requests that ended in each window."},
        {"title": "Hit rate by tier", "svg": lines(_tier_rates(record.series), percent=True, marks=marks),
         "says": "From the engine's metrics: found in L1, and in L2 of what L1 did not have."},
        {"title": "Cached tokens", "svg": histogram(_cached(record.samples.rows), _pins(record)),
         "says": "Red: the template floor, and counts that stay the same while prompts differ."},
        {"title": "L2 bytes", "svg": lines(_bytes(record.series), unit="B", marks=marks),
         "says": "Stored and loaded since the start. A load line at zero beside growing stores is a write-only tier."},
        {"title": "Time to first token", "svg": dots(_ttft(record)),
         "says": "Each dot a request; the red line is the median."},
    ]  # fmt: skip


def _phases(series: Sequence[Point]) -> list[Mark]:
    found, last = [], ""
    for point in series:
        if point.phase and point.phase != last:
            found.append(Mark(point.at, point.phase))
            last = point.phase
    return found


def _steps(series: Sequence[Point]) -> Iterator[tuple[Point, Point]]:
    """Neighbouring points, thinned to about 200, so that a window holds more than a request or two."""
    every = max(1, len(series) // 200)
    kept = [*series[:-1:every], series[-1]] if series else []
    yield from pairwise(kept)


def _entry_rates(series: Sequence[Point]) -> list[Line]:
    found: dict[str, list[tuple[float, float]]] = {}
    for before, after in _steps(series):
        for entry, (prompt, cached) in after.sums.items():
            prompt0, cached0 = before.sums.get(entry, (0, 0))
            if prompt > prompt0:
                found.setdefault(entry, []).append((after.at, (cached - cached0) / (prompt - prompt0)))
    return [Line(entry, tuple(points)) for entry, points in sorted(found.items())]


def _tier_rates(series: Sequence[Point]) -> list[Line]:
    found: dict[str, list[tuple[float, float]]] = {"L1": [], "L2": []}
    for before, after in _steps(series):
        if before.tiers is None or after.tiers is None:
            continue
        delta = after.tiers.since(before.tiers)
        for name, hits, queries in (("L1", "l1_hits", "l1_queries"), ("L2", "l2_hits", "l2_queries")):
            if delta[hits] is not None and delta[queries]:
                found[name].append((after.at, float(delta[hits] or 0) / float(delta[queries] or 1)))
    return [Line(name, tuple(points)) for name, points in found.items() if points]


def _bytes(series: Sequence[Point]) -> list[Line]:
    first = next((p.tiers for p in series if p.tiers is not None), None)
    found: dict[str, list[tuple[float, float]]] = {"stored": [], "loaded": []}
    for point in series:
        if first is None or point.tiers is None:
            continue
        delta = point.tiers.since(first)
        for name, key in (("stored", "store_bytes"), ("loaded", "load_bytes")):
            if delta[key] is not None:
                found[name].append((point.at, max(0.0, float(delta[key] or 0))))
    return [Line(name, tuple(points)) for name, points in found.items() if points]


def _cached(rows: Sequence[Sample]) -> list[int]:
    return [s.cached for s in rows if s.cached is not None and s.cached >= 0 and s.error is None]


def _pins(record: Record) -> list[Mark]:
    rows = [s for s in record.samples.rows if s.cached is not None and s.error is None and s.conversation == "main"]
    floor = template_floor(rows, record.block_size or 1) * (record.block_size or 1)
    marks = [Mark(floor, f"template floor {floor:,}")] if floor else []
    counts = Counter(s.cached for s in rows if s.kind == "turn" and s.cached and s.cached > floor)
    for cached, count in counts.most_common(3):
        prompts = {s.prompt for s in rows if s.cached == cached}
        if count >= LEAST_PINNED and len(prompts) >= LEAST_PINNED:
            marks.append(Mark(cached, f"exactly {cached:,} in {count}"))
    return marks


def _ttft(record: Record) -> list[tuple[str, list[float]]]:
    cold: list[float] = []
    warm: list[float] = []
    back: list[float] = []
    for s in record.samples.rows:
        if s.ttft is None or not s.prompt or s.cached is None or s.error is not None:
            continue
        hit = s.cached >= 0.5 * s.prompt
        group = back if hit and s.phase.startswith("return") else warm if hit else cold
        group.append(1000 * s.ttft)
    groups = [("computed", cold), ("warm (L1)", warm), ("back (L2)", back)]
    return [(name, times) for name, times in groups if times]


def _tables(record: Record) -> list[dict[str, Any]]:
    samples = record.samples
    head = ("", "requests", "errors", "prompt tokens", "cached tokens", "hit rate", "not reported")
    found = []
    for title, place, key in (
        ("Phases", 0, "phase"),
        ("Entries", 1, "entry"),
        ("Clients", 2, "client"),
        ("Kinds", 3, "kind"),
    ):
        rows = [_tally(name, samples.total(**{key: name})) for name in samples.values(place)]
        found.append({"title": title, "head": head, "rows": rows})
    if samples.errors:
        rows = [(text, f"{count:,}") for text, count in sorted(samples.errors.items(), key=lambda item: -item[1])]
        found.append({"title": "Errors", "head": ("what", "requests"), "rows": rows})
    return found


def _predicted(predicted: Sequence[Prediction]) -> list[dict[str, Any]]:
    if not predicted:
        return []
    rows = [(p.phase, f"{p.n:,}", *map(_share, (p.measured, p.endless, p.l1, p.with_l2))) for p in predicted]
    head = ("phase", "requests", "measured", "endless cache", "L1 only", "L1 and L2")
    return [{"title": "Measured and predicted", "head": head, "rows": rows}]


def _tally(name: str, tally: Tally) -> tuple[str, ...]:
    return (
        name, f"{tally.requests:,}", f"{tally.errors:,}", f"{tally.prompt:,}", f"{tally.cached:,}",
        _share(tally.hit_rate), f"{tally.unreported:,}",
    )  # fmt: skip


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2%}"


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("load"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html")
