"""The one gate between a run and whatever it writes: files, terminal, JUnit, tracebacks.

Two things never pass it: the target's key in any form, and words that are neither the suite's nor those it sent.
Requests and answers were masked where they were made (`conformance.masks`, `conformance.redact`), since only there it
is known which stretches belong to the suite; here the key is taken out of them once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from conformance.keys import Keys
from conformance.redact import hide_secrets
from conformance.verdicts import Change, RunReport, Table, Verdict
from conformance.vocabulary import Vocabulary

T = TypeVar("T")


class Disclosure:
    """What one run may show. `sent` gives the texts the suite sent so far, in a list that only grows."""

    def __init__(self, secrets: Iterable[str | None], sent: Callable[[], Sequence[str]] = tuple) -> None:
        self._keys = Keys(secrets)
        self._vocabulary = Vocabulary(sent)

    def text(self, text: str) -> str:
        """A text of the suite's own making, or one that was masked before: only secrets go."""
        return hide_secrets(self._keys.hide(text))

    def words(self, text: str) -> str:
        """A text that may hold a target's words: secrets go, and words nobody knows show their shape."""
        return self._vocabulary.spoken(self.text(text))

    def verdict(self, verdict: Verdict) -> Verdict:
        """The verdict as it may be shown. Rule, code, counts and status stay as they are."""
        change = verdict.change
        return replace(
            verdict,
            reason=self.words(verdict.reason),
            tables=tuple(map(self._table, verdict.tables)),
            ruled_out=tuple(map(self.words, verdict.ruled_out)),
            change=self._change(change) if change is not None else None,
            excerpts=tuple(map(self.plain, verdict.excerpts)),
        )

    def report(self, report: RunReport) -> RunReport:
        """The report without secrets. Its verdicts have passed `verdict` when they were recorded."""
        return self.plain(report)

    def plain(self, value: T) -> T:
        """Any plain data without secrets: every string in it, however deep. Enumerations stay as they are."""
        shown: Any = self._plain(value)
        result: T = shown
        return result

    def _plain(self, value: Any) -> Any:
        if type(value) is str:
            return self.text(value)
        if isinstance(value, tuple):
            return tuple(map(self._plain, value))
        if isinstance(value, list):
            return list(map(self._plain, value))
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{f.name: self._plain(getattr(value, f.name)) for f in fields(value) if f.init})
        return value

    def _table(self, table: Table) -> Table:
        rows = tuple(tuple(self.words(c) if isinstance(c, str) else c for c in row) for row in table.rows)
        return Table(self.words(table.title), tuple(map(self.words, table.columns)), rows)

    def _change(self, change: Change) -> Change:
        return replace(
            change,
            part=self.words(change.part),
            kind=self.words(change.kind),
            field=self.words(change.field),
            before=self.words(change.before),
            after=self.words(change.after),
        )
