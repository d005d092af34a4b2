"""Requests that run beside each other: queueing, chunked prefill, preemption, abort, reset."""

import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_cache import Sent, expected_cached

from engine.embedded import EngineConfig, EngineCore, RequestResult


def tokens(count: int, seed: int = 0) -> list[int]:
    return [seed * 100_000 + place for place in range(count)]


def drain(core: EngineCore, steps: int = 100_000) -> dict[str, RequestResult]:
    """Step until idle; results by request id."""
    results: dict[str, RequestResult] = {}
    for _ in range(steps):
        if not core.has_work:
            return results
        for event in core.step():
            if event.result is not None:
                results[event.request_id] = event.result
    raise AssertionError(f"still busy after {steps} steps")


def test_requests_of_one_step_share_the_first_ones_blocks() -> None:
    core = EngineCore(EngineConfig(block_size=4, num_blocks=50))
    core.add("a", tokens(21))
    core.add("b", tokens(21))
    results = drain(core)
    assert (results["a"].cached_tokens, results["b"].cached_tokens) == (0, 20)


def test_a_request_that_does_not_fit_beside_another_waits_for_it() -> None:
    core = EngineCore(EngineConfig(block_size=4, num_blocks=11))
    core.add("long", tokens(30), outputs=range(8))
    core.add("next", tokens(20, seed=1))
    core.step()
    assert (core.num_running, core.num_waiting) == (1, 1)
    results = drain(core)
    assert list(results) == ["long", "next"]
    assert core.stats.preemptions == 0


def test_a_waiting_request_is_admitted_when_its_hits_are_held_by_another() -> None:
    core = EngineCore(EngineConfig(block_size=4, num_blocks=11))
    core.add("first", tokens(32), outputs=range(4))
    core.add("same", tokens(32), outputs=range(4))
    core.step()
    assert (core.num_running, core.num_waiting) == (2, 0)
    assert drain(core)["same"].local_tokens == 28


def test_the_last_request_is_preempted_when_the_pool_runs_out_and_finishes_later() -> None:
    core = EngineCore(EngineConfig(block_size=4, num_blocks=11))
    core.add("a", tokens(15), outputs=range(20))
    core.add("b", tokens(15, seed=1), outputs=range(20))
    results = drain(core)
    assert results["a"].preemptions == 0
    assert results["b"].preemptions > 0
    assert core.stats.preemptions == results["b"].preemptions
    assert results["b"].cached_tokens == 0, "cached tokens are those of the first scheduling"
    assert core.stats.prefix_queries == 30, "a readmission is no new query"
    assert core.pool.num_free == 10


def test_a_long_prompt_is_prefilled_over_several_steps() -> None:
    core = EngineCore(EngineConfig(block_size=4, num_blocks=50, max_num_batched_tokens=10))
    core.add("a", tokens(35))
    assert [len(core.step()) for _ in range(4)] == [0, 0, 0, 1]


def test_seats_are_limited() -> None:
    core = EngineCore(EngineConfig(block_size=4, num_blocks=50, max_num_seqs=2))
    for number in range(3):
        core.add(str(number), tokens(5, seed=number))
    core.step()
    assert core.num_waiting == 1
    assert set(drain(core)) == {"2"}


def test_tokens_come_in_order_with_the_result_last() -> None:
    core = EngineCore(EngineConfig(block_size=4, num_blocks=50))
    core.add("a", tokens(5), outputs=[7, 8, 9])
    events = [event for _ in range(3) for event in core.step()]
    assert [event.place for event in events] == [0, 1, 2]
    assert [event.result is None for event in events] == [True, True, False]


def test_abort_frees_blocks_and_keeps_what_was_computed() -> None:
    core = EngineCore(EngineConfig(block_size=4, num_blocks=11))
    core.add("running", tokens(21), outputs=range(10))
    core.add("waiting", tokens(30, seed=1))
    core.step()
    assert core.abort("running")
    assert core.abort("waiting")
    assert not core.abort("running"), "a second abort finds nothing"
    assert not core.has_work
    assert core.pool.usage == 0
    assert core.complete(tokens(21)).cached_tokens == 20


def test_reset_is_refused_while_blocks_are_held() -> None:
    core = EngineCore(EngineConfig(block_size=4, num_blocks=11))
    core.add("a", tokens(9), outputs=range(3))
    core.step()
    assert not core.reset_prefix_cache()
    drain(core)
    assert core.complete(tokens(9)).cached_tokens == 8
    assert core.reset_prefix_cache()
    assert core.complete(tokens(9)).cached_tokens == 0


def test_reset_of_the_host_tier_drops_copies_in_flight() -> None:
    core = EngineCore(EngineConfig(block_size=4, num_blocks=11, l2_chunks=20))
    core.add("a", tokens(9))
    core.step()
    assert core.reset_prefix_cache(reset_external=True)
    drain(core)
    assert core.complete(tokens(9)).cached_tokens == 0


