"""The documents of `docs/targets`: what each target is expected to get and why, and when it last got it.

README.md has the summary table, NAME.md each target's findings. The verdicts are `expected.toml`'s own, so that the
documents cannot say something else; versions and dates are those of the reports of a run in which every one of them was
observed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from expected_verdicts import Expected, Key, rules_of
from gateway_spec import Gateway, TargetsError

from conformance.rules import RULES
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

_ENTRIES: dict[str, str] = {Entry.MESSAGES: "M", Entry.CHAT: "C"}
_ORDER = list(RULES)

Judged = tuple[Gateway, Mapping[str, Any]]


def write_documents(path: Path, judged: Sequence[Judged], expected: Mapping[str, Mapping[Key, Expected]]) -> None:
    """Rewrite what stands between the marks of `path`, and each target's page beside it.

    Raises `TargetsError` where the marks are missing.
    """
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise TargetsError(f"{path} has no {BEGIN} and {END} to write between")
    listed = {gateway.name: expected[gateway.name] for gateway, _ in judged}
    gateways = [gateway for gateway, _ in judged]
    parts = (runs(judged), verdicts(gateways, listed))
    path.write_text(before + BEGIN + "\n" + "\n".join(parts) + END + after, encoding="utf-8")
    for gateway in gateways:
        (path.parent / f"{gateway.name}.md").write_text(page(gateway, listed[gateway.name]), encoding="utf-8")


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
    return _table(("rule", *(f"[{g.title} {g.version}]({g.name}.md)" for g in gateways)), rows)


def _cell(rule: str, cells: Mapping[Key, Expected]) -> str:
    words = [_word(cells[rule, entry]) if (rule, entry) in cells else "" for entry in Entry]
    return words[0] if words[0] == words[1] or not words[1] else f"{words[0] or '-'} / {words[1]}"


def _word(cell: Expected) -> str:
    word = _WORDS[cell.verdict]
    return f"{word} ({cell.root})" if cell.root else word


def page(gateway: Gateway, cells: Mapping[Key, Expected]) -> str:
    """One target's document: what was seen wherever a cell is anything but a plain pass, and what passes."""
    rows = [
        (rule, _ENTRIES[entry], _word(cell), f"{cell.because} [{cell.seen}]")
        for (rule, entry), cell in cells.items()
        if cell.because
    ]
    rows.sort(key=_catalogue)
    told = _table(("rule", "entry", "verdict", "what the bytes show"), rows)
    failed = sum(cell.verdict is Status.FAIL and cell.root is None for cell in cells.values())
    start = f"tests/targets/gateways/{gateway.name}.toml"
    lines = [
        f"# {gateway.title} {gateway.version}",
        f"{gateway.licence}; `{gateway.install.requirement}`, started as `{start}` says.",
        f"{len(cells)} verdicts; faults, consequences not counted: {failed}.",
        "",
        "M is `/v1/messages`, C `/v1/chat/completions`. `fail (RULE)` follows from that rule's failure; *open* is",
        "inconclusive. `[stub]` was seen behind a stub without this suite, `[bytes]` in this suite's reports.",
        told,
    ]
    for entry in Entry:
        passed = [rule for (rule, where), cell in cells.items() if where == entry and _plain_pass(cell)]
        lines += [f"Passes on {_ENTRIES[entry]}: {', '.join(sorted(passed, key=_ORDER.index))}.", ""] if passed else []
    return "\n".join(lines).rstrip() + "\n"


def _catalogue(row: tuple[str, str, str, str]) -> tuple[int, bool]:
    return _ORDER.index(row[0]), row[1] == _ENTRIES[Entry.CHAT]


def _plain_pass(cell: Expected) -> bool:
    return cell.verdict is Status.PASS and not cell.because


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n" + "\n".join(lines) + "\n"
