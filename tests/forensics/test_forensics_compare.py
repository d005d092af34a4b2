"""Before and after: what changed, and whether usage did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from forensics_rig import flat, write_lines

from conformance.forensics import synthetic
from conformance.forensics.cli import analyse, main
from conformance.forensics.readers import Reading
from conformance.forensics.request import Request, Unreadable
from conformance.forensics.synthetic import CLAUDE, growing


@pytest.fixture
def before(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "before.jsonl", synthetic.incident_day())


@pytest.fixture
def after(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "after.jsonl", synthetic.day_after())


def test_two_files_compare_and_the_later_one_decides(before: Path, after: Path) -> None:
    report = analyse([before], Reading(), after=[after])
    assert report.comparison is not None
    [gone] = report.comparison.gone
    assert (gone.value, gone.before, gone.after) == (17_920, 383, 0)
    assert round(gone.rate_after, 4) == 0.8309
    assert gone.rate_if_pinned < 0.15
    assert report.code == 0
    assert analyse([after], Reading(), after=[before]).code == 1


def test_usage_is_shown_not_to_have_changed(before: Path, after: Path) -> None:
    report = analyse([before], Reading(), after=[after])
    assert report.comparison is not None
    [group] = [g for g in report.comparison.groups if g.client == CLAUDE[2]]
    assert group.alike is True
    assert group.before is not None
    assert group.after is not None
    assert [f"{100 * side.cold:.1f}" for side in (group.before, group.after)] == ["15.1", "16.7"]
    text = flat(report)
    assert "/v1/messages, claude-cli/2.1.116: usage itself did not change" in text
    assert "383 before, 0 after; its prompts of after give 83.09 %, pinned they would" in text
    assert "the sums over everything are not comparable" in text


def test_a_change_of_usage_is_said(tmp_path: Path, before: Path) -> None:
    short = write_lines(tmp_path / "short.jsonl", growing(CLAUDE, 20, 6, start=synthetic.AUGUST_18))
    report = analyse([before], Reading(), after=[short])
    assert "claude-cli/2.1.116: usage itself changed" in flat(report)
    assert "usage changed too, so compare with care" in flat(report)


def test_a_split_is_the_same_as_two_files(tmp_path: Path, before: Path, after: Path) -> None:
    both = tmp_path / "both.jsonl"
    both.write_bytes(after.read_bytes() + before.read_bytes())
    split = analyse([both], Reading(), split=synthetic.AUGUST_18)
    two = analyse([before], Reading(), after=[after])
    assert split.comparison == two.comparison
    assert split.findings == two.findings


def test_the_command_splits_and_speaks_json(
    tmp_path: Path, before: Path, after: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = tmp_path / "both.jsonl"
    both.write_bytes(before.read_bytes() + after.read_bytes())
    assert main([str(both), "--split", "2026-08-18T08:00:00+08:00", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["comparison"]["gone"][0]["after"] == 0
    assert told["after"]["total"]["requests"] == 54


def test_a_split_outside_the_log_is_refused(before: Path) -> None:
    with pytest.raises(Unreadable, match="all usable requests lie on one side"):
        analyse([before], Reading(), split=1e9)


def test_several_files_are_one_log(tmp_path: Path) -> None:
    day: list[Request] = synthetic.incident_day()
    paths = [write_lines(tmp_path / f"{i}.jsonl", day[i::3]) for i in range(3)]
    whole = write_lines(tmp_path / "whole.jsonl", day)
    assert analyse(paths, Reading()).findings == analyse([whole], Reading()).findings