def test_after_a_reset_of_l1_the_host_tier_serves_a_whole_prompt() -> None:
    core = EngineCore(EngineConfig(block_size=4, num_blocks=11, l2_chunks=20, bytes_per_token=10))
    core.complete(tokens(16))
    core.reset_prefix_cache()
    result = core.complete(tokens(16))
    assert (result.local_tokens, result.external_tokens) == (0, 16)
    assert (core.stats.load_bytes, core.stats.store_bytes) == (160, 160)


@pytest.mark.parametrize(
    ("prompt", "outputs", "says"),
    [
        ([], [1], "at least one prompt token"),
        ([1], [], "one output token"),
        ([1] * 40, [1], "exceed the context of 40 tokens"),
        ([-1], [1], "whole numbers"),
        ([2**32], [1], "whole numbers"),
        (b"abc", [1], "words of 4"),
    ],
)
def test_impossible_requests_are_refused(prompt: bytes | list[int], outputs: list[int], says: str) -> None:
    core = EngineCore(EngineConfig(block_size=4, num_blocks=11))
    with pytest.raises(ValueError, match=says):
        core.add("a", prompt, outputs=outputs)
    assert not core.has_work


def test_a_request_id_is_used_once_at_a_time() -> None:
    core = EngineCore(EngineConfig(block_size=4, num_blocks=11))
    core.add("a", tokens(5))
    with pytest.raises(ValueError, match="in use"):
        core.add("a", tokens(5))
    with pytest.raises(RuntimeError, match="idle"):
        core.complete(tokens(5))
    drain(core)
    core.add("a", tokens(5))


@dataclass(frozen=True)
class Crowd:
    """Requests with the step each arrives at and, for some, the step it is aborted at."""

    config: EngineConfig
    requests: tuple[Sent, ...]
    arrivals: tuple[int, ...]
    aborts: tuple[int | None, ...]


@st.composite
def crowds(draw: st.DrawFn) -> Crowd:
    rng = random.Random(draw(st.integers(0, 2**32)))
    block = draw(st.integers(1, 5))
    requests: list[Sent] = []
    for _ in range(draw(st.integers(1, 9))):
        base = rng.choice(requests).prompt if requests and rng.random() < 0.7 else ()
        prompt = (base + tuple(rng.randrange(3) for _ in range(rng.randrange(1, 20))))[: 10 * block]
        outputs = tuple(rng.randrange(3) for _ in range(rng.randrange(1, 3 * block + 2)))
        requests.append(Sent(prompt, outputs, rng.choice([None, None, "a"])))
    longest = max(-(-(len(sent.prompt) + len(sent.outputs)) // block) for sent in requests)
    config = EngineConfig(
        block_size=block,
        num_blocks=longest + 1 + rng.randrange(longest + 1),
        chunk_blocks=rng.choice([1, 2]),
        l2_chunks=rng.choice([0, 3, 100]),
        offload_prompt_only=rng.random() < 0.5,
        max_num_batched_tokens=rng.choice([2, 9, 1_000]),
        max_num_seqs=rng.choice([1, 2, 50]),
    )
    return Crowd(
        config,
        tuple(requests),
        tuple(sorted(rng.randrange(30) for _ in requests)),
        tuple(rng.choice([None, None, None, rng.randrange(60)]) for _ in requests),
    )


@settings(max_examples=300, deadline=None)
@given(crowds())
def test_every_request_ends_and_no_hit_is_made_up(crowd: Crowd) -> None:
    core = EngineCore(crowd.config)
    results: dict[str, RequestResult] = {}
    generated: dict[str, list[int]] = {}
    gone: set[str] = set()
    for now in range(10_000):
        for number, arrival in enumerate(crowd.arrivals):
            if arrival == now:
                sent = crowd.requests[number]
                core.add(str(number), sent.prompt, outputs=sent.outputs, cache_salt=sent.salt)
            elif crowd.aborts[number] == now and core.abort(str(number)):
                gone.add(str(number))
        for event in core.step():
            generated.setdefault(event.request_id, []).append(event.place)
            if event.result is not None:
                results[event.request_id] = event.result
        if now > 60 and not core.has_work:
            break
    assert set(results) | gone == {str(number) for number in range(len(crowd.requests))}
    assert core.pool.num_free == crowd.config.num_blocks - 1
    for name, result in results.items():
        sent = crowd.requests[int(name)]
        assert generated[name] == list(range(len(sent.outputs)))
        # Whichever part of L1 is gone by then, no more than what either tier could hold of the other requests.
        most = max(
            sum(
                expected_cached(
                    sent,
                    in_l1,
                    crowd.requests,
                    block=crowd.config.block_size,
                    chunk=crowd.config.chunk_tokens if crowd.config.l2_capacity else 0,
                    prompt_only=crowd.config.offload_prompt_only,
                )
            )
            for in_l1 in ((), crowd.requests)
        )
        assert result.cached_tokens <= most
        assert result.local_tokens <= len(sent.prompt) - 1
        assert result.local_tokens % crowd.config.block_size == 0
    assert core.stats.generation_tokens == sum(map(len, generated.values()))
    assert core.stats.finished_requests == len(results)
    assert core.stats.aborted_requests == len(gone)
