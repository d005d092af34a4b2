"""Configurations that cannot work are refused with what to do; sizes follow from one another."""

from typing import Any

import pytest

from engine.embedded import ConfigError, EngineConfig


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"block_size": 0}, "block_size=0"),
        ({"block_size": True}, "block_size=True"),
        ({"block_size": 1.5}, "block_size=1.5"),
        ({"num_blocks": 1}, "null block"),
        ({"chunk_blocks": 0}, "chunk_blocks=0"),
        ({"l2_chunks": -1}, "l2_chunks=-1"),
        ({"l2_chunks": 1, "l2_bytes": 1}, "not both"),
        ({"l2_bytes": 10}, "less than one chunk"),
        ({"max_model_len": 10_000_000}, "does not fit in the pool"),
        ({"max_model_len": 1}, "max_model_len=1"),
        ({"block_size": 1, "num_blocks": 2}, "single token"),
        ({"template": "chatml"}, "tools-first, system-first"),
        ({"tokenizer": "gpt2"}, "fast, deepseek"),
        ({"step_interval": -1}, "step_interval"),
        ({"model": ""}, "must not be empty"),
        ({"served_names": ("a", "")}, "must not be empty"),
    ],
)
def test_refused(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        EngineConfig(**values)


def test_sizes() -> None:
    config = EngineConfig(block_size=16, num_blocks=101, chunk_blocks=4, l2_bytes=1_000_000, bytes_per_token=100)
    assert config.pool_tokens == config.context_tokens == 1_600
    assert (config.chunk_tokens, config.chunk_bytes, config.l2_capacity) == (64, 6_400, 156)
    assert EngineConfig(max_model_len=500).context_tokens == 500
    assert EngineConfig().l2_capacity == 0


def test_names() -> None:
    assert EngineConfig(model="m").names == ("m",)
    assert EngineConfig(model="m", served_names=("a", "b")).names == ("a", "b")
