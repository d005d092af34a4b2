"""Public traces of LLM traffic, read from a path the user gives: Mooncake, Weka, Azure, and a JSONL of our own.

- Mooncake: JSON lines with `timestamp` (ms), `input_length`, `output_length`, `hash_ids`; blocks of 512 tokens, whose
  ids hold for the whole file.
- Weka (kv-cache-tester): a JSON object with `id`, `block_size` and `requests` (`t` in s, `in`, `out`, `hash_ids`;
  sub-agents hold requests of their own), or a folder of such files; ids hold within a file.
- Azure: CSV with TIMESTAMP, ContextTokens, GeneratedTokens; arrivals and lengths only, nothing of prefixes.
- own: JSON lines with `at` (s), `prompt`, `block`, `ids` and, where there are sessions, `session`; ids hold within a
  session.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from load.errors import LoadProblem


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One request: `at` seconds after the first, `prompt` tokens, whose first blocks of `block` tokens have `ids`.

    Ids are equal where text is equal, within one `scope`; what follows the ids is this request's own.
    """

    at: float
    scope: str
    prompt: int
    output: int
    block: int
    ids: tuple[int, ...]

    @property
    def full(self) -> int:
        """How many of its ids stand for full blocks."""
        return min(len(self.ids), self.prompt // self.block)


@dataclass(frozen=True)
class Trace:
    """All requests in the order of arrival. `block` in tokens, 0 where the trace tells nothing of prefixes."""

    kind: str
    requests: tuple[TraceRequest, ...]

    @property
    def block(self) -> int:
        """The size of its blocks."""
        return self.requests[0].block if self.requests and self.requests[0].ids else 0


@lru_cache(maxsize=2)
def read_trace(path: str, most: int | None = None) -> Trace:
    """The first `most` requests of a trace. Raises `LoadProblem` for a file that is none of the known kinds."""
    place = Path(path)
    try:
        kind, found = _read(place)
    except (OSError, UnicodeDecodeError) as error:
        raise LoadProblem(f"--trace {path}: cannot be read ({type(error).__name__})") from None
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise LoadProblem(f"--trace {path}: a record is not as its kind should be ({type(error).__name__})") from None
    ordered = sorted(found, key=lambda request: request.at)
    if not ordered:
        raise LoadProblem(f"--trace {path}: no request in it")
    first = ordered[0].at
    kept = ordered if most is None else ordered[:most]
    return Trace(kind, tuple(TraceRequest(r.at - first, r.scope, r.prompt, r.output, r.block, r.ids) for r in kept))


def _read(place: Path) -> tuple[str, list[TraceRequest]]:
    if place.is_dir():
        return "weka", [r for file in sorted(place.glob("*.json")) for r in _weka(orjson.loads(file.read_bytes()))]
    with place.open("rb") as file:
        head = file.readline()
    if head.startswith(b"TIMESTAMP,"):
        return "azure", list(_azure(place))
    try:
        first = orjson.loads(head)
    except orjson.JSONDecodeError:
        first = None
    if isinstance(first, dict) and "hash_ids" in first and "timestamp" in first:
        return "mooncake", [_mooncake(row) for row in _lines(place)]
    if isinstance(first, dict) and "ids" in first:
        return "own", [_own(row) for row in _lines(place)]
    whole = orjson.loads(place.read_bytes())
    if isinstance(whole, dict) and "requests" in whole and "block_size" in whole:
        return "weka", list(_weka(whole))
    raise ValueError("none of the known kinds")


def _lines(place: Path) -> Iterator[dict[str, Any]]:
    with place.open("rb") as file:
        for line in file:
            if line.strip():
                yield orjson.loads(line)


def _mooncake(row: dict[str, Any]) -> TraceRequest:
    ids = tuple(row["hash_ids"])
    return TraceRequest(row["timestamp"] / 1000, "", row["input_length"], row["output_length"], 512, ids)


def _own(row: dict[str, Any]) -> TraceRequest:
    scope = str(row.get("session", ""))
    return TraceRequest(row["at"], scope, row["prompt"], row.get("output", 1), row["block"], tuple(row["ids"]))


def _weka(whole: dict[str, Any]) -> Iterator[TraceRequest]:
    block, scope = whole["block_size"], str(whole["id"])
    for row in whole["requests"]:
        for inner in row["requests"] if row["type"] == "subagent" else (row,):
            yield TraceRequest(inner["t"], scope, inner["in"], inner["out"], block, tuple(inner["hash_ids"]))


def _azure(place: Path) -> Iterator[TraceRequest]:
    with place.open(newline="", encoding="utf-8") as file:
        for number, row in enumerate(csv.DictReader(file)):
            at = datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp()
            yield TraceRequest(at, f"r{number}", int(row["ContextTokens"]), int(row["GeneratedTokens"]), 1, ())
