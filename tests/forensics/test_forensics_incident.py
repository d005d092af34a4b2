"""The incident's day, told from usage alone and from a capture."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from forensics_rig import flat, report_of, the_finding, write_lines

from conformance.forensics import synthetic
from conformance.forensics.cli import main
from conformance.forensics.constants import Status
from conformance.forensics.report import CAPTURE_NEEDED, Report
from conformance.forensics.request import Request
from conformance.forensics.terminal import as_text
from conformance.forensics.values import shown_day


@pytest.fixture(scope="module")
def usage_report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return report_of(tmp_path_factory.mktemp("usage"), synthetic.incident_day())


@pytest.fixture(scope="module")
def capture_report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return report_of(tmp_path_factory.mktemp("capture"), synthetic.incident_capture())


@pytest.fixture(scope="module")
def two_sessions() -> list[Request]:
    """The first two of the day's sessions, captured: enough to name a part, quick to read."""
    return of(synthetic.incident_capture(), synthetic.CLAUDE)[:151]


def of(requests: list[Request], key: tuple[str, str, str, str]) -> list[Request]:
    return [r for r in requests if r.key == key]


def rate(requests: list[Request]) -> str:
    return f"{100 * sum(r.cached for r in requests) / sum(r.prompt for r in requests):.2f}"


