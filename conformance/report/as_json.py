"""`report.json`: the result for machines, by the schema of docs/report-json.md; every file carries its number."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import asdict
from typing import Any

from conformance.report import wording
from conformance.rules import RULES
from conformance.verdicts import (
    BaselineState,
    Cell,
    ExitCode,
    KnownFailure,
    RuleResult,
    RunReport,
    Status,
    Table,
    Verdict,
)

SCHEMA = "prefixproof-report/1"


def render(report: RunReport, code: ExitCode) -> bytes:
    """The report as indented UTF-8 JSON that ends with a newline."""
    text = json.dumps(document(report, code), ensure_ascii=False, allow_nan=False, indent=2) + "\n"
    # An unpaired surrogate, which a target can send, has no UTF-8 form; its escape is valid JSON.
    return text.encode("utf-8", errors="backslashreplace")


def document(report: RunReport, code: ExitCode) -> dict[str, Any]:
    """The report as plain data, as docs/report-json.md describes it."""
    counts = Counter(result.status for result in report.results)
    return {
        "schema": SCHEMA,
        "suite": {"version": report.suite_version, "rule_set": report.rule_set},
        "run": {
            "target": report.target,
            "model": report.model,
            "entries": [entry.value for entry in report.entries],
            "vantages": [vantage.value for vantage in report.vantages],
            "fault": report.fault,
            "budget": report.budget,
            "seed": report.seed,
            "started": report.started,
            "seconds": round(report.seconds, 3),
            "requests_planned": report.requests_planned,
            "requests_sent": report.requests_sent,
            "prompt_tokens_planned": report.prompt_tokens_planned,
            "prompt_tokens_sent": report.prompt_tokens_sent,
            "prompt_tokens_cap": report.prompt_tokens_cap,
            "engine_requests_sent": report.engine_requests_sent,
            "engine_prompt_tokens_sent": report.engine_prompt_tokens_sent,
            "families": list(report.families),
            "unjudged": list(report.unjudged),
            "unjudged_allowed": list(report.unjudged_allowed),
            "withheld": list(report.withheld),
        },
        "exit": {"code": int(code), "name": code.name.lower(), "meaning": wording.exit_meaning(code, report)},
        "problem": report.problem,
        "summary": {status.value: counts[status] for status in Status},
        "baseline": _baseline(report.baseline),
        "facts": [{"name": fact.name, "value": fact.value} for fact in report.facts],
        "rules": [_rule(result) for result in wording.in_catalogue_order(report)],
    }


def _rule(result: RuleResult) -> dict[str, Any]:
    rule = RULES[result.rule]
    return {
        "id": rule.id,
        "family": rule.family,
        "level": rule.level,
        "title": rule.title,
        "statement": rule.statement,
        "status": result.status.value,
        "root": result.root,
        "requests": result.n,
        "cost": result.cost or rule.cost,
        "remedy": rule.remedy,
        "authority": [{"name": a.name, "link": a.link or None} for a in rule.authority],
        "verdicts": [_verdict(verdict) for verdict in result.verdicts],
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "entry": verdict.entry.value,
        "status": verdict.status.value,
        "reason": verdict.reason,
        "code": verdict.code or None,
        "root": verdict.root,
        "known": verdict.known,
        "vantage": verdict.vantage.value,
        "requests": verdict.n,
        "change": asdict(verdict.change) if verdict.change is not None else None,
        "tables": [_table(table) for table in verdict.tables],
        "ruled_out": list(verdict.ruled_out),
        "excerpts": wording.excerpt_file(verdict),
    }


def _baseline(state: BaselineState | None) -> dict[str, Any] | None:
    if state is None:
        return None
    return {
        "seen": [_known(known) for known in state.seen],
        "stale": [{**_known(stale.known), "seen": stale.seen} for stale in state.stale],
        "unchecked": [_known(known) for known in state.unchecked],
    }


def _known(known: KnownFailure) -> dict[str, str]:
    return {"rule": known.rule, "entry": known.entry.value, "code": known.code, "reason": known.reason}


def _table(table: Table) -> dict[str, Any]:
    return {
        "title": table.title,
        "columns": list(table.columns),
        "rows": [[_finite(cell) for cell in row] for row in table.rows],
    }


def _finite(cell: Cell) -> Cell:
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell
