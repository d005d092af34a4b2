"""Exports of gateways: which columns are what, whose accounting the counts follow, what is no request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from forensics_rig import flat, write_rows

from conformance.forensics.cli import analyse, main
from conformance.forensics.columns import LITELLM, NEW_API, RowReader, recognise, shown_name
from conformance.forensics.readers import LogFile, Reading
from conformance.forensics.request import Request, Skipped, Unreadable

NEW_API_ROW: dict[str, Any] = {
    "id": 7,
    "user_id": 417,
    "created_at": 1_786_943_122,
    "type": 2,
    "username": "ann",
    "token_name": "claude-code",
    "model_name": "llm-prime",
    "quota": 10,
    "prompt_tokens": 106_667,
    "completion_tokens": 412,
    "channel": 5,
    "other": json.dumps({"cache_tokens": 17_920, "request_path": "/v1/messages", "model_ratio": 1.0}),
}
LITELLM_ROW: dict[str, Any] = {
    "request_id": "r1",
    "call_type": "anthropic_messages",
    "startTime": "2026-08-17T09:25:22.123000",
    "model": "hosted_vllm/llm-prime",
    "model_group": "llm-prime",
    "user": "ann",
    "end_user": "",
    "status": "success",
    "cache_hit": "None",
    "session_id": "s1",
    "prompt_tokens": 106_667,
    "completion_tokens": 412,
    "request_tags": '["User-Agent: claude-cli", "User-Agent: claude-cli/2.1.116"]',
    "metadata": json.dumps({"usage_object": {"prompt_tokens_details": {"cached_tokens": 17_920}}}),
}


def read(row: dict[str, Any], **options: Any) -> Request:
    return RowReader(recognise(row, **options), 0).read(row)


def test_new_apis_logs_are_recognised() -> None:
    assert recognise(NEW_API_ROW).name == NEW_API.name
    assert read(NEW_API_ROW) == Request(
        1_786_943_122.0, "/v1/messages", "llm-prime", "claude-code", "ann", "", 106_667, 17_920, (), 412
    )


def test_a_column_of_its_own_for_cached_tokens_goes_before_the_object() -> None:
    assert read({**NEW_API_ROW, "insight_cache_tokens": 256}).cached == 256
    assert read({**NEW_API_ROW, "insight_cache_tokens": ""}).cached == 17_920


def test_new_apis_mark_of_anthropics_accounting_is_followed() -> None:
    other = {"cache_tokens": 900, "cache_creation_tokens": 30, "claude": True}
    assert read({**NEW_API_ROW, "prompt_tokens": 100, "other": json.dumps(other)}).prompt == 1_030
    total = {**other, "input_tokens_total": 1_030}
    assert read({**NEW_API_ROW, "prompt_tokens": 100, "other": json.dumps(total)}).prompt == 1_030
    del other["claude"]
    assert read({**NEW_API_ROW, "prompt_tokens": 1_000, "other": json.dumps(other)}).prompt == 1_000


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"type": 5}, "failed request"),
        ({"type": "1"}, "no request (another type of log entry)"),
        ({"other": "{}"}, "cached tokens are missing"),
        ({"other": "not json"}, "cached tokens are missing"),
        ({"prompt_tokens": 0}, "prompt tokens are 0"),
        ({"prompt_tokens": 12}, "cached tokens exceed prompt tokens"),
        ({"created_at": 17}, "time is out of range"),
    ],
)
def test_rows_of_new_api_that_are_no_evidence_are_skipped(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(Skipped) as skipped:
        read({**NEW_API_ROW, **change})
    assert str(skipped.value) == reason


def test_litellms_spend_logs_are_recognised() -> None:
    assert recognise(LITELLM_ROW).name == LITELLM.name
    request = read(LITELLM_ROW)
    assert request[1:] == (
        "anthropic_messages",
        "llm-prime",
        "claude-cli/2.1.116",
        "ann",
        "s1",
        106_667,
        17_920,
        (),
        412,
    )


@pytest.mark.parametrize(
    "metadata",
    [
        {"additional_usage_values": {"cache_read_input_tokens": 17_920}},
        {"additional_usage_values": {"prompt_tokens_details": {"cached_tokens": 17_920}}},
        {"usage_object": {"cache_read_input_tokens": 17_920, "prompt_tokens_details": None}},
    ],
)
def test_litellm_keeps_cached_tokens_in_several_places(metadata: dict[str, Any]) -> None:
    assert read({**LITELLM_ROW, "metadata": json.dumps(metadata)}).cached == 17_920
    assert read({**LITELLM_ROW, "metadata": metadata}).cached == 17_920


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"status": "failure"}, "failed request"),
        ({"cache_hit": "True"}, "answered by the gateway's own response cache"),
        ({"metadata": {"usage_object": {"prompt_tokens_details": None}}}, "cached tokens are missing"),
    ],
)
def test_rows_of_litellm_that_are_no_evidence_are_skipped(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(Skipped) as skipped:
        read({**LITELLM_ROW, **change})
    assert str(skipped.value) == reason


def test_anthropics_usage_fields_leave_cached_tokens_out_of_the_input() -> None:
    row = {"timestamp": 1_786_943_122, "input_tokens": 100, "cache_read_input_tokens": 900}
    assert read(row).prompt == 1_000
    assert read({**row, "cache_creation_input_tokens": 50}).prompt == 1_050


def test_the_user_can_say_that_prompts_leave_cached_tokens_out() -> None:
    row = {"time": 1_786_943_122, "prompt_tokens": 100, "cached_tokens": 900}
    assert read(row, excludes=True).prompt == 1_000


def test_the_users_own_columns_win() -> None:
    row = {"at": 1_786_943_122, "in": 1_000, "u": {"c": 640}, "model": "m", "prompt_tokens": 3}
    request = read(row, overrides={"time": "at", "prompt": "in", "cached": "u.c"})
    assert (request.time, request.prompt, request.cached, request.model) == (1_786_943_122, 1_000, 640, "m")


def test_what_is_missing_is_said_with_what_there_is() -> None:
    with pytest.raises(Unreadable) as error:
        recognise(["time", "prompt_tokens", "who"])
    assert str(error.value) == (
        "no column recognised for cached; there are time, prompt_tokens, who; name them with --columns cached=COLUMN"
    )


def test_an_override_that_names_no_column_is_refused() -> None:
    with pytest.raises(Unreadable, match="--columns cached=nope: there is no such column"):
        recognise(["time", "prompt_tokens", "cached_tokens"], {"cached": "nope"})


def test_the_mapping_is_said(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "spend.jsonl", [{**LITELLM_ROW, "request_id": str(i)} for i in range(3)])
    text = flat(analyse([path], Reading()))
    assert "spend.jsonl: JSON lines, LiteLLM SpendLogs; 3 rows, 3 used, 0 skipped" in text
    assert "entry=call_type, model=model_group|model" in text
    assert "times: 3 without zone; without a zone means UTC (--utc-offset)" in text


def test_a_csv_export_reads_like_the_same_rows_in_json(tmp_path: Path) -> None:
    path = tmp_path / "logs.csv"
    other = NEW_API_ROW["other"].replace('"', '""')
    path.write_text(
        "\ufeffid,created_at,type,username,token_name,model_name,prompt_tokens,completion_tokens,other\r\n"
        f'7,1786943122,2,ann,claude-code,llm-prime,106667,412,"{other}"\r\n',
        encoding="utf-8",
    )
    assert list(LogFile(path, Reading())) == [read(NEW_API_ROW)]


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_other_delimiters_are_found(tmp_path: Path, delimiter: str) -> None:
    path = tmp_path / "log.csv"
    rows = (("time", "prompt_tokens", "cached_tokens"), ("2026-08-17 09:25:22+08:00", "1000.0", "256"))
    path.write_text("\n".join(delimiter.join(row) for row in rows))
    [request] = LogFile(path, Reading())
    assert (request.prompt, request.cached, request.user) == (1_000, 256, "(not given)")


def test_users_can_be_hidden(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_rows(tmp_path / "log.jsonl", [NEW_API_ROW] * 20)
    assert main([str(path), "--hide-users"]) == 0
    out = capsys.readouterr().out
    assert "user-" in out
    assert "ann" not in out


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("client", "claude-cli/2.1.116 (external, claude-vscode)", "claude-cli/2.1.116"),
        ("client", "[]", "(not given)"),
        ("entry", "/v1/messages?beta=true", "/v1/messages"),
        ("user", "a\x1b[31mb\n", "a?[31mb"),
        ("user", "x" * 500, "x" * 60),
    ],
)
def test_names_are_fit_to_be_shown(name: str, text: str, shown: str) -> None:
    assert shown_name(name, text) == shown
