"""The load generator's own cache model against the engine's, which shares no code with it."""

from __future__ import annotations

import random

import pytest

from engine.embedded import EngineConfig, EngineCore
from load.lru import Cache

BLOCK = 16


def prompts(seed: int, count: int) -> list[list[int]]:
    """Conversations that grow, branch, and are repeated; some prompts end with a full block."""
    rng = random.Random(seed)
    talks: list[list[int]] = []
    sent = []
    for number in range(count):
        if not talks or rng.random() < 0.25:
            talks.append([number * 1_000 + i for i in range(rng.choice((16, 40, 96, 170)))])
        talk = rng.choice(talks)
        if rng.random() < 0.6:
            talk.extend(number * 1_000 + 500 + i for i in range(rng.choice((1, 15, 16, 17, 48))))
        if rng.random() < 0.1:
            talks.append(talk[: len(talk) // 2] + [number * 1_000 + 900 + i for i in range(40)])
        sent.append(list(talk))
    return [prompt[:600] for prompt in sent]


def keys(prompt: list[int]) -> list[tuple[int, ...]]:
    return [tuple(prompt[: (i + 1) * BLOCK]) for i in range(len(prompt) // BLOCK)]


@pytest.mark.parametrize("chunk_blocks", [1, 2])
@pytest.mark.parametrize("l2_chunks", [0, 9, 200])
@pytest.mark.parametrize("seed", range(6))
def test_the_model_and_the_engine_agree_on_every_request(seed: int, l2_chunks: int, chunk_blocks: int) -> None:
    pool = 60
    core = EngineCore(
        EngineConfig(
            block_size=BLOCK, num_blocks=pool + 1, l2_chunks=l2_chunks, chunk_blocks=chunk_blocks,
            max_num_batched_tokens=10_000,
        )
    )  # fmt: skip
    cache = Cache(BLOCK, pool, l2_chunks, chunk_blocks)
    evicted = 0
    for prompt in prompts(seed, 120):
        served = core.complete(prompt)
        predicted = cache.serve(keys(prompt), len(prompt), private=-(-len(prompt) // BLOCK) - len(prompt) // BLOCK)
        assert (predicted.l1, predicted.l2) == (served.local_tokens, served.external_tokens)
        evicted += served.cached_tokens == 0 and len(prompt) > BLOCK
    assert evicted > 5 or l2_chunks == 200
    assert cache.hit_rate == pytest.approx(
        (core.stats.prompt_tokens_local + core.stats.prompt_tokens_external) / core.stats.prompt_tokens
    )


def test_an_endless_cache_forgets_nothing() -> None:
    cache = Cache(BLOCK)
    for number in range(200):
        cache.serve(keys([number * 1_000 + i for i in range(64)]), 65)
    assert cache.serve(keys(list(range(64))), 65).l1 == 64
    assert cache.serve(keys(list(range(64))), 64).l1 == 48, "at least one token is computed"
    assert cache.serve(keys(list(range(64))), 64, whole=True).l1 == 64, "definitions over blocks count the last one too"
