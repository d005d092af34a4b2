"""Files to requests, one line at a time: CSV, JSON lines, captures; gzip by the name `.gz`."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

import orjson

from conformance.forensics.capture import FORMAT, read_capture
from conformance.forensics.columns import Columns, Row, RowReader, recognise
from conformance.forensics.request import Request, Skipped, Unreadable
from conformance.forensics.skips import Skips

LONGEST_LINE = 64 * 1024 * 1024
"""Bytes; a longer line is no line of a log."""

_DELIMITERS = ",;\t|"
_LOOK = 50
"""JSON lines looked at for the names of columns: a first row may leave some out."""


@dataclass(frozen=True)
class Reading:
    """How files are read: the user's own columns, the zone of times without one, and what users are shown as."""

    columns: Mapping[str, str] | None = None
    excludes_cached: bool = False
    offset_s: int = 0
    label: Callable[[str], str] = str


class LogFile:
    """One file. Iterating it gives its requests; afterwards the counts say what was read and what was not."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self.path = path
        self._reading = reading
        self.kind = ""
        self.columns: Columns | None = None
        self.skips = Skips()
        self.spelled: dict[str, int] = {}
        self.rows = 0
        self.used = 0

    def __iter__(self) -> Iterator[Request]:
        """Raises Unreadable where the whole file is of no use."""
        try:
            with self._open() as file:
                yield from self._requests(file)
        except (OSError, EOFError, zlib.error) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else "the file is damaged"
            raise Unreadable(f"{self.path.name}: cannot be read ({reason})") from None
        if not self.rows:
            raise Unreadable(f"{self.path.name}: holds no rows")

    def _open(self) -> IO[bytes]:
        if self.path.suffix == ".gz":
            return io.BufferedReader(gzip.open(self.path, "rb"))
        return self.path.open("rb")

    def _requests(self, file: IO[bytes]) -> Iterator[Request]:
        lines = _lines(file)
        first = next((line for line in lines if line is not None and line.strip()), b"").removeprefix(b"\xef\xbb\xbf")
        if not first:
            raise Unreadable(f"{self.path.name}: is empty")
        head = first.lstrip()[:1]
        if head == b"[":
            raise Unreadable(f"{self.path.name}: is one JSON array; make it JSON lines: jq -c '.[]' FILE > FILE.jsonl")
        if head == b"{":
            yield from self._json_lines(chain([first], lines))
        else:
            yield from self._table(first, lines)

    def _json_lines(self, lines: Iterator[bytes | None]) -> Iterator[Request]:
        look: list[bytes | None] = []
        names: dict[str, None] = {}
        for line in lines:
            look.append(line)
            value = _object(line)
            if value is not None:
                if str(value.get("capture", "")).startswith("prefixproof-capture/"):
                    yield from self._captured(chain(look, lines))
                    return
                names.update(dict.fromkeys(map(str, value)))
            if len(look) >= _LOOK:
                break
        if not names:
            raise Unreadable(f"{self.path.name}: no line is a JSON object; a CSV table needs a line of column names")
        reader = self._reader("JSON lines", names)
        for line in chain(look, lines):
            if line is not None and not line.strip():
                continue
            self.rows += 1
            value = _object(line)
            if value is None:
                self.skips.add(_why(line), self.rows)
                continue
            yield from self._read(reader.read, value)

    def _captured(self, lines: Iterator[bytes | None]) -> Iterator[Request]:
        self.kind = "capture"
        label = self._reading.label
        for line in lines:
            if line is not None and not line.strip():
                continue
            self.rows += 1
            value = _object(line)
            if value is None:
                self.skips.add(_why(line), self.rows)
            elif value.get("capture") != FORMAT:
                self.skips.add(f"not in the form {FORMAT}", self.rows)
            else:
                yield from self._read(lambda row: read_capture(row, label), value)

    def _table(self, first: bytes, lines: Iterator[bytes | None]) -> Iterator[Request]:
        try:
            head = first.decode()
        except UnicodeDecodeError:
            raise Unreadable(f"{self.path.name}: is no UTF-8 text; save the table as UTF-8") from None
        delimiter = max(_DELIMITERS, key=head.count)
        if delimiter not in head:
            raise Unreadable(f"{self.path.name}: is neither JSON lines nor a CSV table with a line of column names")
        text = (self._decoded(line) for line in lines)
        names = [name.strip() for name in next(csv.reader([head], delimiter=delimiter))]
        reader = self._reader("CSV", names)
        assert self.columns is not None
        wanted = [(name, i) for i, name in enumerate(names) if name in self.columns.roots()]
        width = len(names)
        cells = csv.reader(text, delimiter=delimiter)
        while True:
            try:
                row = next(cells)
            except StopIteration:
                return
            except csv.Error:
                self.rows += 1
                self.skips.add("a malformed CSV row", self.rows + 1)
                continue
            if not row:
                continue
            self.rows += 1
            if len(row) != width:
                self.skips.add("wrong number of columns", self.rows + 1)
            else:
                yield from self._read(reader.read, {name: row[i] for name, i in wanted})

    def _decoded(self, line: bytes | None) -> str:
        if line is None:
            return "\n"
        try:
            return line.decode()
        except UnicodeDecodeError:
            # Replaced, so that the row keeps its place; only a text column can hold it, or its number is unreadable.
            return line.decode(errors="replace")

    def _reader(self, kind: str, names: Mapping[str, None] | list[str]) -> RowReader:
        reading = self._reading
        try:
            self.columns = recognise(names, reading.columns, excludes=reading.excludes_cached)
        except Unreadable as error:
            raise Unreadable(f"{self.path.name}: {error}") from None
        self.kind = kind
        reader = RowReader(self.columns, reading.offset_s, reading.label)
        self.spelled = reader.spelled
        return reader

    def _read(self, read: Callable[[Row], Request], row: Mapping[str, Any]) -> Iterator[Request]:
        try:
            request = read(row)
        except Skipped as reason:
            self.skips.add(str(reason), self.rows + (self.kind == "CSV"))
            return
        self.used += 1
        yield request


def _lines(file: IO[bytes]) -> Iterator[bytes | None]:
    """Lines as bytes; None for one that is too long to be held."""
    while line := file.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            while (rest := file.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
                pass
            yield None
        else:
            yield line


def _object(line: bytes | None) -> dict[str, Any] | None:
    if line is None:
        return None
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _why(line: bytes | None) -> str:
    if line is None:
        return "a line too long"
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return "not JSON (a truncated or garbled line)"
    return "JSON, but no object"
