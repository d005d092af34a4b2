"""Charts as inline SVG: lines over time, a histogram with marked values, dots of times. No script, nothing fetched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 720
HEIGHT: Final = 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 14, 34
COLOURS: Final = ("#2563eb", "#ea580c", "#059669", "#9333ea", "#64748b", "#dc2626")


@dataclass(frozen=True, slots=True)
class Line:
    """One curve; points are (x, y)."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical line with a word."""

    at: float
    word: str


_LETTER = 5.5
"""Width of a letter of `word`, at most."""


def lines(curves: Sequence[Line], *, percent: bool = False, unit: str = "", marks: Sequence[Mark] = ()) -> str:
    """Curves over seconds; `marks` are phases' beginnings."""
    points = [point for curve in curves for point in curve.points]
    if not points:
        return _empty("nothing measured")
    most_x = max(x for x, _ in points) or 1.0
    most_y = 1.0 if percent else _round_up(max(y for _, y in points))
    body = _frame(most_x, most_y, percent=percent, unit=unit, x_unit="s")
    for place, mark in enumerate(marks):
        x = _x(mark.at, most_x)
        body.append(f'<line class="mark" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{HEIGHT - _BOTTOM}"/>')
        body.append(_word(x, _TOP + 9 + 12 * (place % 4), mark.word))
    for number, curve in enumerate(curves):
        drawn = " ".join(f"{_x(x, most_x):.1f},{_y(y, most_y):.1f}" for x, y in curve.points)
        body.append(f'<polyline fill="none" stroke="{_colour(number)}" stroke-width="2" points="{drawn}"/>')
    return _svg(body) + _legend([curve.name for curve in curves])


def histogram(values: Sequence[int], marks: Sequence[Mark], bars: int = 60) -> str:
    """How often each count occurred, in equal bins, with marked values."""
    if not values:
        return _empty("no counts reported")
    most = max(max(values), 1)
    width = max(1, -(-(most + 1) // bars))
    counts = [0] * (most // width + 1)
    for value in values:
        counts[value // width] += 1
    most_y = _round_up(max(counts))
    body = _frame(most, most_y, percent=False, unit="", x_unit="tokens")
    step = (WIDTH - _LEFT - _RIGHT) / len(counts)
    for number, count in enumerate(counts):
        if count:
            y = _y(count, most_y)
            body.append(
                f'<rect x="{_LEFT + number * step:.1f}" y="{y:.1f}" width="{max(1.0, step - 1):.1f}" '
                f'height="{HEIGHT - _BOTTOM - y:.1f}" fill="{COLOURS[0]}"><title>{number * width:,} to '
                f"{(number + 1) * width - 1:,} tokens: {count:,}</title></rect>"
            )
    for place, mark in enumerate(marks):
        x = _LEFT + (mark.at / width + 0.5) * step
        body.append(f'<line class="pin" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{HEIGHT - _BOTTOM}"/>')
        body.append(_word(x, _TOP + 10 + 12 * (place % 4), mark.word))
    return _svg(body)


def _word(x: float, y: float, word: str) -> str:
    """A word right of a line at `x`, or left of it where the picture ends."""
    if x + 3 + _LETTER * len(word) > WIDTH:
        return f'<text class="word" x="{x - 3:.1f}" y="{y}" text-anchor="end">{escape(word)}</text>'
    return f'<text class="word" x="{x + 3:.1f}" y="{y}">{escape(word)}</text>'


def dots(groups: Sequence[tuple[str, Sequence[float]]], unit: str = "ms") -> str:
    """One row of dots a group, with its median."""
    values = [value for _, row in groups for value in row]
    if not values:
        return _empty("no times seen")
    most = _round_up(max(values))
    body = _frame(most, 1.0, percent=False, unit="", x_unit=unit, rows=len(groups))
    height = (HEIGHT - _TOP - _BOTTOM) / len(groups)
    for number, (name, row) in enumerate(groups):
        y = _TOP + (number + 0.5) * height
        body.append(f'<text class="word" x="4" y="{y + 4:.1f}">{escape(name)}</text>')
        for value in row[:400]:
            body.append(
                f'<circle cx="{_x(value, most):.1f}" cy="{y:.1f}" r="4" fill="{_colour(number)}" opacity="0.45"/>'
            )
        if row:
            middle = sorted(row)[len(row) // 2]
            x = _x(middle, most)
            top, bottom = y - height * 0.35, y + height * 0.35
            body.append(f'<line class="pin" x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{bottom:.1f}"/>')
            body.append(f'<text class="word" x="{x + 5:.1f}" y="{y - height * 0.2:.1f}">{middle:,.0f} {unit}</text>')
    return _svg(body)


def _frame(most_x: float, most_y: float, *, percent: bool, unit: str, x_unit: str, rows: int = 0) -> list[str]:
    bottom = HEIGHT - _BOTTOM
    body = [f'<line class="axis" x1="{_LEFT}" y1="{bottom}" x2="{WIDTH - _RIGHT}" y2="{bottom}"/>']
    for part in () if rows else (0.0, 0.25, 0.5, 0.75, 1.0):
        y = _y(part * most_y, most_y)
        shown = f"{part:.0%}" if percent else _short(part * most_y) + unit
        body.append(f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{WIDTH - _RIGHT}" y2="{y:.1f}"/>')
        body.append(f'<text class="tick" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{shown}</text>')
    for part in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = _x(part * most_x, most_x)
        anchor = "end" if part == 1 else "middle"
        shown = f"{_short(part * most_x)} {x_unit if part == 1 else ''}"
        body.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 16}" text-anchor="{anchor}">{shown}</text>')
    return body


def _svg(body: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(body)}</svg>'


def _legend(names: Sequence[str]) -> str:
    shown = "".join(
        f'<span><i style="background:{_colour(n)}"></i>{escape(name)}</span>' for n, name in enumerate(names)
    )
    return f'<p class="legend">{shown}</p>'


def _empty(why: str) -> str:
    return f'<p class="empty">{escape(why)}</p>'


def _x(value: float, most: float) -> float:
    return _LEFT + (WIDTH - _LEFT - _RIGHT) * value / (most or 1.0)


def _y(value: float, most: float) -> float:
    return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / (most or 1.0)


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _round_up(value: float) -> float:
    """The next 1, 2, 2.5 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** (len(str(int(value))) - 1) if value >= 1 else 10.0**-6
    while power * 10 <= value:
        power *= 10
    return next(power * f for f in (1, 2, 2.5, 5, 10) if power * f >= value)


def _short(value: float) -> str:
    for size, word in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{word}"
    return f"{value:.3g}"
