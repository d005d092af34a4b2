"""What each gateway is expected to get, and how a report differs from that.

`expected.toml` has a table for each gateway and entry: `["litellm-1.108.7".messages]`. A rule is a verdict, or a
verdict with the reason for it and where that was seen:

    PFX-01 = "pass"
    CON-01 = { verdict = "fail", code = "schema-changed", because = "...", seen = "stub" }

`seen = "stub"`: observed without this suite, behind a stub that records requests and answers with known counts.
`seen = "bytes"`: first seen in a report of this suite, and read off the recorded bytes. Rules that are not listed are
not compared.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gateway_spec import TargetsError
from pydantic import BaseModel, ConfigDict, RootModel, ValidationError, model_validator

from conformance.rules import RULES
from conformance.verdicts import Entry, Status

EXPECTED = Path(__file__).parent / "expected.toml"

Key = tuple[str, str]
"""(rule id, entry)"""


class Expected(BaseModel):
    """One cell of the table. `code` is compared only where it is given."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    verdict: Status
    code: str | None = None
    root: str | None = None
    because: str = ""
    seen: Literal["stub", "bytes"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _a_word_alone(cls, value: Any) -> Any:
        return {"verdict": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _anything_but_a_pass_has_a_reason(self) -> Expected:
        if self.verdict is not Status.PASS and not (self.because and self.seen):
            raise ValueError("give `because` and `seen` for everything but a pass")
        return self


class _File(RootModel[dict[str, dict[Entry, dict[str, Expected]]]]):
    pass


@dataclass(frozen=True)
class Difference:
    """A cell of a report that is not as expected."""

    rule: str
    entry: str
    expected: str
    observed: str
    reason: str

    def __str__(self) -> str:
        return f"{self.rule} {self.entry}: expected {self.expected}, observed {self.observed}: {self.reason}"


def load_expected(path: Path = EXPECTED) -> dict[str, dict[Key, Expected]]:
    """gateway -> (rule, entry) -> what is expected. Raises `TargetsError` for a file that is not as it should be."""
    try:
        tables = _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8"))).root
    except (tomllib.TOMLDecodeError, ValidationError) as exc:
        raise TargetsError(f"{path.name}: {exc}") from None
    found = {
        name: {(rule, str(entry)): cell for entry, rules in entries.items() for rule, cell in rules.items()}
        for name, entries in tables.items()
    }
    unknown = sorted({rule for cells in found.values() for rule, _ in cells} - set(RULES))
    if unknown:
        raise TargetsError(f"{path.name}: there is no rule {', '.join(unknown)}")
    return found


def cells(report: Mapping[str, Any]) -> dict[Key, Mapping[str, Any]]:
    """The verdicts of a report.json."""
    return {(rule["id"], verdict["entry"]): verdict for rule in report["rules"] for verdict in rule["verdicts"]}


def differences(expected: Mapping[Key, Expected], report: Mapping[str, Any]) -> list[Difference]:
    """What is listed and was not observed, in the table's order."""
    observed = cells(report)
    return [d for (rule, entry), cell in expected.items() for d in _compare(rule, entry, cell, observed)]


def _compare(rule: str, entry: str, cell: Expected, observed: Mapping[Key, Mapping[str, Any]]) -> Iterator[Difference]:
    seen = observed.get((rule, entry))
    if seen is None:
        yield Difference(rule, entry, cell.verdict.value, "no verdict", "the report has none")
        return
    for name, wanted, got in (
        ("", cell.verdict.value, seen["status"]),
        ("code ", cell.code, seen["code"]),
        ("root ", cell.root, seen["root"]),
    ):
        if got != wanted and (wanted is not None or (name == "root " and cell.verdict is Status.FAIL)):
            yield Difference(rule, entry, f"{name}{wanted}", f"{name}{got}", seen["reason"])
            return


def failures_not_listed(expected: Mapping[Key, Expected], report: Mapping[str, Any]) -> list[Key]:
    """Accusations nobody has looked at: failed or warned rules that the table does not list."""
    accusing = (Status.FAIL.value, Status.WARN.value)
    return [key for key, v in cells(report).items() if v["status"] in accusing and key not in expected]


def rules_of(tables: Iterable[Mapping[Key, Expected]]) -> list[str]:
    """Every rule listed anywhere, in the catalogue's order."""
    listed = {rule for table in tables for rule, _ in table}
    return [rule for rule in RULES if rule in listed]
