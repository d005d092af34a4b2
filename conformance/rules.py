"""The rule registry: `rules.toml`, read once and checked."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import files

from conformance.errors import UsageProblem
from conformance.verdicts import Entry, Vantage

FAMILIES = ("cache", "usage")

ACROSS_RESTART = ("PFX-09", "PFX-14")
"""Rules that also compare what is sent before and after a restart of the target, where there is one."""


@dataclass(frozen=True)
class Authority:
    """Whose word a rule rests on. `link` is empty for the project's own invariants."""

    key: str
    name: str
    link: str


@dataclass(frozen=True)
class Rule:
    """One rule of the catalogue; see the head of `rules.toml` for the fields."""

    id: str
    family: str
    level: str
    evidence: tuple[Vantage, ...]
    entries: tuple[Entry, ...]
    title: str
    statement: str
    witness: str
    cost: str
    authority: tuple[Authority, ...]
    remedy: str

    @property
    def is_must(self) -> bool:
        return self.level == "MUST"

    @property
    def needs_load(self) -> bool:
        """True when only load can decide it: without `--load` it is *not run*, and no exit code asks for it."""
        return self.evidence == (Vantage.LOAD,)


def read_rules(text: str) -> dict[str, Rule]:
    """The rules of a registry's TOML. Raises ValueError or KeyError where a field is wrong or missing."""
    data = tomllib.loads(text)
    authorities = {key: Authority(key, a["name"], a["link"]) for key, a in data["authorities"].items()}
    rules: dict[str, Rule] = {}
    for rule_id, row in data["rules"].items():
        rule = Rule(
            id=rule_id,
            family=row["family"],
            level=row["level"],
            evidence=tuple(Vantage(v) for v in row["evidence"]),
            entries=tuple(Entry(e) for e in row["entries"]),
            title=row["title"],
            statement=row["statement"],
            witness=row.get("witness", ""),
            cost=row["cost"],
            authority=tuple(authorities[key] for key in row["authority"]),
            remedy=row["remedy"],
        )
        if rule.family not in FAMILIES or rule.level not in ("MUST", "SHOULD"):
            raise ValueError(f"rules.toml: {rule_id} has family {rule.family!r}, level {rule.level!r}")
        if not rule.witness.strip():
            raise ValueError(f"rules.toml: {rule_id} names no witness: what does a pass rest on?")
        rules[rule_id] = rule
    return rules


RULES: dict[str, Rule] = read_rules((files("conformance") / "rules.toml").read_text(encoding="utf-8"))
"""Rule id -> rule, in the order of the catalogue."""


def select(globs: Sequence[str]) -> tuple[Rule, ...]:
    """The rules whose id matches one of `globs` (all for none).

    Raises UsageProblem for a glob that matches nothing: a wrong flag must not select zero tests and end green.
    """
    for glob in globs:
        if not any(fnmatchcase(rule_id, glob) for rule_id in RULES):
            raise UsageProblem(f"--rules {glob}: no rule has such an id; --list-rules lists them")
    return tuple(r for r in RULES.values() if not globs or any(fnmatchcase(r.id, glob) for glob in globs))
