"""Cached tokens against a formula and a model that share no code with the engine."""

import random
from array import array

import pytest
from engine_sessions import Case, cases, disagreement
from hypothesis import given, settings
from reference_cache import Sent, expected_cached

from engine.embedded import EngineConfig, EngineCore


@settings(max_examples=300, deadline=None)
@given(cases(roomy=True))
def test_cached_tokens_equal_the_formula_where_nothing_is_evicted(case: Case) -> None:
    assert case.roomy
    assert disagreement(EngineCore, case) is None


@settings(max_examples=600, deadline=None)
@given(cases(roomy=False))
def test_cached_tokens_equal_the_model_where_the_order_of_eviction_decides(case: Case) -> None:
    assert disagreement(EngineCore, case) is None


@pytest.mark.parametrize("chunk_blocks", [0, 1, 3])
@pytest.mark.parametrize("block", [16, 64, 256, 784, 2_096])
def test_the_formula_holds_at_the_sizes_engines_have(block: int, chunk_blocks: int) -> None:
    rng = random.Random(block)
    config = EngineConfig(
        block_size=block,
        num_blocks=400_000 // block,
        chunk_blocks=max(1, chunk_blocks),
        l2_chunks=chunk_blocks * 10_000,
    )
    core = EngineCore(config)
    sent: list[Sent] = []
    since_reset: list[Sent] = []
    for turn in range(24):
        if turn == 16:
            assert core.reset_prefix_cache()
            since_reset = []
        base = rng.choice(sent) if sent else Sent((), ())
        whole = base.prompt + base.outputs
        kept = whole[: rng.choice([len(whole), len(whole) // block * block, rng.randrange(len(whole) + 1)])]
        request = Sent(
            kept + tuple(rng.randrange(2**32) for _ in range(rng.randrange(1, 1_500))),
            tuple(rng.randrange(128_000) for _ in range(rng.randrange(1, 40))),
        )
        result = core.complete(array("I", request.prompt), outputs=array("I", request.outputs))
        assert (result.local_tokens, result.external_tokens) == expected_cached(
            request, since_reset, sent, block=block, chunk=chunk_blocks * block, prompt_only=True
        )
        sent.append(request)
        since_reset.append(request)
