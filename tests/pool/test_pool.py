from __future__ import annotations

import os
import pty
import sys

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from conformance.asking import Terminal
from conformance.errors import UsageProblem
from conformance.pair import engine_config
from conformance.pool import Ask, Demand, check_pool, is_production, pool_of
from conformance.servers import serve
from engine.embedded import create_app

DEMAND = Demand(requests=93, tokens=122_000, held=30_000)
AT_MOST_TWO = 30_000 * 50


def metrics(text: str, status: int = 200) -> Starlette:
    async def endpoint(_: Request) -> Response:
        return PlainTextResponse(text, status)

    return Starlette(routes=[Route("/metrics", endpoint)])


@pytest.mark.parametrize("suffix", ["", "/v1", "/"])
def test_the_pool_of_the_embedded_engine_is_read(suffix: str) -> None:
    config = engine_config(template="tools-first", block_size=64, tokenizer="fast", pool_tokens=640_000)
    with serve(create_app(config)) as engine:
        assert pool_of(engine.url + suffix, 5) == config.num_blocks * 64


@pytest.mark.parametrize(
    ("text", "pool"),
    [
        ('vllm:cache_config_info{num_gpu_blocks="100",block_size="16",engine="0"} 1.0', 1600),
        ('vllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1\n'
         'vllm:cache_config_info{block_size="16",num_gpu_blocks="50"} 1', 800),
        # K-EXAONE with an MTP layer on vLLM 0.32: five groups share the blocks.
        ('vllm:cache_config_info{block_size="32",kv_cache_size_tokens="100824",num_gpu_blocks="4000"} 1.0', 100_824),
        ('vllm:cache_config_info{block_size="32",kv_cache_size_tokens="None",num_gpu_blocks="4000"} 1.0', 128_000),
        ('vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1.0', None),
        ("# nothing", None),
    ],
)  # fmt: skip
def test_what_metrics_say_of_the_pool(text: str, pool: int | None) -> None:
    with serve(metrics(text)) as engine:
        assert pool_of(engine.url, 5) == pool


def test_an_engine_without_metrics_or_out_of_reach_has_no_known_pool() -> None:
    with serve(metrics("no", 404)) as engine:
        url = engine.url
        assert pool_of(url, 5) is None
    assert pool_of(url, 1) is None


def test_everything_beyond_this_machine_is_production() -> None:
    assert not is_production("http://127.0.0.1:3000", None)
    assert not is_production("http://localhost:3000", "http://[::1]:8000")
    assert is_production("http://127.0.0.1:3000", "http://vllm:8000")
    assert is_production("http://gw:3000", None)


def test_two_percent_of_a_production_engines_pool_and_no_more() -> None:
    told = check_pool(DEMAND, AT_MOST_TWO, production=True, percent=2.0, ask=None)
    assert told.value == "about 30,000 of the pool's 1,500,000 tokens (2 %) are filled by this run"
    with pytest.raises(UsageProblem) as refused:
        check_pool(DEMAND, AT_MOST_TWO // 2, production=True, percent=2.0, ask=None)
    assert str(refused.value).startswith("about 30,000 of the pool's 750,000 tokens (4 %) would be filled by this run")
    assert "--pool-share 4.2" in str(refused.value)
    check_pool(DEMAND, AT_MOST_TWO // 2, production=True, percent=4.2, ask=None)
    check_pool(DEMAND, AT_MOST_TWO // 2, production=False, percent=2.0, ask=None)


def test_an_unknown_production_pool_is_asked_about_where_somebody_can_answer() -> None:
    asked: list[str] = []

    def answering(answer: bool) -> Ask:
        def ask(question: str) -> bool:
            asked.append(question)
            return answer

        return ask

    with pytest.raises(UsageProblem, match="stopped at your word"):
        check_pool(DEMAND, None, production=True, percent=2.0, ask=answering(False))
    assert "about 93 requests / 122,000 prompt tokens will be sent. Go on?" in asked[0]
    assert check_pool(DEMAND, None, production=True, percent=2.0, ask=answering(True)).value.endswith(
        "; you were asked"
    )
    check_pool(DEMAND, None, production=False, percent=2.0, ask=answering(False))
    assert len(asked) == 2
    assert "the limit of 2 % was not checked" in check_pool(DEMAND, None, production=True, percent=2.0, ask=None).value


def test_a_pipeline_is_nobody_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Terminal()
    assert here.ask is None
    here.note()
    assert here.ask is None, "pytest's own streams are no terminal"
    reader, writer = pty.openpty()
    with os.fdopen(reader, "rb", 0), os.fdopen(writer, "w") as line:
        monkeypatch.setattr(sys, "stdin", line)
        monkeypatch.setattr(sys, "stdout", line)
        here.note()
    assert here.ask is not None
