"""The catalogue and what breaks each rule, as text: `--list-rules`, and `docs/rules.md`.

python -m conformance.listing --write docs/rules.md
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap

from conformance import RULE_SET
from conformance.observe.under_load import LOAD_FAULTS
from conformance.rules import RULES, Rule


def rule_listing(rules: tuple[Rule, ...], width: int) -> str:
    """One block per rule, `width` characters wide at most."""
    lines = [f"rule set {RULE_SET}: {len(rules)} of {len(RULES)} rules", ""]
    for rule in rules:
        lines.append(f"{rule.id}  {rule.level}  {rule.family}  on {_entries(rule)}  seen from {_evidence(rule)}")
        lines += _wrapped(rule.title, width)
        lines += _wrapped(f"a pass rests on: {rule.witness}", width)
        always, tools_first, restarted = _faults(rule)
        if always:
            lines += _wrapped(f"broken by: {', '.join(always)}", width)
        if tools_first:
            lines += _wrapped(f"broken, where tools come first in the prompt, by: {', '.join(tools_first)}", width)
        if restarted:
            lines += _wrapped(f"broken, across a restart, by: {', '.join(restarted)}", width)
        if rule.needs_load:
            lines += _wrapped("needs --load: not run without it, and then no exit code asks for it", width)
        lines.append("")
    return "\n".join(lines)


def rule_book() -> str:
    """The whole catalogue in Markdown, as `docs/rules.md` has it."""
    lines = [
        "# Rules",
        "",
        f"Rule set {RULE_SET}, {len(RULES)} rules. Written by `python -m conformance.listing --write docs/rules.md`",
        "from `conformance/rules.toml` and the reference gateway's faults; edit those.",
        "",
        "MUST fails a run, SHOULD warns. *Seen from* names the vantages that can decide a rule, the weakest first; a",
        "rule whose vantage is not given is *not run*. Rules seen from load only are not run without `--load`, and",
        "then no exit code asks for them.",
        "",
        "| rule | level | seen from | the gateway |",
        "|---|---|---|---|",
    ]
    lines += [f"| [{r.id}](#{r.id.lower()}) | {r.level} | {_evidence(r)} | {r.title} |" for r in RULES.values()]
    for rule in RULES.values():
        always, tools_first, restarted = _faults(rule)
        broken = [f"`{name}`" for name in always]
        broken += [f"`{name}` (where tools come first in the prompt)" for name in tools_first]
        broken += [f"`{name}` (across a restart)" for name in restarted]
        authority = ", ".join(f"[{a.name}]({a.link})" if a.link else a.name for a in rule.authority)
        lines += [
            "",
            f"## {rule.id}",
            f"**{rule.title}** ({rule.level}, {rule.family}, on {_entries(rule)}, seen from {_evidence(rule)})",
            "",
            rule.statement,
            "",
            f"- A pass rests on: {rule.witness}",
            f"- What it costs: {rule.cost}",
            f"- Remedy: {rule.remedy}",
            f"- Authority: {authority}",
            f"- Broken by: {', '.join(broken) if broken else 'no fault of the embedded pair'}",
        ]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the catalogue in Markdown, or write it to a file."""
    parser = argparse.ArgumentParser(prog="python -m conformance.listing", description=__doc__)
    parser.add_argument("--write", type=Path, metavar="FILE", help="write it there instead of printing it")
    args = parser.parse_args(argv)
    if args.write is None:
        sys.stdout.write(rule_book())
    else:
        args.write.write_text(rule_book(), encoding="utf-8")
    return 0


def _entries(rule: Rule) -> str:
    return ", ".join(entry.value for entry in rule.entries)


def _evidence(rule: Rule) -> str:
    return " or ".join(vantage.value for vantage in rule.evidence)


def _faults(rule: Rule) -> tuple[list[str], list[str], list[str]]:
    """Names of the faults that always break a rule, of those that do where tools come first, and across a restart."""
    from reference_gateway import FAULTS

    under_load = [name for name, broken in LOAD_FAULTS.items() if rule.id in broken]
    return (
        [fault.name for fault in FAULTS.values() if rule.id in fault.breaks] + under_load,
        [fault.name for fault in FAULTS.values() if rule.id in fault.breaks_if_tools_first],
        [fault.name for fault in FAULTS.values() if rule.id in fault.breaks_across_restart],
    )


def _wrapped(text: str, width: int) -> list[str]:
    return wrap(text, max(width, 40), initial_indent="    ", subsequent_indent="      ", break_on_hyphens=False)


if __name__ == "__main__":
    sys.exit(main())
