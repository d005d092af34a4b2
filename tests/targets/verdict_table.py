"""The summary table of `docs/targets/README.md`: what each target is expected to get, and when it last got it.

The verdicts are `expected.toml`'s own, so that the document cannot say something else; versions and dates are those of
the reports of a run in which every one of them was observed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from expected_verdicts import Expected, Key, rules_of
from gateway_spec import Gateway, TargetsError

from conformance.verdicts import Entry, Status

BEGIN = "<!-- judged: begin -->"
END = "<!-- judged: end -->"

_WORDS = {
    Status.PASS: "pass",
    Status.FAIL: "**fail**",
    Status.WARN: "**warn**",
    Status.INCONCLUSIVE: "open",
    Status.NOT_RUN: "not run",
    Status.NOT_APPLICABLE: "n/a",
    Status.ERROR: "error",
}

Judged = tuple[Gateway, Mapping[str, Any]]


def write_table(path: Path, judged: Sequence[Judged], expected: Mapping[str, Mapping[Key, Expected]]) -> None:
    """Rewrite what stands between the marks. Raises `TargetsError` where they are missing."""
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise TargetsError(f"{path} has no {BEGIN} and {END} to write between")
    listed = {gateway.name: expected[gateway.name] for gateway, _ in judged}
    gateways = [gateway for gateway, _ in judged]
    parts = (runs(judged), verdicts(gateways, listed), reasons(gateways, listed))
    path.write_text(before + BEGIN + "\n" + "\n".join(parts) + END + after, encoding="utf-8")


def runs(judged: Sequence[Judged]) -> str:
    """Versions and dates."""
    rows = [
        (
            f"{gateway.title} {gateway.version}", gateway.licence, report["run"]["started"][:10],
            report["suite"]["rule_set"], report["exit"]["code"], report["run"]["requests_sent"],
            f"{report['run']['seconds']:.0f} s",
        )
        for gateway, report in judged
    ]  # fmt: skip
    return _table(("gateway", "licence", "judged on", "rule set", "exit", "requests", "judged in"), rows)


def verdicts(gateways: Sequence[Gateway], expected: Mapping[str, Mapping[Key, Expected]]) -> str:
    """A row for each rule, a column for each gateway; both entries where they differ."""
    rows = [(rule, *(_cell(rule, expected[g.name]) for g in gateways)) for rule in rules_of(expected.values())]
    return _table(("rule", *(f"{g.title} {g.version}" for g in gateways)), rows)


def _cell(rule: str, cells: Mapping[Key, Expected]) -> str:
    words = [_word(cells[rule, entry]) if (rule, entry) in cells else "" for entry in Entry]
    return words[0] if words[0] == words[1] or not words[1] else f"{words[0] or '-'} / {words[1]}"


def _word(cell: Expected) -> str:
    word = _WORDS[cell.verdict]
    return f"{word} ({cell.root})" if cell.root else word


def reasons(gateways: Sequence[Gateway], expected: Mapping[str, Mapping[Key, Expected]]) -> str:
    """What was seen, where a cell is anything but a pass."""
    lines: list[str] = []
    for gateway in gateways:
        found: dict[str, list[str]] = {}
        for (rule, entry), cell in expected[gateway.name].items():
            if cell.verdict is not Status.PASS:
                where = rule if entry == Entry.MESSAGES else f"{rule} on chat"
                found.setdefault(f"{cell.because} [{cell.seen}]", []).append(where)
        lines += [f"### {gateway.title} {gateway.version}", ""]
        lines += [f"- {', '.join(rules)}: {because}" for because, rules in found.items()] or ["No finding."]
        lines.append("")
    return "\n" + "\n".join(lines)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n" + "\n".join(lines) + "\n"
