"""The folder `--report DIR` fills."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sample_report import EXCERPT, green, mixed

from conformance.errors import UsageProblem
from conformance.report import folder
from conformance.verdicts import ExitCode


def test_it_holds_every_form_and_the_requests_behind_a_failure(tmp_path: Path) -> None:
    written = folder.write(mixed(), ExitCode.RED, tmp_path / "new")
    assert written == ("report.html", "report.json", "junit.xml", "details/")
    text = (tmp_path / "new" / "details" / "PFX-02-messages.txt").read_text(encoding="utf-8")
    assert text.startswith("PFX-02 on messages: fail\n")
    for part in (EXCERPT.request, EXCERPT.upstream_request, EXCERPT.response):
        assert part is not None
        assert part in text
    assert "answer of the upstream" not in text  # it was not seen


def test_a_second_run_leaves_nothing_of_the_first_and_touches_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "details").mkdir()
    (tmp_path / "details" / "mine.txt").write_text("mine")
    folder.write(mixed(), ExitCode.RED, tmp_path)
    assert folder.write(green(), ExitCode.GREEN, tmp_path) == ("report.html", "report.json", "junit.xml")
    assert [path.name for path in (tmp_path / "details").iterdir()] == ["mine.txt"]


def test_a_folder_that_cannot_be_made_is_a_usage_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageProblem, match="--report: cannot write to that folder: "):
        folder.prepare(tmp_path / "file" / "out")
    folder.prepare(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_odd_characters_of_a_target_can_be_written(tmp_path: Path) -> None:
    report = mixed()
    odd = tuple(
        replace(v, excerpts=tuple(replace(e, response="\ud800 \x00") for e in v.excerpts)) for v in report.verdicts
    )
    folder.write(replace(report, verdicts=odd), ExitCode.RED, tmp_path)
    assert b"\\ud800" in (tmp_path / "details" / "PFX-02-messages.txt").read_bytes()
