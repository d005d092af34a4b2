"""The host tier of real vLLM: its own scheduler, manager, lookup and metrics, with copies that need no GPU."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from vllm_rig import EXTRA, outcomes, probe, vllm

from engine.metrics import read
from engine.scrape import fetch
from engine.vllm.processes import session_members

RULES = ("L1", "L2-01", "L2-02", "L2-03", "L2-04", "L2-05")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tier")


def ask(url: str, text: str, tokens: int = 24) -> tuple[str, int, int]:
    """Greedy text, prompt tokens and cached tokens."""
    body = {"model": "tiny", "messages": [{"role": "user", "content": text}], "max_tokens": tokens, "temperature": 0}
    with httpx.Client(trust_env=False, timeout=120) as client:
        held = client.post(f"{url}/v1/chat/completions", json=body).raise_for_status().json()
    usage = held["usage"]
    return (
        held["choices"][0]["message"]["content"],
        usage["prompt_tokens"],
        usage["prompt_tokens_details"]["cached_tokens"],
    )


def test_what_was_pushed_out_comes_back_as_the_formula_says(folder: Path) -> None:
    with vllm("cpu-l2", folder) as server:
        found = probe(server.url)
        assert outcomes(found, RULES) == ["pass"] * len(RULES), found
        text = "the cache keeps every block until pressure evicts it " * 60
        cold, prompt, cached = ask(server.url, text)
        assert cached == 0
        with httpx.Client(trust_env=False, timeout=60) as client:
            client.post(f"{server.url}/reset_prefix_cache").raise_for_status()
        before = read(fetch(server.url)).counters
        again, _, cached = ask(server.url, text)
        ask(server.url, "another step, which reports the copies of the step before", 4)
        after = read(fetch(server.url)).counters
        # P = P', so E = |P|c with chunks of 32; a prompt of whole chunks still computes its last token.
        expected = prompt // 32 * 32
        assert cached in (expected, prompt - 1)
        assert again == cold
        assert after.l2_hits is not None
        assert before.l2_hits is not None
        assert after.l2_hits - before.l2_hits in (expected, prompt - 1)
        # Two layers of one key and one value head of 32 numbers of 2 bytes: 256 bytes a token.
        assert after.load_bytes is not None
        assert before.load_bytes is not None
        assert after.load_bytes - before.load_bytes == 256 * expected


def test_corrupted_copies_are_seen_in_the_answers(folder: Path) -> None:
    with vllm("cpu-l2", folder, f"{EXTRA}.host_copy_corrupt", "true") as server:
        found = probe(server.url)
    assert outcomes(found, RULES) == ["pass", "pass", "pass", "FAIL", "pass", "pass"], found


def test_a_tier_that_loses_what_it_stored_is_write_only(folder: Path) -> None:
    with vllm("cpu-l2", folder, f"{EXTRA}.host_copy_drop", "1.0") as server:
        found = probe(server.url)
        counters = read(fetch(server.url)).counters
    assert outcomes(found, RULES) == ["pass", "FAIL", "FAIL", "unknown", "FAIL", "pass"], found
    assert counters.write_only


def test_slow_copies_hold_up_and_break_nothing_and_a_killed_engine_leaves_nothing(folder: Path) -> None:
    with vllm("cpu-l2", folder, f"{EXTRA}.host_copy_load_delay_s", "10") as server:
        found = probe(server.url)
        assert outcomes(found, RULES) == ["pass"] * len(RULES), found
        failed = threading.Event()

        def long_answer() -> None:
            try:
                ask(server.url, "write on and on", 3_000)
            except httpx.HTTPError:
                failed.set()

        asking = threading.Thread(target=long_answer)
        asking.start()
        assert not failed.wait(2)
        os.kill(server.pid, signal.SIGKILL)
        asking.join(60)
        assert failed.is_set(), "a request to a killed engine must end"
        server.stop()
    assert session_members(server.pid) == []


def test_a_pool_that_is_too_full_for_all_of_them_serves_all_of_them(folder: Path) -> None:
    """Twelve requests of some 2,000 tokens in a pool of 6,400, all at once."""
    with vllm("cpu-l2", folder) as server, ThreadPoolExecutor(12) as pool:
        texts = [f"{n} " + "every block is kept until pressure evicts it " * 200 for n in range(12)]
        answers = list(pool.map(lambda text: ask(server.url, text, 40), texts))
        again = [ask(server.url, text, 40) for text in texts[:3]]
    assert sum(prompt for _, prompt, _ in answers) > 3 * 6_400
    assert [text for text, _, _ in again] == [text for text, _, _ in answers[:3]]
