"""`--list-rules`: the catalogue and what breaks each rule, as text."""

from __future__ import annotations

from textwrap import wrap

from conformance import RULE_SET
from conformance.rules import RULES, Rule


def rule_listing(rules: tuple[Rule, ...], width: int) -> str:
    """One block per rule, `width` characters wide at most."""
    from reference_gateway import FAULTS

    lines = [f"rule set {RULE_SET}: {len(rules)} of {len(RULES)} rules", ""]
    for rule in rules:
        entries = ", ".join(entry.value for entry in rule.entries)
        evidence = " or ".join(vantage.value for vantage in rule.evidence)
        lines.append(f"{rule.id}  {rule.level}  {rule.family}  on {entries}  seen from {evidence}")
        lines += _wrapped(rule.title, width)
        always = [fault.name for fault in FAULTS.values() if rule.id in fault.breaks]
        if always:
            lines += _wrapped(f"broken by: {', '.join(always)}", width)
        tools_first = [fault.name for fault in FAULTS.values() if rule.id in fault.breaks_if_tools_first]
        if tools_first:
            lines += _wrapped(f"broken, where tools come first in the prompt, by: {', '.join(tools_first)}", width)
        lines.append("")
    return "\n".join(lines)


def _wrapped(text: str, width: int) -> list[str]:
    return wrap(text, max(width, 40), initial_indent="    ", subsequent_indent="      ", break_on_hyphens=False)
