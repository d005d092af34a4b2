"""Whatever a file holds: every row is used or counted as skipped, and nothing crashes."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import math
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import orjson
import pytest
from forensics_rig import flat, write_lines, write_rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conformance.forensics import synthetic
from conformance.forensics.capture import capture_dict, read_capture
from conformance.forensics.cli import analyse, main
from conformance.forensics.readers import LogFile, Reading
from conformance.forensics.request import Request, Skipped, Unreadable
from conformance.forensics.values import EARLIEST, LATEST, moment, utc_offset, whole

SAME_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**30), 10**30), st.floats(), st.text(max_size=30), st.binary(max_size=5)
)
plain = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**30), 10**30), st.floats(allow_nan=False), st.text(max_size=20)
)
json_values = st.recursive(
    plain,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=8,
)


@given(scalars)
def test_whatever_stands_for_a_count_is_one_or_a_gap_or_skipped(value: Any) -> None:
    try:
        number = whole(value, "prompt tokens")
    except Skipped:
        return
    assert number is None or 0 <= number <= 1_000_000_000


@given(st.integers(0, 1_000_000_000), st.sampled_from(["{}", " {} ", "{}.0", "+{}"]))
def test_counts_survive_how_tables_spell_them(number: int, spelling: str) -> None:
    assert whole(spelling.format(number), "n") == number
    assert whole(float(number), "n") == number


@pytest.mark.parametrize(
    "value", [True, "12,345", "1e3", "12.5", 12.5, math.nan, math.inf, "twelve", [], "-1", -1, 10**12]
)
def test_wrong_types_are_no_counts(value: Any) -> None:
    with pytest.raises(Skipped):
        whole(value, "prompt tokens")


@given(scalars)
def test_whatever_stands_for_a_time_is_one_or_skipped(value: Any) -> None:
    try:
        time, _ = moment(value)
    except Skipped:
        return
    assert EARLIEST <= time < LATEST


@given(
    st.floats(EARLIEST + 86_400, LATEST - 86_400).map(lambda t: round(t, 3)),
    st.integers(-13 * 4, 14 * 4).map(lambda quarters: 900 * quarters),
)
def test_one_moment_in_all_spellings_is_one_moment(time: float, offset: int) -> None:
    local = datetime.fromtimestamp(time, timezone(timedelta(seconds=offset)))
    spellings = [
        (time, "seconds"),
        (str(time), "seconds"),
        (round(time * 1e3), "milliseconds"),
        (str(round(time * 1e6)), "microseconds"),
        (round(time * 1e3) * 10**6, "nanoseconds"),
        (local.isoformat(), "with zone"),
        (datetime.fromtimestamp(time, UTC).isoformat().replace("+00:00", "Z"), "with zone"),
        (datetime.fromtimestamp(time, UTC).strftime("%Y/%m/%d %H:%M:%S.%f UTC"), "with zone"),
        (local.replace(tzinfo=None).isoformat(sep=" "), "without zone"),
    ]
    for spelled, kind in spellings:
        read, said = moment(spelled, offset)
        assert said == kind
        assert read == pytest.approx(time, abs=2e-3)


@pytest.mark.parametrize("text", ["2026-08-17", "17.08.2026 09:25", "yesterday", "2026-13-01 00:00:00", "999", "1e99"])
def test_no_times(text: str) -> None:
    with pytest.raises(Skipped):
        moment(text)


@pytest.mark.parametrize(("text", "seconds"), [("UTC", 0), ("+08:00", 28_800), ("-0530", -19_800), ("+9", 32_400)])
def test_offsets(text: str, seconds: int) -> None:
    assert utc_offset(text) == seconds


@given(
    st.lists(st.dictionaries(st.sampled_from(["time", "prompt_tokens", "cached_tokens", "user"]), plain), max_size=20)
)
@SAME_FOLDER
def test_every_row_of_json_lines_is_used_or_counted(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    head = {"time": 1_786_943_122, "prompt_tokens": 5, "cached_tokens": 1}
    file = LogFile(write_rows(tmp_path / "log.jsonl", [head, *rows]), Reading())
    requests = list(file)
    assert file.rows == len(rows) + 1
    assert len(requests) == file.used == file.rows - file.skips.total
    assert all(0 <= r.cached <= r.prompt for r in requests)


@given(st.lists(st.lists(st.text(max_size=12), max_size=5), max_size=12))
@SAME_FOLDER
def test_every_row_of_a_csv_table_is_used_or_counted(tmp_path: Path, rows: list[list[str]]) -> None:
    text = io.StringIO()
    csv.writer(text).writerows([["time", "prompt_tokens", "cached_tokens"], ["1786943122", "5", "1"], *rows])
    path = tmp_path / "log.csv"
    path.write_bytes(text.getvalue().encode("utf-8", "surrogatepass"))
    file = LogFile(path, Reading())
    assert len(list(file)) == file.used == file.rows - file.skips.total
    assert file.used >= 1


@given(st.binary(max_size=400))
@SAME_FOLDER
def test_any_bytes_are_read_or_refused_with_a_word(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "log.any"
    path.write_bytes(data)
    file = LogFile(path, Reading())
    with contextlib.suppress(Unreadable):
        assert len(list(file)) == file.used
    assert file.used + file.skips.total == file.rows


CAPTURED = capture_dict(synthetic.incident_capture()[0])


@given(json_values)
def test_any_value_in_place_of_a_capture_line_is_read_or_skipped(value: Any) -> None:
    line = CAPTURED
    for name in ("time", "prompt_tokens", "cached_tokens", "parts", "entry", "conversation"):
        try:
            assert isinstance(read_capture({**line, name: value}), Request)
        except Skipped:
            continue
    for name in ("path", "sha", "bytes", "tokens", "role", "fields"):
        part = {"path": "system[0]", "sha": "ab", "bytes": 3, name: value}
        try:
            assert isinstance(read_capture({**line, "parts": [part]}), Request)
        except Skipped:
            continue


def test_a_capture_line_gives_back_its_request() -> None:
    for request in synthetic.incident_capture()[:40]:
        assert read_capture(orjson.loads(orjson.dumps(capture_dict(request)))) == request


def test_a_log_with_gaps_wrong_types_and_mixed_zones_says_what_it_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [synthetic.json_line(r).decode() for r in synthetic.incident_day()]
    rows = [json.loads(line) for line in lines]
    for i, row in enumerate(rows):
        moment_ = datetime.fromtimestamp(row["time"], timezone(timedelta(hours=8)))
        if i % 4 == 1:
            row["time"] = moment_.isoformat()
        elif i % 4 == 2:
            row["time"] = round(row["time"] * 1000)
        elif i % 4 == 3:
            row["time"] = moment_.replace(tzinfo=None).isoformat()
    rows[10]["cached_tokens"] = None
    rows[20]["cached_tokens"] = "many"
    rows[30]["prompt_tokens"] = -5
    rows[40]["time"] = "soon"
    del rows[50]["time"]
    rows[60]["cached_tokens"] = 10**8
    path = tmp_path / "log.jsonl"
    text = [json.dumps(row) for row in rows]
    text[70] = text[70][:40]
    text[80] = "[1, 2]"
    path.write_text("\n".join(text) + "\n")
    assert main([str(path), "--utc-offset", "+08:00"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "902 rows, 894 used, 8 skipped" in out
    for reason in (
        "skipped 1: cached tokens are missing (first in line 11)",
        "skipped 1: cached tokens are no whole number (first in line 21)",
        "skipped 1: prompt tokens are negative (first in line 31)",
        "skipped 1: time is unreadable (first in line 41)",
        "skipped 1: time is missing (first in line 51)",
        "skipped 1: cached tokens exceed prompt tokens (first in line 61)",
        "skipped 1: not JSON (a truncated or garbled line) (first in line 71)",
        "skipped 1: JSON, but no object (first in line 81)",
    ):
        assert reason in out
    assert "in milliseconds" in out
    assert "with zone" in out
    assert "without a zone means UTC+08:00" in out
    assert "exactly 17,920 tokens were cached" in out


def test_gzip_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(map(synthetic.json_line, synthetic.day_after()))))
    assert analyse([path], Reading()).total.requests == 54


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.jsonl", b"", "is empty"),
        ("a.json", b'[{"time": 1}]', "is one JSON array; make it JSON lines: jq -c '.[]' FILE > FILE.jsonl"),
        ("a.txt", b"hello\nworld\n", "is neither JSON lines nor a CSV table"),
        ("a.csv", b"\xff\xfe,b\n1,2\n", "is no UTF-8 text"),
        ("a.csv", b"a,b\n1,2\n", "no column recognised for time, prompt, cached; there are a, b"),
        ("a.jsonl.gz", b"not gzip", "cannot be read"),
        ("a.jsonl", b"{truncated\n", "no line is a JSON object"),
        ("a.csv", b"time,prompt_tokens,cached_tokens\n", "holds no rows"),
        ("a.csv", b"time,prompt_tokens,cached_tokens\nx,1,1\n", "no usable row (a.csv: 1 x time is unreadable)"),
    ],
)
def test_what_cannot_be_read_is_one_line_and_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, data: bytes, said: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    assert main([str(path)]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--nonsense", "x"],
        ["missing.jsonl"],
        ["missing.jsonl", "--columns", "time"],
        ["missing.jsonl", "--columns", "colour=x"],
        ["missing.jsonl", "--split", "tomorrow"],
        ["missing.jsonl", "--utc-offset", "Berlin"],
        ["missing.jsonl", "--split", "2026-08-18T00:00:00Z", "--after", "missing.jsonl"],
    ],
)
def test_wrong_usage_is_exit_2(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(arguments) == 2
    assert "prefixproof-forensics" in capsys.readouterr().err


def test_help_names_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "exit codes: 0 no fault found" in capsys.readouterr().out


def test_a_line_without_end_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformance.forensics.readers.LONGEST_LINE", 1_000)
    path = write_lines(tmp_path / "log.jsonl", synthetic.day_after()[:3])
    with path.open("ab") as file:
        file.write(b'{"x": "' + b"a" * 5_000 + b'"}\n')
        file.write(synthetic.json_line(synthetic.day_after()[4]))
    log = LogFile(path, Reading())
    assert len(list(log)) == 4
    assert log.skips.items() == [("a line too long", 1, 4)]


def test_captures_of_another_form_are_counted(tmp_path: Path) -> None:
    line = capture_dict(synthetic.incident_capture()[0])
    path = write_rows(tmp_path / "c.jsonl", [line, {**line, "capture": "prefixproof-capture/9"}])
    report = analyse([path], Reading())
    assert "not in the form prefixproof-capture/1" in flat(report)
    assert report.total.requests == 1
