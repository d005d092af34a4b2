"""`thresholds.toml` as a table for docs/statistics.md: each number, what it says and where it comes from."""

from __future__ import annotations

import re
import tomllib

from conformance.errors import PrefixproofError

_LINE = re.compile(r"(\w+) = (\S+?)(?: +# (.+))?")


def thresholds_table(toml: str) -> str:
    """Markdown. Raises PrefixproofError for a threshold without a comment or a source, and for a source of nothing."""
    data = tomllib.loads(toml)
    sources = data.pop("source")
    rows = ["| threshold | value | what it says | source |", "|---|---|---|---|"]
    for section, name, value, says in _commented(toml):
        source = sources.get(section, {}).pop(name, None)
        if not says or not source:
            raise PrefixproofError(f"thresholds.toml: {section}.{name} lacks a comment or its line in [source]")
        rows.append(f"| `{section}.{name}` | {value} | {says} | {source} |")
    left = [f"{section}.{name}" for section, names in sources.items() for name in names]
    if left:
        raise PrefixproofError(f"thresholds.toml: [source] speaks of what is no threshold: {', '.join(left)}")
    return "\n".join(rows)


def _commented(toml: str) -> list[tuple[str, str, str, str]]:
    """(section, name, value, comment) of every threshold, in the file's order; a TOML parser drops comments."""
    found = []
    section = ""
    for line in toml.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif not section.startswith("source") and (parts := _LINE.fullmatch(line.rstrip())):
            found.append((section, parts[1], parts[2], parts[3] or ""))
    return found
