"""Logs of made-up requests, written to files and read back as a user would."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from conformance.forensics.cli import analyse
from conformance.forensics.readers import Reading
from conformance.forensics.report import Finding, Report
from conformance.forensics.request import Request
from conformance.forensics.synthetic import json_line
from conformance.forensics.terminal import as_text


def write_lines(path: Path, requests: Iterable[Request]) -> Path:
    path.write_bytes(b"".join(map(json_line, requests)))
    return path


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def report_of(folder: Path, requests: Iterable[Request], **reading: Any) -> Report:
    return analyse([write_lines(folder / "log.jsonl", requests)], Reading(**reading))


def the_finding(report: Report) -> Finding:
    [finding] = report.findings
    return finding


def flat(report: Report) -> str:
    """The report's text without its line breaks."""
    return " ".join(as_text(report, 80).split())
