"""`vllm serve` commands as a user writes them."""

import pytest

from engine.prove.launch import LaunchError, read_launch

KV = (
    '{"kv_connector":"OffloadingConnector","kv_role":"kv_both",'
    '"kv_connector_extra_config":{"cpu_bytes_to_use":9,"blocks_per_chunk":2}}'
)


def test_the_incidents_launch() -> None:
    launch = read_launch(
        "VLLM_USE_V1=1 CUDA_VISIBLE_DEVICES=0,1 vllm serve deepseek-ai/DeepSeek-V4-Flash -tp 8 --block-size 256 "
        f"--kv-transfer-config '{KV}' --speculative-config "
        '\'{"method":"dspark","num_speculative_tokens":7}\' --max-num-batched-tokens 16k --enable-prefix-caching'
    )
    assert launch.model == "deepseek-ai/DeepSeek-V4-Flash"
    assert (launch.block_size, launch.budget) == (256, 16_000)
    assert (launch.connector, launch.method, launch.drafts_from_states) == ("OffloadingConnector", "dspark", True)
    assert launch.chunk_blocks(256) == 2
    assert launch.retention == "unset"
    assert launch.prefix_caching


def test_other_spellings() -> None:
    launch = read_launch(
        "/opt/bin/vllm serve m --block_size=32 --kv-transfer-config.kv_connector OffloadingConnector "
        "--kv-transfer-config.kv_connector_extra_config.block_size 64 --speculative-config.method deepseek_mtp "
        "--prefix-cache-retention-interval 64 --no-enable-prefix-caching --disable-hybrid-kv-cache-manager"
    )
    assert (launch.block_size, launch.chunk_blocks(32), launch.method, launch.retention) == (32, 2, "mtp", 64)
    assert not launch.prefix_caching
    assert not launch.hybrid
    assert read_launch("vllm serve m --kv-offloading-size 50").connector == "OffloadingConnector"
    assert read_launch("vllm serve m").connector is None
    assert read_launch("vllm serve m --prefix-cache-retention-interval None").retention is None
    assert read_launch("").model is None
    assert not read_launch('vllm serve m -sc \'{"method":"ngram"}\'').drafts_from_states
    assert read_launch("--model x --block-size 8").block_size == 8


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("vllm serve m --kv-transfer-config '{'", "needs a JSON object"),
        ("vllm serve m --speculative-config 7", "needs a JSON object"),
        ("vllm serve m --block-size many", "needs a whole number"),
        ("vllm serve m --kv-offloading-size much", "needs a number"),
        ("vllm serve 'm", "cannot be split"),
    ],
)
def test_commands_that_cannot_be_read(command: str, says: str) -> None:
    with pytest.raises(LaunchError, match=says):
        read_launch(command)


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ('{"blocks_per_chunk":2,"block_size":32}', "not both"),
        ('{"block_size":40}', "no multiple"),
        ('{"blocks_per_chunk":0}', "at least 1"),
    ],
)
def test_chunks_vllm_refuses_too(extra: str, says: str) -> None:
    config = f'{{"kv_connector":"OffloadingConnector","kv_connector_extra_config":{extra}}}'
    launch = read_launch(f"vllm serve m --kv-transfer-config '{config}'")
    with pytest.raises(LaunchError, match=says):
        launch.chunk_blocks(16)
