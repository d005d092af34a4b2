"""The probe, on the embedded engine: tiers that are read back, that are too small, that are not there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from conformance.servers import serve
from engine import cli
from engine.embedded import EngineConfig, create_app


@contextmanager
def engine(**sizes: Any) -> Iterator[str]:
    config = EngineConfig(model="m", block_size=16, num_blocks=401, max_model_len=4_000, **sizes)
    with serve(create_app(config)) as served:
        yield served.url


def found(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, str]]:
    code = cli.main(["probe", "--json", *words])
    return code, {row["id"]: row["outcome"] for row in json.loads(capsys.readouterr().out)}


@pytest.mark.parametrize("chunk", [1, 4])
def test_a_tier_that_is_read_back_passes(chunk: int, capsys: pytest.CaptureFixture[str]) -> None:
    with engine(l2_chunks=4_000, chunk_blocks=chunk) as url:
        code, said = found(capsys, url)
    assert code == 0
    assert said == dict.fromkeys(("L1", "L2-01", "L2-02", "L2-03", "L2-04", "L2-05", "L2-06"), "pass")


def test_a_tier_smaller_than_what_is_sent_in_between_is_written_in_vain(capsys: pytest.CaptureFixture[str]) -> None:
    with engine(l2_chunks=70) as url:
        code, said = found(capsys, url)
        assert code == 1
        assert (said["L1"], said["L2-01"], said["L2-02"], said["L2-03"]) == ("pass", "FAIL", "FAIL", "unknown")
        assert cli.main(["probe", url]) == 1
        text = capsys.readouterr().out
    assert "write-only, unless L2 is smaller than what was sent in between" in text


def test_an_engine_without_a_tier(capsys: pytest.CaptureFixture[str]) -> None:
    with engine() as url:
        code, said = found(capsys, url)
    assert (code, said) == (0, {"L1": "pass", "L2-01": "unknown"})


def test_cached_tokens_that_are_not_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with engine(l2_chunks=4_000, prompt_tokens_details=False) as url:
        code, said = found(capsys, url)
    assert (code, said["L1"], said["L2-01"]) == (0, "unknown", "pass")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--budget", "1000"], "more than the budget of 1,000: raise --budget"),
        (["--model", "other"], "the engine has no model 'other': m"),
        (["--session-tokens", "5000"], "do not fit the model's length"),
        (["--metrics", "http://127.0.0.1:9"], "does not answer"),
    ],
)
def test_what_cannot_be_probed_is_one_line(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with engine(l2_chunks=10) as url:
        assert cli.main(["probe", url, *words]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert says in said


def test_nobody_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["probe", "http://127.0.0.1:9"]) == 2
    assert "http://127.0.0.1:9 does not answer" in capsys.readouterr().err
