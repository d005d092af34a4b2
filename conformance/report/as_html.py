"""`report.html`: one self-contained page, no scripts and nothing fetched."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from conformance.report import wording
from conformance.report.terminal import shown_cell
from conformance.rules import RULES
from conformance.verdicts import Change, ExitCode, RuleResult, RunReport, Status, Verdict


def render(report: RunReport, code: ExitCode) -> bytes:
    """The report as UTF-8 HTML."""
    page = _template().render(
        report=report,
        code=code,
        rules=RULES,
        results=wording.in_catalogue_order(report),
        failures=wording.failures(report),
        open_groups=wording.open_groups(report),
        headline=wording.headline(report),
        baseline=wording.baseline_lines(report),
        evidence=wording.other_verdicts(report),
        wording=wording,
        green=code is ExitCode.GREEN,
    )
    return page.encode("utf-8", errors="backslashreplace")


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("conformance.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        printable=wording.printable, cell=shown_cell, tone=_tone, parts=_parts, excerpts=_excerpts
    )
    return environment.get_template("report.html")


def _tone(said: RuleResult | Status) -> str:
    """The class of colours a verdict, or a rule's, is shown in."""
    status = said if isinstance(said, Status) else Status.WARN if said.known else said.status
    return {Status.PASS: "good", Status.FAIL: "bad", Status.ERROR: "bad", Status.WARN: "warn"}.get(status, "open")


def _parts(change: Change) -> list[tuple[str, str, str, str]]:
    """Both texts of a change as (label, common head, differing middle, common tail)."""
    head, *ends = wording.marked(change)
    return [
        (label, text[:head], text[head:end], text[end:])
        for label, text, end in zip(("before", "after"), (change.before, change.after), ends, strict=True)
    ]


def _excerpts(verdict: Verdict) -> list[tuple[str, list[tuple[str, str]]]]:
    """Every excerpt as its title and (heading, text) pairs, without the sides that were not seen."""
    sides = ("request", "response", "upstream_request", "upstream_response")
    return [
        (e.title, [(side.replace("_", " "), text) for side in sides if (text := getattr(e, side)) is not None])
        for e in verdict.excerpts
    ]
