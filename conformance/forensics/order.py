"""Requests in the order of time, whatever order files hold them in, without holding them all.

Most logs are nearly in order: a small buffer mends the rest. Exports are often newest first, and several files overlap:
these are sorted in pieces on disk and merged.
"""

from __future__ import annotations

import heapq
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO

from conformance.forensics.request import Request

BUFFER = 512
"""Requests held back to mend small disorder: logs are written when requests end, in whatever order that is."""

PIECE = 100_000
"""Requests and parts sorted in memory at a time."""

_BATCH = 500

Numbered = tuple[float, int, Request]


class OutOfOrder(Exception):
    """A request is older than one already given: the log must be sorted. `falling`: it is mostly newest first."""

    def __init__(self, falling: bool) -> None:
        super().__init__("the log is not in the order of time")
        self.falling = falling


def nearly_ordered(requests: Iterable[Request]) -> Iterator[Request]:
    """The requests in the order of time. Raises OutOfOrder when that takes more than the buffer."""
    held: list[Numbered] = []
    latest = float("-inf")
    before = float("-inf")
    falls = number = 0
    for number, request in enumerate(requests):
        falls += request.time < before
        before = request.time
        if request.time < latest:
            raise OutOfOrder(falls > number // 2)
        heapq.heappush(held, (request.time, number, request))
        if len(held) > BUFFER:
            latest, _, oldest = heapq.heappop(held)
            yield oldest
    while held:
        yield heapq.heappop(held)[2]


def sorted_on_disk(requests: Iterable[Request], *, falling: bool) -> Iterator[Request]:
    """The requests in the order of time. `falling` turns requests of one second round, as the log's order is."""
    with tempfile.TemporaryFile() as file:
        pieces: list[tuple[int, int]] = []
        piece: list[Numbered] = []
        weight = 0
        for number, request in enumerate(requests):
            piece.append((request.time, -number if falling else number, request))
            weight += 1 + len(request.parts)
            if weight >= PIECE:
                pieces.append(_spill(file, piece))
                piece, weight = [], 0
        if piece:
            pieces.append(_spill(file, piece))
            piece = []
        for _, _, request in heapq.merge(*(_unspilled(file, *span) for span in pieces), key=lambda item: item[:2]):
            yield request


def in_order(requests: Callable[[], Iterable[Request]], use: Callable[[Iterator[Request]], None]) -> bool:
    """Give `use` the requests in the order of time; `requests` may be asked twice, and `use` too, from the start.

    True when the log had to be sorted.
    """
    try:
        use(nearly_ordered(requests()))
    except OutOfOrder as disorder:
        use(sorted_on_disk(requests(), falling=disorder.falling))
        return True
    return False


def _spill(file: IO[bytes], piece: list[Numbered]) -> tuple[int, int]:
    piece.sort(key=lambda item: item[:2])
    start = file.tell()
    for i in range(0, len(piece), _BATCH):
        pickle.dump([(t, n, tuple(r)) for t, n, r in piece[i : i + _BATCH]], file, protocol=5)
    return start, file.tell()


def _unspilled(file: IO[bytes], start: int, end: int) -> Iterator[Numbered]:
    at = start
    while at < end:
        # Pieces take turns on one file: each finds its own place again.
        file.seek(at)
        batch = pickle.load(file)  # noqa: S301  # what `_spill` wrote, in a nameless file of this process
        at = file.tell()
        for time, number, fields in batch:
            yield time, number, Request(*fields)
