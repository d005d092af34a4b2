"""Every request of every client's day is one that the reference gateway and the engine take."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import orjson
import pytest

from conformance.pair import Pair, embedded_pair, engine_config
from conformance.sessions import CLIENTS


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    engine = engine_config(template="tools-first", block_size=64, tokenizer="fast")
    with embedded_pair(engine=engine, recorder=False) as running:
        yield running


@pytest.mark.parametrize("name", list(CLIENTS))
def test_a_day_is_answered(name: str, pair: Pair) -> None:
    warm: list[int] = []
    with httpx.Client(base_url=pair.gateway_url, trust_env=False) as http:
        for request in CLIENTS[name].play(seed="wire", salt="pp-on-the-wire"):
            answer = http.post(request.path, content=orjson.dumps(request.body), headers=dict(request.headers))
            assert answer.status_code == 200, (request.kind, answer.text[:300])
            usage = answer.json().get("usage", {})
            if request.kind == "turn":
                details = usage.get("prompt_tokens_details") or {}
                warm.append(usage.get("cache_read_input_tokens") or details.get("cached_tokens") or 0)
    assert len(warm) >= 4
    assert any(warm[1:]), "a turn comes from the cache, so the engine saw a conversation"
