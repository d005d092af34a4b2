"""`--report DIR`, and the properties in pytest's own JUnit file."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from plugin_rig import Rig, Script, verdict

from conformance.report import folder
from conformance.verdicts import Entry, Excerpt, ExitCode, Status

EXCERPT = Excerpt("turn 1", "{}", "{}")
SCRIPT: Script = {
    ("PFX-02", Entry.MESSAGES): verdict(
        "PFX-02", Entry.MESSAGES, Status.FAIL, "kept", code="attribution-kept", excerpts=(EXCERPT,)
    ),
    ("PIN-01", Entry.MESSAGES): verdict("PIN-01", Entry.MESSAGES, Status.FAIL, "pinned", code="pinned", root="PFX-02"),
}


@pytest.fixture
def rig(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(pytester, monkeypatch)


def test_the_folder_is_written_and_named(rig: Rig, tmp_path: Path) -> None:
    result = rig.run("--report", str(tmp_path / "out"), script=SCRIPT)
    assert result.ret == ExitCode.RED
    files = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert files == {"report.json", "report.html", "junit.xml", "details/PFX-02-messages.txt"}
    result.stdout.fnmatch_lines(["report: report.html, report.json, junit.xml, details/ in *"])
    data = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert data["exit"]["code"] == result.ret


def test_pytests_own_junit_file_carries_the_properties(rig: Rig, tmp_path: Path) -> None:
    rig.run("--junitxml", str(tmp_path / "own.xml"), script=SCRIPT)
    root = ET.parse(tmp_path / "own.xml").getroot()  # noqa: S314 - the document is our own
    cases = {case.attrib["name"]: case for case in root.iter("testcase")}
    properties = {
        p.attrib["name"]: p.attrib["value"] for p in cases["test_pin_01[messages]"].findall("properties/property")
    }
    assert properties == {
        "rule": "PIN-01",
        "level": "MUST",
        "family": "cache",
        "entry": "messages",
        "status": "fail",
        "vantage": "client",
        "requests": "3",
        "code": "pinned",
        "root": "PFX-02",
    }


def test_a_folder_that_cannot_be_written_is_found_before_anything_is_sent(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = rig.run("--report", str(tmp_path / "file"))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --report: cannot write to that folder: *"])
    assert rig.runs == []


def test_a_report_that_cannot_be_written_at_the_end_is_a_suite_error(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> tuple[str, ...]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder, "write", full)
    result = rig.run("--report", str(tmp_path))
    assert result.ret == ExitCode.SUITE
    result.stdout.fnmatch_lines(["problem *the report could not be written: No space left on device"])


def test_listing_the_cases_makes_no_folder(rig: Rig, tmp_path: Path) -> None:
    rig.run("--collect-only", "--report", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
