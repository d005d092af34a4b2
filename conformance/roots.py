"""Which failure explains which: a consequence is told apart from its root in every report."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.verdicts import Status, Verdict

EXPLAINED_BY: dict[str, tuple[str, ...]] = {
    "PFX-01": ("PFX-09", "PFX-13", "PFX-10", "PFX-08", "PFX-12"),
    "PFX-03": ("PFX-02",),
    "PFX-06": ("CON-01",),
    "PFX-14": ("PFX-09", "PFX-13"),
    "PFX-18": ("ISO-01", "PFX-05"),
    "PFX-19": ("PFX-02", "PFX-09", "PFX-13", "PFX-01"),
    "PIN-01": ("PFX-02", "PFX-09", "PFX-13", "PFX-01"),
    "PIN-03": ("PIN-02",),
    "USE-01": ("STR-04", "STR-03"),
    "USE-02": ("USE-08", "USE-01"),
    "USE-04": ("USE-08", "USE-01"),
    "USE-06": ("USE-01", "USE-05"),
    "USE-07": ("STR-04", "STR-03", "USE-01", "USE-05"),
    "USE-08": ("USE-01",),
    "STR-09": ("STR-07",),
    "AFF-01": ("PFX-13", "PFX-14"),
    "L2-01": ("L2-02", "PFX-13", "PFX-14"),
    "L2-04": ("L2-02", "L2-01"),
    "PIN-04": ("USE-05",),
    "STR-02": ("USE-01",),
    "STR-03": ("STR-04",),
    "CMP-01": ("STR-04", "STR-03", "USE-01", "STR-02"),
    "CNT-01": ("USE-01", "USE-06"),
}
"""Rule id -> rules whose failure on the same entry explains its own, the likeliest first."""

OWN_ROOTS: dict[str, frozenset[str]] = {
    "USE-01": frozenset(
        ("sum-wrong", "cache-read-wrong", "cached-counted-wrong", "total-ignores-prompt", "usage-missing")
    ),
    "CNT-01": frozenset(("fails", "no-count", "count-off")),
    "PFX-06": frozenset(("system-message-moved",)),
    "STR-09": frozenset(("stop-reason",)),
}
"""Rule id -> codes of failures that nothing in `EXPLAINED_BY` explains: they are wrong by themselves."""

ONLY_BY_CODES: dict[tuple[str, str], frozenset[str]] = {("PFX-06", "CON-01"): frozenset(("text-dropped",))}
"""(Rule id, root's id) -> codes of the root that explain the rule; any code explains where there is no entry."""


def link_roots(verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """The same verdicts, each consequence carrying the id of its root."""
    failed = {(v.rule, v.entry): v.code for v in verdicts if v.status in (Status.FAIL, Status.WARN)}

    def explains(rule: str, verdict: Verdict) -> bool:
        code = failed.get((rule, verdict.entry))
        return code is not None and code in ONLY_BY_CODES.get((verdict.rule, rule), (code,))

    def root_of(verdict: Verdict) -> str | None:
        causes = EXPLAINED_BY.get(verdict.rule, ())
        if verdict.code in OWN_ROOTS.get(verdict.rule, ()):
            return None
        return next((rule for rule in causes if explains(rule, verdict)), None)

    linked = []
    for verdict in verdicts:
        root = root_of(verdict) if verdict.status in (Status.FAIL, Status.WARN) else None
        linked.append(verdict.because_of(root) if root else verdict)
    return tuple(linked)
