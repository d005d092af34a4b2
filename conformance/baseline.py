"""The baseline: failures of a gateway that its owners know of, so that a run fails on new ones only.

A file lists them one by one, each with a reason a reader can judge:

    [[known]]
    rule = "PFX-02"
    entry = "messages"
    code = "attribution-forwarded"
    reason = "waits for the gateway's next release, ticket 4711"

A known failure stays a failure in every report; it only does not fail the run. It covers that rule, on that entry,
failing in that way (`code`), and nothing else. One that no longer happens is stale and fails the run, so that a list of
excuses cannot outlive its causes.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from conformance.errors import UsageProblem
from conformance.rules import RULES
from conformance.verdicts import BaselineState, Entry, KnownFailure, Stale, Status, Verdict

KEYS = ("rule", "entry", "code", "reason")
HEAD = """\
# Known failures: each is shown in every report and does not fail a run given this file (--baseline).
# One that no longer happens, or happens in another way, fails it. Say in `reason` why each may stay.
"""


@dataclass(frozen=True)
class Baseline:
    """The known failures of one file."""

    entries: tuple[KnownFailure, ...] = ()

    def marked(self, verdict: Verdict) -> Verdict:
        """The verdict, carrying the reason of the entry that covers exactly this failure."""
        if verdict.status in (Status.FAIL, Status.WARN):
            for entry in self.entries:
                if (entry.rule, entry.entry, entry.code) == (verdict.rule, verdict.entry, verdict.code):
                    return replace(verdict, known=entry.reason)
        return verdict

    def state(self, verdicts: Iterable[Verdict]) -> BaselineState:
        """What became of every entry: seen again, stale, or not checked because the rule was not decided here."""
        said = {(v.rule, v.entry): v for v in verdicts}
        seen, stale, unchecked = [], [], []
        for entry in self.entries:
            verdict = said.get((entry.rule, entry.entry))
            if verdict is None or not verdict.status.judged:
                unchecked.append(entry)
            elif verdict.known is not None:
                seen.append(entry)
            else:
                passed = verdict.status is Status.PASS
                stale.append(Stale(entry, "it passes" if passed else f"it fails as {verdict.code} instead"))
        return BaselineState(tuple(seen), tuple(stale), tuple(unchecked))


def read(path: Path) -> Baseline:
    """Read a TOML file, or JSON where the name ends in `.json`. Raises UsageProblem for a file that cannot be meant."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageProblem(
            f"--baseline {path.name}: cannot be read ({error.strerror}); --write-baseline FILE makes one"
        ) from None
    except UnicodeDecodeError:
        raise UsageProblem(f"--baseline {path.name}: not UTF-8 text") from None
    try:
        data: Any = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise UsageProblem(f"--baseline {path.name}: not {kind}: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict) or set(data) - {"known"} or not isinstance(data.get("known", []), list):
        raise UsageProblem(f"--baseline {path.name}: must hold a list `known` and nothing else")
    entries = [_entry(row, f"--baseline {path.name}: entry {i}") for i, row in enumerate(data.get("known", []), 1)]
    places = [(entry.rule, entry.entry) for entry in entries]
    for i, place in enumerate(places):
        if place in places[:i]:
            raise UsageProblem(
                f"--baseline {path.name}: {place[0]} on {place[1]} is listed twice; a rule fails one way"
            )
    return Baseline(tuple(entries))


def _entry(row: Any, where: str) -> KnownFailure:
    if not isinstance(row, dict) or set(row) != set(KEYS):
        raise UsageProblem(f"{where} must have {', '.join(KEYS)} and nothing else")
    if not all(isinstance(row[key], str) and row[key].strip() for key in KEYS):
        raise UsageProblem(f"{where}: every value must be a text that is not empty")
    rule = RULES.get(row["rule"])
    if rule is None:
        raise UsageProblem(f"{where}: there is no rule {row['rule']}; --list-rules lists them")
    if row["entry"] not in tuple(Entry) or Entry(row["entry"]) not in rule.entries:
        judged = " and ".join(entry.value for entry in rule.entries)
        raise UsageProblem(f"{where}: {rule.id} is judged on {judged}, not on {row['entry']}")
    return KnownFailure(rule.id, Entry(row["entry"]), row["code"], row["reason"])


def check_writable(path: Path) -> None:
    """Raises UsageProblem where `write` could not put a file; writes nothing."""
    if path.is_dir() or not path.parent.is_dir():
        raise UsageProblem(f"--write-baseline {path.name}: not a file in a folder that exists")
    try:
        with path.open("a", encoding="utf-8"):
            pass
        if path.stat().st_size == 0:
            path.unlink()
    except OSError as error:
        raise UsageProblem(f"--write-baseline {path.name}: cannot be written: {error.strerror}") from None


def failures_of(verdicts: Sequence[Verdict], baseline: Baseline, day: str) -> Baseline:
    """All failures of a run as a baseline. Reasons already given stay, and so do entries the run could not check."""
    kept = {(e.rule, e.entry, e.code): e for e in baseline.entries}
    found = [
        kept.get(
            (v.rule, v.entry, v.code),
            KnownFailure(
                v.rule, v.entry, v.code, f"written by --write-baseline on {day}: {' '.join(v.reason.split())}"
            ),
        )
        for v in verdicts
        if v.status in (Status.FAIL, Status.WARN)
    ]
    return Baseline((*found, *baseline.state(verdicts).unchecked))


def write(baseline: Baseline, path: Path) -> None:
    """Write the file in the form its name asks for. Raises OSError."""
    rows = [{key: str(getattr(entry, key)) for key in KEYS} for entry in baseline.entries]
    if path.suffix == ".json":
        text = json.dumps({"known": rows}, indent=2, ensure_ascii=True) + "\n"
    else:
        # A JSON string in ASCII is a TOML basic string too.
        tables = ("\n[[known]]\n" + "".join(f"{k} = {_toml(v)}\n" for k, v in row.items()) for row in rows)
        text = HEAD + "".join(tables)
    path.write_text(text, encoding="utf-8")


def _toml(text: str) -> str:
    # Surrogates and DEL have no place in TOML; a target may have put them into a reason.
    return json.dumps("".join(c if c.isprintable() else " " for c in text), ensure_ascii=False)
