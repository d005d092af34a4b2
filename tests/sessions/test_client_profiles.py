"""The shipped profiles agree with themselves and are found where they are installed."""

from __future__ import annotations

import dataclasses

import pytest

from conformance.sessions import CLIENTS
from conformance.sessions.attribution import BLANK_CCH, attribution_text
from conformance.sessions.profile import CLAUDE_CODE, OPENCODE, available, load


def test_the_named_profiles_are_shipped() -> None:
    assert {CLAUDE_CODE, OPENCODE} < set(available())
    assert set(available()) == set(CLIENTS)


@pytest.mark.parametrize("name", available())
def test_tool_section_adds_up(name: str) -> None:
    profile = load(name)
    commas_and_brackets = len(profile.tools) + 1 if profile.tools else 0
    assert sum(tool.bytes for tool in profile.tools) + commas_and_brackets == profile.tools_bytes
    assert all(0 < tool.description_bytes < tool.bytes for tool in profile.tools)


@pytest.mark.parametrize("name", available())
def test_references_inside_a_profile_resolve(name: str) -> None:
    profile = load(name)
    names = [tool.name for tool in profile.tools]
    assert len(set(names)) == len(names)
    assert set(profile.core_tools) <= set(names)
    assert profile.scaled.tools <= len(profile.tools)
    assert set(profile.sub_agent.tools if profile.sub_agent else ()) <= set(names)
    for call in profile.calls:
        assert {tool.name: tool.first_argument for tool in profile.tools}[call.tool]
        assert call.result_form == "string"
    assert len(profile.scaled.first_message_bytes) == len(profile.first_message)
    assert profile.first_message[-1].part == "prompt"
    assert set(profile.client_fields) < set(profile.body_keys)


def test_claude_code_is_the_incident_s_client() -> None:
    profile = load(CLAUDE_CODE)
    assert (len(profile.tools), profile.tools_bytes) == (23, 74_027)
    assert [(part.bytes, part.cache_control) for part in profile.system] == [(91, False), (62, True), (26_051, True)]
    assert [part.bytes for part in profile.first_message] == [2603, 306, 34]


def test_opencode_sends_ten_tools_and_one_system_text() -> None:
    profile = load(OPENCODE)
    assert (len(profile.tools), profile.tools_bytes) == (10, 20_812)
    assert [part.bytes for part in profile.system] == [9569]


def test_attribution_format_has_the_recorded_size() -> None:
    profile = load(CLAUDE_CODE)
    assert profile.attribution is not None
    assert profile.attribution.cch_hex == len(BLANK_CCH)
    assert len(attribution_text(profile, "any prompt")) == profile.system_bytes("attribution")


def test_a_client_without_attribution_is_refused_one() -> None:
    with pytest.raises(ValueError, match="sends no attribution text"):
        attribution_text(load(OPENCODE), "any prompt")


def test_profiles_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        load(OPENCODE).version = "2"  # type: ignore[misc]


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=CLAUDE_CODE):
        load("claude-code-9")
