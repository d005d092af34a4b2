"""The attribution text's two derived fields: functions of the body and of the first prompt, nothing else."""

from __future__ import annotations

import re
from typing import Any

import pytest

from conformance.sessions import ClaudeCodeSession, body_cch, prompt_suffix, sealed

FORM = re.compile(
    r"x-anthropic-billing-header: cc_version=2\.1\.116\.[0-9a-f]{3}; cc_entrypoint=claude-vscode; cch=[0-9a-f]{5};"
)


def session(**options: Any) -> ClaudeCodeSession:
    return ClaudeCodeSession(**{"seed": "attribution", "salt": "pp-attr-1", **options})


def field(text: str | None, name: str) -> str:
    assert text is not None
    found = re.search(rf"{name}=([^;]*);", text)
    assert found is not None
    return found.group(1)


def cch(s: ClaudeCodeSession) -> str:
    return field(s.attribution_block(), "cch")


def suffix(s: ClaudeCodeSession) -> str:
    return field(s.attribution_block(), "cc_version")


def test_it_is_the_first_system_block_and_carries_no_mark() -> None:
    block = session().body()["system"][0]
    assert set(block) == {"type", "text"}
    assert FORM.fullmatch(block["text"])


def test_the_same_body_has_the_same_cch_and_every_turn_another() -> None:
    s, twin = session(), session()
    seen: list[str] = []
    for _ in range(12):
        assert cch(s) == cch(s) == cch(twin) == body_cch(s.body())
        seen.append(cch(s))
        for each in (s, twin):
            each.grow(700)
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.update(model="another"),
        lambda body: body.update(max_tokens=17),
        lambda body: body["tools"].reverse(),
        lambda body: body["tools"][-1].update(description="changed"),
        lambda body: body["messages"][0]["content"][0].update(text="changed"),
        lambda body: body["system"][2].pop("cache_control"),
    ],
)
def test_any_change_of_the_body_changes_cch(change: Any) -> None:
    body = session().body()
    before = body_cch(body)
    change(body)
    assert body_cch(body) != before
    assert field(sealed(body)["system"][0]["text"], "cch") == body_cch(body)


def test_suffix_holds_for_a_session_and_follows_the_first_prompt() -> None:
    s = session()
    first = suffix(s)
    prompt = s.body()["messages"][0]["content"][-1]["text"]
    assert first == f"2.1.116.{prompt_suffix(prompt)}"
    for _ in range(4):
        s.grow(600)
        assert suffix(s) == first
    others = {suffix(session(salt=f"pp-attr-{i}")) for i in range(20)}
    assert len(others) > 15


def test_sealed_derives_the_suffix_anew_when_the_first_prompt_changes() -> None:
    body = session().body()
    body["messages"][0]["content"][-1]["text"] = "a compacted history"
    text = sealed(body)["system"][0]["text"]
    assert field(text, "cc_version") == f"2.1.116.{prompt_suffix('a compacted history')}"


def test_sealed_leaves_the_given_body_alone() -> None:
    body = session().body()
    body["model"] = "another"
    before = body["system"][0]["text"]
    assert sealed(body)["system"][0]["text"] != before
    assert body["system"][0]["text"] == before


def test_sealed_is_the_identity_without_an_attribution_text() -> None:
    body = session(attribution=False).body()
    assert sealed(body) == body


def test_constant_attribution_keeps_one_text_over_all_turns() -> None:
    s = session(attribution="constant")
    texts = set()
    for _ in range(4):
        texts.add(s.attribution_block())
        s.grow(600)
    assert len(texts) == 1
    assert field(texts.pop(), "cch") == "00000"


def test_as_first_line_of_a_string_system() -> None:
    s = session(string_system=True)
    system = s.body()["system"]
    line, _, rest = system.partition("\n")
    assert FORM.fullmatch(line)
    assert line == s.attribution_block()
    assert rest == session(string_system=True, attribution=False).body()["system"]
    before = cch(s)
    s.grow(600)
    assert cch(s) != before == body_cch(session(string_system=True).body())
