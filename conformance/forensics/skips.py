"""What was not used, by reason: a report over a log with gaps says how much of it it stands on."""

from __future__ import annotations


class Skips:
    """Counts of rows by reason, with the number of the first line of each."""

    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}

    def add(self, reason: str, line: int) -> None:
        """One more row; `line` counts from 1."""
        self._counts.setdefault(reason, [0, line])[0] += 1

    @property
    def total(self) -> int:
        """All rows not used."""
        return sum(count for count, _ in self._counts.values())

    def items(self) -> list[tuple[str, int, int]]:
        """(reason, rows, first line), most frequent first."""
        rows = [(reason, count, line) for reason, (count, line) in self._counts.items()]
        return sorted(rows, key=lambda row: (-row[1], row[0]))
