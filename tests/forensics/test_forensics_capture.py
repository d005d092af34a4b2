"""The writer of captures: what it hashes, what it keeps quiet about, what stays the same from turn to turn."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import orjson
import pytest

from conformance.forensics.capture import CaptureFile, capture_line
from conformance.forensics.cli import analyse
from conformance.forensics.constants import Status
from conformance.forensics.readers import Reading
from conformance.sessions import ChatCodingSession, ClaudeCodeSession

MESSAGES, CHAT = "/v1/messages", "/v1/chat/completions"
ATTRIBUTION = "x-anthropic-billing-header: cc_version=2.1.116.d8c; cc_entrypoint=cli; cch=0a1b2;"
USAGE = {"input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 50}


def line(entry: str, body: Any, usage: Any = USAGE, **options: Any) -> dict[str, Any]:
    parsed = orjson.loads(capture_line(entry, body, usage, **options))
    assert isinstance(parsed, dict)
    return parsed


def hashes(captured: dict[str, Any]) -> dict[str, str]:
    return {part["path"]: part["sha"] for part in captured["parts"]}


def body(**changes: Any) -> dict[str, Any]:
    return {
        "model": "m",
        "system": [{"type": "text", "text": "be brief"}],
        "tools": [{"name": "Read", "input_schema": {"type": "object", "properties": {"id": {"type": "string"}}}}],
        "messages": [{"role": "user", "content": "hello"}],
        **changes,
    }


def test_a_messages_request_becomes_its_parts() -> None:
    captured = line(MESSAGES + "?beta=true", body(), time=1_786_943_122.5, client="claude-cli/2.1.116", user="u")
    assert list(hashes(captured)) == ["system[0]", "tools", "messages[0].content[0]"]
    assert (captured["prompt_tokens"], captured["cached_tokens"], captured["completion_tokens"]) == (1_000, 900, 50)
    assert (captured["entry"], captured["time"], captured["model"]) == (MESSAGES, 1_786_943_122.5, "m")
    assert captured["parts"][0] == {
        "path": "system[0]",
        "sha": captured["parts"][0]["sha"],
        "bytes": 8,
        "role": "system",
    }
    assert len(captured["parts"][0]["sha"]) == 16


def test_a_chat_request_becomes_its_parts() -> None:
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "hello"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]
    usage = {"prompt_tokens": 1_000, "prompt_tokens_details": {"cached_tokens": 640}, "completion_tokens": 5}
    captured = line(CHAT, orjson.dumps({"model": "m", "messages": messages}), usage)
    assert list(hashes(captured)) == [f"messages[{i}].content[0]" for i in range(4)]
    assert (captured["prompt_tokens"], captured["cached_tokens"]) == (1_000, 640)
    assert [part["role"] for part in captured["parts"]] == ["system", "user", "assistant", "tool"]


def test_no_text_is_written(tmp_path: Path) -> None:
    secret = "the-users-secret-words"
    texts = body(
        system=f"{ATTRIBUTION}\n{secret}",
        tools=[{"name": secret, "description": secret}],
        messages=[{"role": "user", "content": [{"type": "text", "text": secret}, {"type": "image", "data": secret}]}],
        metadata={"user_id": secret},
    )
    log = CaptureFile(tmp_path / "c.jsonl", count=len)
    log.write(MESSAGES, texts, USAGE)
    written = (tmp_path / "c.jsonl").read_text()
    assert secret not in written
    assert "0a1b2" not in written
    assert written.count("\n") == 1


def test_what_a_model_does_not_see_changes_no_hash() -> None:
    marked = body(
        system=[{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
        tools=[{**body()["tools"][0], "cache_control": {"type": "ephemeral"}}],
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}]}
        ],
    )
    assert hashes(line(MESSAGES, marked)) == hashes(line(MESSAGES, body()))
    ids = [
        body(messages=[{"role": "user", "content": [{"type": "tool_result", "tool_use_id": i, "content": "x"}]}])
        for i in ("a", "b")
    ]
    assert hashes(line(MESSAGES, ids[0])) == hashes(line(MESSAGES, ids[1]))


def test_a_tools_own_property_named_like_a_mark_is_kept() -> None:
    other = {"name": "Read", "input_schema": {"type": "object", "properties": {}}}
    assert hashes(line(MESSAGES, body(tools=[other])))["tools"] != hashes(line(MESSAGES, body()))["tools"]


@pytest.mark.parametrize(
    ("system", "path"),
    [
        ([{"type": "text", "text": ATTRIBUTION}, {"type": "text", "text": "be brief"}], "system[0]"),
        (f"{ATTRIBUTION}\nbe brief", "system.line[0]"),
        (ATTRIBUTION, "system"),
    ],
)
def test_the_attribution_text_is_hashed_field_by_field(system: Any, path: str) -> None:
    first = line(MESSAGES, body(system=system))
    second = json.loads(json.dumps(system).replace("0a1b2", "3c4d5"))
    [a], [b] = (
        [part for part in captured["parts"] if part["path"] == path]
        for captured in (first, line(MESSAGES, body(system=second)))
    )
    assert list(a["fields"]) == ["cc_version", "cc_entrypoint", "cch"]
    assert [name for name in a["fields"] if a["fields"][name] != b["fields"][name]] == ["cch"]
    assert a["sha"] != b["sha"]


def test_a_secret_makes_hashes_unguessable_and_comparable() -> None:
    plain, one, same, other = (
        hashes(line(MESSAGES, body(), secret=secret)) for secret in (b"", b"one", b"one", b"other")
    )
    assert one == same
    assert len({plain["system[0]"], one["system[0]"], other["system[0]"]}) == 3


def test_unknown_usage_stays_unknown() -> None:
    assert line(MESSAGES, body(), None)["cached_tokens"] is None
    assert line(CHAT, body(), {"prompt_tokens": 7})["cached_tokens"] is None
    assert line(CHAT, body(), {"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 0}})["cached_tokens"] == 0


@pytest.mark.parametrize("wrong", [b"[]", b"{}", b"not json", {"messages": "x"}])
def test_what_is_no_request_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # JSON's own error is one too
        capture_line(MESSAGES, wrong, USAGE)


def test_odd_content_is_hashed_all_the_same() -> None:
    odd = body(
        messages=[{"role": "user", "content": [None, 3, {"type": "x", "n": 12345678901234567890}]}, 7, {"role": 1}]
    )
    assert len(line(MESSAGES, odd)["parts"]) == 5
    assert line(MESSAGES, body(messages=[{"role": "user", "content": "\ud800"}]))["parts"]


def test_threads_write_whole_lines(tmp_path: Path) -> None:
    log = CaptureFile(tmp_path / "c.jsonl")

    def write() -> None:
        for _ in range(25):
            log.write(MESSAGES, body(), USAGE)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written = (tmp_path / "c.jsonl").read_text().splitlines()
    assert len([json.loads(text) for text in written]) == 100


def claude_bodies(turns: int) -> list[dict[str, Any]]:
    session = ClaudeCodeSession(seed="forensics", salt="forensics0")
    bodies = []
    for _ in range(turns):
        bodies.append(session.body())
        session.grow(6_000)
    return bodies


def captured_session(path: Path, bodies: list[dict[str, Any]], entry: str, cached: Any) -> Path:
    log = CaptureFile(path, count=lambda text: len(text.encode()) // 4)
    before = 0
    for i, sent in enumerate(bodies):
        prompt = len(orjson.dumps(sent)) // 4
        usage = {"prompt_tokens": prompt, "prompt_tokens_details": {"cached_tokens": cached(before)}}
        if entry == MESSAGES:
            usage = {"input_tokens": prompt - cached(before), "cache_read_input_tokens": cached(before)}
        log.write(entry, sent, usage, client="claude-cli/2.1.116", user="u", time=1_786_943_122.0 + 20 * i)
        before = prompt
    return path


def test_client_shaped_sessions_captured_and_pinned_name_system_0_and_cch(tmp_path: Path) -> None:
    bodies = claude_bodies(24)
    tools = len(orjson.dumps(bodies[0]["tools"])) // 4
    plateau = (tools + 30) // 64 * 64
    path = captured_session(tmp_path / "c.jsonl", bodies, MESSAGES, lambda before: plateau if before else 0)
    [finding] = analyse([path], Reading()).findings
    assert (finding.status, finding.value) == (Status.PINNED, plateau)
    assert finding.part is not None
    assert (finding.part.path, finding.part.field) == ("system[0]", "cch")
    assert any(line.startswith("system[2]") for line in finding.ruled_out)
    assert any(line.startswith("the history: earlier messages were altered in 0 of") for line in finding.ruled_out)


def test_client_shaped_chat_sessions_with_hits_that_follow_are_clean(tmp_path: Path) -> None:
    session = ChatCodingSession(seed="forensics", salt="forensics1")
    bodies = []
    for _ in range(24):
        bodies.append(session.body())
        session.grow(6_000)
    path = captured_session(tmp_path / "c.jsonl", bodies, CHAT, lambda before: before // 64 * 64)
    report = analyse([path], Reading())
    assert report.findings == []
    assert report.code == 0