def test_the_synthetic_day_has_the_published_figures() -> None:
    day = synthetic.incident_day()
    claude, reasonix, opencode = (of(day, k) for k in (synthetic.CLAUDE, synthetic.REASONIX, synthetic.OPENCODE))
    assert [len(claude), len(reasonix), len(opencode)] == [451, 444, 7]
    assert Counter(r.cached for r in claude) == {0: 28, 256: 40, 17_920: 383}
    assert 40_000 <= min(r.prompt for r in claude) < max(r.prompt for r in claude) <= 180_000
    assert [round(sum(r.prompt for r in g) / 1e6, 2) for g in (claude, reasonix, opencode)] == [48.11, 56.69, 1.32]
    assert [round(sum(r.cached for r in g) / 1e6, 2) for g in (claude, reasonix, opencode)] == [6.87, 47.44, 0.19]
    assert [rate(claude), rate(reasonix), rate(opencode)] == ["14.29", "83.67", "14.31"]
    assert all(r.cached % 256 == 0 and r.cached <= r.prompt for r in day)
    assert shown_day(int(day[0].time // 86_400)) == shown_day(int(day[-1].time // 86_400)) == "2026-08-17"


def test_the_synthetic_day_after_has_the_published_figures() -> None:
    day = synthetic.day_after()
    assert len(day) == 54
    assert rate(day) == "83.09"
    bands = Counter(
        "0" if not r.cached else "256" if r.cached == 256 else (r.cached >= 65_536) + (r.cached >= 131_072) for r in day
    )
    assert bands == {"0": 5, "256": 4, 0: 3, 1: 14, 2: 28}
    pairs = [(r.prompt, r.cached) for r in day]
    assert all(turn in pairs for turn in synthetic.AFTER)


def test_usage_alone_gives_the_constant_the_entry_and_the_day(usage_report: Report) -> None:
    finding = the_finding(usage_report)
    assert finding.status is Status.PINNED
    assert (finding.entry, finding.client, finding.value) == ("/v1/messages", "claude-cli/2.1.116", 17_920)
    assert (finding.requests, finding.of) == (383, 451)
    assert [shown_day(day) for day in finding.days] == ["2026-08-17"]
    assert finding.part is None
    assert finding.part_wanted == CAPTURE_NEEDED
    assert usage_report.code == 1


def test_usage_alone_does_not_name_a_part_or_accuse_the_gateway(usage_report: Report) -> None:
    text = flat(usage_report)
    assert "system[0]" not in text
    assert "cch" not in text
    assert "usage alone does not tell a client, a gateway and an engine apart" in text


def test_granularity_is_measured_and_not_read_off_a_factorisation(usage_report: Report) -> None:
    assert (usage_report.granularity.step, usage_report.granularity.measured) == (256, True)
    finding = the_finding(usage_report)
    assert finding.ends_in == (17_920, 18_176)
    assert "280 x 64 = 140 x 128 = 70 x 256" in finding.factorisations
    assert usage_report.floor == 256


def test_a_constant_alone_does_not_measure_granularity(tmp_path: Path) -> None:
    report = report_of(tmp_path, of(synthetic.incident_day(), synthetic.CLAUDE))
    assert the_finding(report).status is Status.PINNED
    assert report.granularity.measured is False
    assert "granularity: not measured" in flat(report)


def test_what_does_not_add_up_is_printed(usage_report: Report) -> None:
    said = " ".join(usage_report.remainders)
    assert "383 x 17,920 = 6,863,360 of 6,873,600 cached tokens" in said
    assert "would be 16.8 %, which is not the hit rate" in said
    assert "opencode/1.18.33, user-a: 7 requests at 14.31 %" in said
    assert "a pin at 17,920 as on /v1/messages would give 9.50 %, and its mean prompt is above" in said
    assert "51.35 %" in said


def test_other_explanations_are_ruled_out_with_their_numbers(usage_report: Report) -> None:
    said = the_finding(usage_report).ruled_out
    assert [line.partition(" ")[0] for line in said] == ["chance", "compaction", "contention"]
    assert "68 requests (15.1 %)" in said[1]
    assert "stayed at 83.67 % over 444 requests" in said[2]


def test_a_capture_names_system_0_and_cch(capture_report: Report) -> None:
    finding = the_finding(capture_report)
    assert finding.part is not None
    assert (finding.part.path, finding.part.field) == ("system[0]", "cch")
    assert finding.part_wanted is None
    assert "What varies is system[0], the value of `cch`." in flat(capture_report)
    assert [line.endswith(": the constant ends there") for line in finding.part.place] == [True, False]
    assert any(line.startswith("system[2] (Claude Code keeps git status") for line in finding.ruled_out)
    assert any(line.startswith("tools: 1 hash in 451 requests") for line in finding.ruled_out)


def test_without_hashes_of_fields_cch_is_called_a_fit_and_no_proof(tmp_path: Path, two_sessions: list[Request]) -> None:
    requests = [r._replace(parts=tuple(p._replace(fields=()) for p in r.parts)) for r in two_sessions]
    part = the_finding(report_of(tmp_path, requests)).part
    assert part is not None
    assert (part.path, part.field) == ("system[0]", "cch")
    assert "this is a fit, not a proof" in str(part.field_evidence)


@pytest.mark.parametrize(("client", "size"), [("othercli/1.0", 91), ("claude-cli/2.1.116", 4_000)])
def test_where_client_or_length_does_not_fit_only_the_part_is_named(
    tmp_path: Path, two_sessions: list[Request], client: str, size: int
) -> None:
    requests = [
        r._replace(
            client=client,
            parts=tuple(p._replace(fields=(), size=size) if p.path == "system[0]" else p for p in r.parts),
        )
        for r in two_sessions
    ]
    part = the_finding(report_of(tmp_path, requests)).part
    assert part is not None
    assert (part.path, part.field) == ("system[0]", None)


def test_a_capture_whose_parts_are_stable_points_behind_the_capture(
    tmp_path: Path, two_sessions: list[Request]
) -> None:
    requests = [
        r._replace(parts=tuple(p._replace(sha="same", fields=()) if p.path == "system[0]" else p for p in r.parts))
        for r in two_sessions
    ]
    finding = the_finding(report_of(tmp_path, requests))
    assert finding.status is Status.PINNED
    assert finding.part is None
    assert "added behind the capture, by the gateway or its engine" in str(finding.part_wanted)


def test_a_capture_without_token_counts_places_the_part_by_bytes(tmp_path: Path, two_sessions: list[Request]) -> None:
    requests = [r._replace(parts=tuple(p._replace(tokens=None) for p in r.parts)) for r in two_sessions]
    part = the_finding(report_of(tmp_path, requests)).part
    assert part is not None
    assert part.path == "system[0]"


def test_the_first_day_is_the_day_a_user_took_the_client_up(tmp_path: Path) -> None:
    report = report_of(tmp_path, synthetic.first_days())
    finding = the_finding(report)
    assert [shown_day(day) for day in finding.days] == ["2026-08-14"]
    assert finding.onset.from_the_start
    assert not finding.onset.began
    assert [(u.user, u.pinned) for u in finding.users] == [("user-b", False)]
    text = flat(report)
    assert "it came with them, nothing in the log points to a deploy" in text
    assert "other users of the same client, entry and model: user-b" in text


def test_a_change_in_the_middle_is_dated(tmp_path: Path) -> None:
    healthy = synthetic.growing(synthetic.CLAUDE, 6, 40, start=synthetic.AUGUST_14, seed="before")
    pinned = of(synthetic.incident_day(), synthetic.CLAUDE)
    report = report_of(tmp_path, healthy + pinned + synthetic.day_after())
    finding = the_finding(report)
    assert finding.onset.began
    assert finding.onset.before_requests > 200
    assert finding.onset.ended
    assert shown_day(int(finding.onset.first // 86_400)) == "2026-08-17"
    assert "It has ended: the 54 requests after have 83.09 %." in flat(report)


def test_three_sessions_at_once_are_followed(tmp_path: Path) -> None:
    one = of(synthetic.incident_day(), synthetic.CLAUDE)
    mixed = [r._replace(prompt=r.prompt + 700 * i, time=r.time + 7_200 * i + i) for i in range(3) for r in one]
    finding = the_finding(report_of(tmp_path, mixed))
    assert (finding.status, finding.value) == (Status.PINNED, 17_920)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_text_keeps_to_its_width(usage_report: Report, capture_report: Report, width: int) -> None:
    for report in (usage_report, capture_report):
        assert max(map(len, as_text(report, width).splitlines())) <= width


def test_a_clean_day_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(write_lines(tmp_path / "after.jsonl", synthetic.day_after()))]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Nothing found. 54 requests")
    assert "83.09 %" in out
    assert "(pinned: 0)" in out.replace("\n", " ")


def test_json_carries_the_same(tmp_path: Path, two_sessions: list[Request], capsys: pytest.CaptureFixture[str]) -> None:
    path = write_lines(tmp_path / "day.jsonl", two_sessions)
    assert main([str(path), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "prefixproof-forensics/1"
    [finding] = told["findings"]
    assert (finding["status"], finding["value"]) == ("pinned", 17_920)
    assert (finding["part"]["path"], finding["part"]["field"]) == ("system[0]", "cch")


def test_the_order_of_the_rows_does_not_matter(tmp_path: Path, usage_report: Report) -> None:
    backwards = report_of(tmp_path, reversed(synthetic.incident_day()))
    assert backwards.sorted_on_disk
    assert backwards.findings == usage_report.findings
    assert backwards.distributions == usage_report.distributions
