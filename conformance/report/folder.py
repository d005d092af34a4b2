"""The folder `--report DIR` fills."""

from __future__ import annotations

from pathlib import Path

from conformance.errors import UsageProblem
from conformance.report import as_html, as_json, as_junit, wording
from conformance.rules import RULES
from conformance.verdicts import Entry, ExitCode, RunReport, Verdict

LEGEND = (
    "Below, what the suite did not send itself is shown by its shape: each letter as a, each digit as 9.\n"
    "Keys are left out."
)


def prepare(directory: Path) -> None:
    """Make the folder, before anything is sent. Raises UsageProblem where it cannot be written to."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe = directory / ".prefixproof-probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UsageProblem(f"--report: cannot write to that folder: {error.strerror}") from None


def write(report: RunReport, code: ExitCode, directory: Path) -> tuple[str, ...]:
    """Write every form of the report; returns the names written, a folder with a slash. Raises OSError.

    Excerpts of an earlier run go first: they would be taken for this run's.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "report.json").write_bytes(as_json.render(report, code))
    (directory / "junit.xml").write_bytes(as_junit.render(report))
    (directory / "report.html").write_bytes(as_html.render(report, code))
    details = directory / "details"
    for rule_id in RULES:
        for entry in Entry:
            (details / f"{rule_id}-{entry}.txt").unlink(missing_ok=True)
    names = ["report.html", "report.json", "junit.xml"]
    for verdict in report.verdicts:
        name = wording.excerpt_file(verdict)
        if name is not None:
            details.mkdir(exist_ok=True)
            (directory / name).write_bytes(detail(verdict).encode("utf-8", errors="backslashreplace"))
            names += [] if "details/" in names else ["details/"]
    return tuple(names)


def detail(verdict: Verdict) -> str:
    """The requests and answers behind a verdict, as text."""
    lines = [f"{verdict.rule} on {verdict.entry}: {verdict.status}", verdict.reason]
    if verdict.change is not None:
        before, after = (wording.printable(side) for side in (verdict.change.before, verdict.change.after))
        lines += [f"changed: {wording.change_line(verdict.change)}", f"  before | {before}", f"  after  | {after}"]
    lines += ["", LEGEND, ""]
    for excerpt in verdict.excerpts:
        lines += [f"=== {excerpt.title}", ""]
        for heading, text in (
            ("request to the target", excerpt.request),
            ("request the upstream saw", excerpt.upstream_request),
            ("answer of the upstream", excerpt.upstream_response),
            ("answer of the target", excerpt.response),
        ):
            if text is not None:
                lines += [f"--- {heading}", text, ""]
    return "\n".join(lines)
