"""Sentences and lines of the terminal's report, shared by its sections."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

NARROWEST, WIDEST = 60, 120


class Page:
    """Lines of at most `width` characters."""

    def __init__(self, width: int) -> None:
        self.width = min(max(width, NARROWEST), WIDEST)
        self._lines: list[str] = []

    def head(self, text: str) -> None:
        """A section begins."""
        folded = textwrap.wrap(text, self.width, break_on_hyphens=False)
        self._lines += ["", *folded, "-" * max(map(len, folded))]

    def line(self, text: str = "", indent: int = 0) -> None:
        """A paragraph, folded."""
        pad = " " * indent
        self._lines += textwrap.wrap(
            text, self.width, initial_indent=pad, subsequent_indent=pad, break_on_hyphens=False
        ) or [""]

    def item(self, text: str, mark: str = "- ", indent: int = 2) -> None:
        """A paragraph with a mark before it, its further lines under its text."""
        pad = " " * indent
        self._lines += textwrap.wrap(
            text, self.width, initial_indent=pad + mark, subsequent_indent=pad + " " * len(mark), break_on_hyphens=False
        )

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]], indent: int = 2) -> None:
        """Columns under heads; the first is text and is cut to fit, the others are numbers."""
        cells = [list(head), *map(list, rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
        room = self.width - indent - sum(widths[1:]) - 2 * (len(head) - 1)
        widths[0] = max(10, min(widths[0], room))
        for row in cells:
            first = row[0] if len(row[0]) <= widths[0] else row[0][: widths[0] - 1] + "…"
            rest = "".join(f"  {cell:>{widths[i + 1]}}" for i, cell in enumerate(row[1:]))
            self._lines.append((" " * indent + first.ljust(widths[0]) + rest).rstrip())

    def text(self) -> str:
        """All of it."""
        return "\n".join(self._lines).lstrip("\n") + "\n"


def tokens(count: int) -> str:
    """`56.69 M`, `18.2 k`, `256`."""
    if count >= 10_000_000_000:
        return f"{count / 1e9:,.2f} G"
    if count >= 1_000_000:
        return f"{count / 1e6:,.2f} M"
    return f"{count / 1e3:,.1f} k" if count >= 10_000 else f"{count:,}"


def rate(value: float) -> str:
    """`83.67 %`."""
    return f"{100 * value:.2f} %"


def share(value: float) -> str:
    """`84.9 %`."""
    return f"{100 * value:.1f} %"


def plural(count: int, name: str) -> str:
    """`1 request`, `2 requests`."""
    return f"{count:,} {name}" + ("" if count == 1 else "s")
