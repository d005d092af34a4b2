"""`junit.xml`: one test case for each rule and entry, with the rule's id, level and verdict as properties."""

from __future__ import annotations

from xml.etree import ElementTree as ET  # only written here, never parsed

from conformance.report import wording
from conformance.rules import RULES, Rule
from conformance.verdicts import RunReport, Status, Verdict


def render(report: RunReport) -> bytes:
    """The report as JUnit XML, UTF-8."""
    verdicts = [(RULES[r.rule], v) for r in wording.in_catalogue_order(report) for v in r.verdicts]
    stale = report.baseline.stale if report.baseline is not None else ()
    counts = {
        "tests": len(verdicts) + (report.problem is not None) + bool(stale),
        "failures": sum(v.status is Status.FAIL and v.known is None for _, v in verdicts) + bool(stale),
        "errors": sum(v.status is Status.ERROR for _, v in verdicts) + (report.problem is not None),
        "skipped": sum(_skipped(v) for _, v in verdicts),
    }
    attributes = {name: str(count) for name, count in counts.items()}
    suites = ET.Element("testsuites", {"name": "prefixproof", **attributes})
    suite = ET.SubElement(
        suites,
        "testsuite",
        {"name": "prefixproof", **attributes, "time": f"{report.seconds:.3f}", "timestamp": report.started},
    )
    run = {
        "suite_version": report.suite_version,
        "rule_set": report.rule_set,
        "target": report.target,
        "model": report.model,
        "budget": report.budget,
        "seed": str(report.seed),
        "fault": report.fault or "",
    }
    _properties(suite, [(name, value) for name, value in run.items() if value])
    if report.problem is not None:
        case = ET.SubElement(suite, "testcase", {"classname": "prefixproof", "name": "run"})
        ET.SubElement(case, "error", {"message": _clean(report.problem)})
    if stale:
        case = ET.SubElement(suite, "testcase", {"classname": "prefixproof", "name": "baseline"})
        lines = [f"{name}: {value}" for name, value in wording.baseline_lines(report)[: len(stale)]]
        message = {"message": f"{len(stale)} stale", "type": "stale"}
        ET.SubElement(case, "failure", message).text = _clean("\n".join(lines))
    for rule, verdict in verdicts:
        _case(suite, rule, verdict)
    ET.indent(suites)
    data: bytes = ET.tostring(suites, encoding="utf-8", xml_declaration=True)
    return data + b"\n"


def properties(rule: Rule, verdict: Verdict) -> list[tuple[str, str]]:
    """What a test case says of a verdict, as names and values; empty values are left out."""
    named = {
        "rule": rule.id,
        "level": rule.level,
        "family": rule.family,
        "entry": verdict.entry.value,
        "status": verdict.status.value,
        "vantage": verdict.vantage.value,
        "requests": str(verdict.n),
        "code": verdict.code,
        "root": verdict.root or "",
        "known": verdict.known or "",
    }
    return [(name, value) for name, value in named.items() if value]


def _case(suite: ET.Element, rule: Rule, verdict: Verdict) -> None:
    name = f"{rule.id}[{verdict.entry}]"
    case = ET.SubElement(suite, "testcase", {"classname": f"prefixproof.{rule.family}", "name": name})
    _properties(case, properties(rule, verdict))
    message = {"message": _clean(verdict.reason)}
    if verdict.known is not None:
        ET.SubElement(case, "skipped", {"message": _clean(f"known {verdict.status}: {verdict.known}")})
        ET.SubElement(case, "system-out").text = _clean(wording.explain(rule, verdict))
    elif verdict.status is Status.FAIL:
        ET.SubElement(case, "failure", {**message, "type": verdict.code or "fail"}).text = _clean(
            wording.explain(rule, verdict)
        )
    elif verdict.status is Status.ERROR:
        ET.SubElement(case, "error", message)
    elif _skipped(verdict):
        ET.SubElement(case, "skipped", {"message": _clean(f"{verdict.status}: {verdict.reason}")})
    elif verdict.status is Status.WARN:
        ET.SubElement(case, "system-out").text = _clean(wording.explain(rule, verdict))


def _skipped(verdict: Verdict) -> bool:
    """True for what is no failure to a CI system, and no pass either."""
    undecided = verdict.status in (Status.INCONCLUSIVE, Status.NOT_RUN, Status.NOT_APPLICABLE)
    return undecided or verdict.known is not None


def _properties(parent: ET.Element, named: list[tuple[str, str]]) -> None:
    holder = ET.SubElement(parent, "properties")
    for name, value in named:
        ET.SubElement(holder, "property", {"name": name, "value": _clean(value)})


def _clean(text: str) -> str:
    """XML 1.0 has no way to write most control characters: they are spelt out."""
    return "\n".join(wording.printable(line) for line in text.split("\n"))
