"""Which column of a table is what: the exports of new-api and LiteLLM, common names, and what a user says.

A column is written as a dotted path: `other.cache_tokens` is the key `cache_tokens` of the object in the column
`other`, which exports hold as JSON text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from conformance.forensics.request import DIMENSIONS, NOT_GIVEN, Request, Skipped, Unreadable
from conformance.forensics.values import is_gap, moment, whole

FIELDS = ("time", "entry", "model", "client", "user", "session", "prompt", "cached", "created", "answer")
NEEDED = ("time", "prompt", "cached")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Columns:
    """A mapping of fields to columns: for each field the paths to try in order; the first that has a value counts."""

    name: str
    paths: Mapping[str, tuple[str, ...]]
    usable: Callable[[Row], None] = field(default=lambda _: None, repr=False)
    """Raises Skipped for a row that is no finished request."""
    excludes_cached: Callable[[Row], bool] = field(default=lambda _: False, repr=False)
    """True where the row's prompt count leaves cached tokens out (Anthropic's accounting)."""

    def roots(self) -> set[str]:
        """The columns themselves."""
        return {path.partition(".")[0] for paths in self.paths.values() for path in paths} | _FLAGS


_MOST_KEPT = 5_000

_FLAGS = {"type", "status", "cache_hit", "other", "metadata"}


def _new_api_usable(row: Row) -> None:
    # `type` in new-api's table `logs`: 2 is a consumed request, 5 a failed one, the rest are no requests.
    kind = row.get("type")
    if str(kind) == "5":
        raise Skipped("failed request")
    if not is_gap(kind) and str(kind) != "2":
        raise Skipped("no request (another type of log entry)")


def _new_api_excludes(row: Row) -> bool:
    # new-api keeps the upstream's accounting and marks Anthropic's in `other`.
    other = decoded(row.get("other"))
    return isinstance(other, Mapping) and (other.get("claude") is True or other.get("usage_semantic") == "anthropic")


def _litellm_usable(row: Row) -> None:
    if str(row.get("status") or "").lower() in ("failure", "failed", "error"):
        raise Skipped("failed request")
    if str(row.get("cache_hit") or "").lower() == "true":
        raise Skipped("answered by the gateway's own response cache")


NEW_API = Columns(
    "new-api logs",
    {
        "time": ("created_at",),
        "entry": ("other.request_path",),
        "model": ("model_name",),
        "client": ("token_name",),
        "user": ("username", "user_id"),
        "prompt": ("other.input_tokens_total", "prompt_tokens"),
        "cached": ("insight_cache_tokens", "other.cache_tokens"),
        "created": ("other.cache_creation_tokens",),
        "answer": ("completion_tokens",),
    },
    _new_api_usable,
    lambda row: _new_api_excludes(row) and is_gap(lookup(row, "other.input_tokens_total")),
)
LITELLM = Columns(
    "LiteLLM SpendLogs",
    {
        "time": ("startTime",),
        "entry": ("call_type",),
        "model": ("model_group", "model"),
        "client": ("request_tags", "metadata.user_api_key_alias"),
        "user": ("end_user", "user", "metadata.user_api_key_user_id"),
        "session": ("session_id",),
        "prompt": ("prompt_tokens",),
        "cached": (
            "metadata.usage_object.prompt_tokens_details.cached_tokens",
            "metadata.usage_object.cache_read_input_tokens",
            "metadata.additional_usage_values.prompt_tokens_details.cached_tokens",
            "metadata.additional_usage_values.cache_read_input_tokens",
        ),
        "answer": ("completion_tokens",),
    },
    _litellm_usable,
)
COMMON = {
    "time": ("time", "timestamp", "ts", "created_at", "created", "datetime", "start_time", "startTime"),
    "entry": ("entry", "request_path", "path", "endpoint", "route", "call_type"),
    "model": ("model", "alias", "model_name", "model_group", "requested_model"),
    "client": ("client", "user_agent", "token_name", "app"),
    "user": ("user", "username", "user_name", "user_id", "end_user"),
    "session": ("session", "session_id", "conversation_id"),
    "prompt": ("prompt_tokens", "input_tokens_total", "usage.prompt_tokens", "prompt"),
    "cached": (
        "cached_tokens",
        "insight_cache_tokens",
        "prompt_cache_hit_tokens",
        "cache_read_tokens",
        "cache_tokens",
        "prompt_tokens_details.cached_tokens",
        "usage.prompt_tokens_details.cached_tokens",
        "usage.prompt_cache_hit_tokens",
        "cached",
    ),
    "answer": ("completion_tokens", "output_tokens", "usage.completion_tokens", "usage.output_tokens"),
}
ANTHROPIC = {
    "prompt": ("input_tokens", "usage.input_tokens"),
    "cached": ("cache_read_input_tokens", "usage.cache_read_input_tokens"),
    "created": ("cache_creation_input_tokens", "usage.cache_creation_input_tokens"),
}


def recognise(names: Iterable[str], overrides: Mapping[str, str] | None = None, *, excludes: bool = False) -> Columns:
    """The mapping for a table with columns `names`. `overrides` are the user's own; `excludes` says that prompts leave
    cached tokens out. Raises Unreadable when a needed field has no column."""
    have = {name.strip(): None for name in names}
    found = _preset(have)
    paths = {**found.paths, **{name: (path,) for name, path in (overrides or {}).items()}}
    missing = [name for name in NEEDED if not any(path.partition(".")[0] in have for path in paths.get(name, ()))]
    for name, path in (overrides or {}).items():
        if path.partition(".")[0] not in have:
            raise Unreadable(f"--columns {name}={path}: there is no such column; there are {_listed(have)}")
    if missing:
        example = ",".join(f"{name}=COLUMN" for name in missing)
        raise Unreadable(
            f"no column recognised for {', '.join(missing)}; there are {_listed(have)}; "
            f"name them with --columns {example}"
        )
    present = {
        name: kept for name in FIELDS if (kept := tuple(p for p in paths.get(name, ()) if p.partition(".")[0] in have))
    }
    name = f"{found.name}, with --columns" if overrides else found.name
    return Columns(name, present, found.usable, (lambda _: True) if excludes else found.excludes_cached)


def _preset(have: Mapping[str, None]) -> Columns:
    if {"created_at", "model_name"} <= have.keys() and have.keys() & {"quota", "other", "token_name"}:
        return NEW_API
    if "startTime" in have and have.keys() & {"call_type", "model_group", "request_id", "metadata"}:
        return LITELLM
    roots = {path.partition(".")[0] for path in COMMON["prompt"]}
    if "input_tokens" in have and not roots & have.keys():
        return Columns("Anthropic usage fields", {**COMMON, **ANTHROPIC}, excludes_cached=lambda _: True)
    return Columns("common column names", COMMON)


def _listed(have: Iterable[str]) -> str:
    names = [name[:40] for name in have]
    return ", ".join(names[:24]) + (f" and {len(names) - 24} more" if len(names) > 24 else "")


def decoded(value: Any) -> Any:
    """The object in a column: as it is, or out of JSON text; None for anything else."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, str) and value[:1] in "{[" and value:
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
    return None


def lookup(row: Row, path: str) -> Any:
    """The value at a dotted path; None where there is none."""
    root, _, rest = path.partition(".")
    value = row.get(root)
    if not rest:
        return value
    found = decoded(value)
    for name in rest.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(name)
    return found


class RowReader:
    """Rows of one table to requests. Strings are kept once, however often they come."""

    def __init__(self, columns: Columns, offset_s: int, label: Callable[[str], str] = str) -> None:
        self._columns = columns
        self._offset = offset_s
        self._label = label
        self._kept: dict[str, dict[str, str]] = {name: {} for name in DIMENSIONS}
        self._plain = {
            name: paths[0] for name, paths in columns.paths.items() if len(paths) == 1 and "." not in paths[0]
        }
        self.spelled: dict[str, int] = {}
        """How times were written -> rows."""

    def read(self, row: Row) -> Request:
        """The request in a row. Raises Skipped."""
        self._columns.usable(row)
        prompt = whole(self._first(row, "prompt"), "prompt tokens")
        cached = whole(self._first(row, "cached"), "cached tokens")
        if prompt is None:
            raise Skipped("prompt tokens are missing")
        if cached is None:
            # Absent is not zero: an engine that reports nothing says nothing about its cache.
            raise Skipped("cached tokens are missing")
        if self._columns.excludes_cached(row):
            prompt += cached + (whole(self._first(row, "created"), "created tokens") or 0)
        if prompt == 0:
            raise Skipped("prompt tokens are 0")
        if cached > prompt:
            raise Skipped("cached tokens exceed prompt tokens")
        time, spelled = moment(self._first(row, "time"), self._offset)
        self.spelled[spelled] = self.spelled.get(spelled, 0) + 1
        return Request(
            time,
            self._name(row, "entry"),
            self._name(row, "model"),
            self._name(row, "client"),
            self._name(row, "user"),
            self._session(row),
            prompt,
            cached,
            (),
            self._answer(row),
        )

    def _first(self, row: Row, name: str) -> Any:
        plain = self._plain.get(name)
        if plain is not None:
            return row.get(plain)
        for path in self._columns.paths.get(name, ()):
            value = lookup(row, path)
            if not is_gap(value):
                return value
        return None

    def _answer(self, row: Row) -> int | None:
        try:
            return whole(self._first(row, "answer"), "completion tokens")
        except Skipped:
            return None  # it only supports other evidence: a row is not given up for it

    def _name(self, row: Row, name: str) -> str:
        value = self._first(row, name)
        known = self._kept[name]
        if isinstance(value, str):
            kept = known.get(value)
            if kept is not None:
                return kept
        if is_gap(value):
            return NOT_GIVEN
        text = value if isinstance(value, str) else str(value)
        kept = shown_name(name, text)
        if name == "user" and kept != NOT_GIVEN:
            kept = self._label(kept)
        if len(text) <= 400:
            if len(known) > _MOST_KEPT:
                known.clear()
            known[text] = kept
        return kept

    def _session(self, row: Row) -> str:
        value = self._first(row, "session")
        return "" if is_gap(value) else str(value)[:80]


_AGENT_TAG = re.compile(r"User-Agent: ?([^\"',\]]+)")


def shown_name(name: str, text: str) -> str:
    """A dimension's value, fit to be shown: one short line; of a user agent its product, of a path no query."""
    if name == "client":
        tagged = _AGENT_TAG.findall(text)
        # LiteLLM tags a request with the user agent twice: with and without the version.
        text = max(tagged, key=len) if tagged else ("" if text.startswith("[") else text)
        text = text.partition(" (")[0]
    if name == "entry":
        text = text.partition("?")[0]
    clean = "".join(c if c.isprintable() else "?" for c in text.strip())
    return clean[:60] or NOT_GIVEN
