"""The doctor on logs, launches, metrics and installations."""

from __future__ import annotations

import base64
import hashlib
import json
import tracemalloc
from pathlib import Path

import incident_log
import pytest

from engine import cli
from engine.doctor.launch import from_log_line
from engine.doctor.logs import rotated, summarise

SCRAPES = Path(__file__).parents[1] / "engine_metrics" / "scrapes"
WRITE_ONLY = """\
# TYPE vllm:kv_offload_store_bytes counter
vllm:kv_offload_store_bytes_total{engine="0",model_name="m"} 5e+09
# TYPE vllm:external_prefix_cache_queries counter
vllm:external_prefix_cache_queries_total{engine="0",model_name="m"} 900000.0
# TYPE vllm:external_prefix_cache_hits counter
vllm:external_prefix_cache_hits_total{engine="0",model_name="m"} 0.0
# TYPE vllm:kv_offload_lookup_sync_delay_seconds histogram
vllm:kv_offload_lookup_sync_delay_seconds_count{engine="0",model_name="m"} 70.0
vllm:kv_offload_lookup_sync_delay_seconds_sum{engine="0",model_name="m"} 0.01
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.005
# TYPE vllm:prompt_tokens_by_source counter
vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_compute"} 900000.0
"""
COHERE = {
    "model_type": "cohere2",
    "num_hidden_layers": 2,
    "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"],
}


def doctor(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = cli.main(["doctor", *words])
    out, err = capsys.readouterr()
    return code, out + err


def test_the_incidents_log_gives_the_incidents_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = incident_log.write(tmp_path)
    code, said = doctor(capsys, "--log", str(log))
    assert code == 1
    for line in (
        "in 3 files",
        "kv_offload_store_bytes          logged 1,901 times",
        "kv_offload_load_bytes           logged 0 times",
        "External prefix cache hit rate  0.0 % 4,000 times, anything else 0 times",
        "vLLM 0.26.0; launch: the log",
        "TRAP   group-veto: with speculation, vLLM 0.25 and 0.26 take every group for a draft group",
        "vllm-project/vllm 47890, 47891, 48911",
        "doubt  cumem",
        "the tier stores and never loads, unless no prompt ever came back:",
        "1. does it store? yes, 22.5 GB",
        "2. is it asked? yes: 3,802 lookups",
        "at 08-17 09:25:22 the pool was 0.5 % used while 34,844 prompt tokens/s were computed and 20.6 GB stored",
        "4. can it be too small? no: 22.5 GB were stored in 960 GB, so nothing was ever pushed out of it",
        "it frees 960 GB of host memory and the bandwidth of 22.5 GB written in vain",
        "no remedy: --kv-offloading-size, another door to the same connector",
    ):
        assert line in said, said
    assert "ranks" not in said, "eight workers for eight ways"


def test_fewer_workers_than_the_launch_has_ways(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "vllm.log"
    log.write_text("\n".join(incident_log.lines(10, 5, workers=7)) + "\n")
    assert "ranks: 7 tensor-parallel ranks speak in the log, the launch has 8" in doctor(capsys, "--log", str(log))[1]


def test_rotated_files_are_read_oldest_first_and_others_are_not(tmp_path: Path) -> None:
    log = incident_log.write(tmp_path)
    assert [path.name for path in rotated(log)] == ["vllm.log.2.gz", "vllm.log.1", "vllm.log"]
    assert summarise(rotated(log)).load_lines == 0


def test_a_long_log_is_read_in_little_memory(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    with log.open("w") as file:
        for line in incident_log.lines(20_000, 10_000):
            file.write(line + "\n")
    tracemalloc.start()
    try:
        summary = summarise([log])
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert (summary.store_lines, sum(summary.external_rates.values())) == (10_001, 20_000)


def test_a_log_that_was_read_back_has_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "vllm.log"
    extra = incident_log.COPIES.format(at="10:00:00", stored=5) + ", vllm:kv_offload_load_bytes=7"
    rate = incident_log.STATS.format(at="10:00:01", prompt=1, usage=1, external=3.5)
    log.write_text("\n".join([*incident_log.lines(10, 5), extra, rate]) + "\n")
    said = doctor(capsys, "--log", str(log))[1]
    assert "kv_offload_load_bytes           logged 1 times" in said
    assert "0.0 % 10 times, anything else 1 times" in said
    assert "unless no prompt ever came back" not in said
    assert "may be no fault" not in said


def test_the_labelled_bytes_of_older_logs_are_read(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text("INFO KV Transfer metrics: GPU_to_CPU_total_bytes=10, CPU_to_GPU_total_bytes=0\n" * 3)
    summary = summarise([log])
    assert (summary.store_lines, summary.load_lines, summary.stored, summary.loaded) == (3, 3, 30, 0)


def test_the_launch_is_read_off_a_log_line_though_it_is_no_python() -> None:
    odd = incident_log.LAUNCH.replace(
        "'max_model_len': 262144", "'runner': <RunnerOption.AUTO: 1>, 'max_model_len': 262144"
    )
    for line in (incident_log.LAUNCH, odd):
        launch = from_log_line(line)
        assert launch is not None
        assert (launch.block_size, launch.tier_bytes, launch.has_tier) == (256, 960_000_000_000, True)
        assert launch.json("speculative-config")["method"] == "dspark"
        assert launch.switch("enable-cumem-allocator") is True
    assert from_log_line("INFO nothing of the kind") is None


def test_a_live_tier_that_is_never_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metrics, config = tmp_path / "metrics.txt", tmp_path / "config.json"
    metrics.write_text(WRITE_ONLY)
    config.write_text(json.dumps(COHERE))
    words = ("--metrics", str(metrics), "--config", "cpu-window-129", "--model-config", str(config))
    code, said = doctor(capsys, *words, "--vllm-version", "0.32.0")
    assert code == 1
    assert "KV groups: sliding window 129, full attention" in said
    assert "TRAP   group-veto: group 0 (sliding window 129)" in said
    assert "2. is it asked? yes: 70 lookups, 900,000 tokens" in said
    assert "3. does it ever hit? every lookup missed; 0.5 % of the pool is in use while 900,000 tokens" in said
    assert "4. can it be too small? what was stored is 18.6 times its 268 MB" in said
    assert "5. does a group veto? yes. group 0 (sliding window 129): 129 mod 32 = 1" in said


@pytest.mark.parametrize(
    ("old", "new", "decides"),
    [
        ("bytes_total{engine", "bytes_total{engine", "5. does a group veto?"),
        ("70.0", "0.0", "2. is it asked? never: no lookup was made"),
        ("queries_total{engine=\"0\",model_name=\"m\"} 900000.0", "queries_total{engine=\"0\",model_name=\"m\"} 0.0",
         "2. is it asked? no tokens were: L1 still holds all that is asked for"),
        ("hits_total{engine=\"0\",model_name=\"m\"} 0.0", "hits_total{engine=\"0\",model_name=\"m\"} 64.0",
         "3. does it ever hit? 64 tokens hit and nothing was loaded"),
    ],
    ids=["veto", "never asked", "L1 holds all", "hits without loads"],
)  # fmt: skip
def test_the_recipe_ends_where_it_is_decided(
    old: str, new: str, decides: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert old in WRITE_ONLY
    metrics, config = tmp_path / "metrics.txt", tmp_path / "config.json"
    metrics.write_text(WRITE_ONLY.replace(old, new))
    config.write_text(json.dumps(COHERE))
    words = ("--metrics", str(metrics), "--config", "cpu-window-129", "--model-config", str(config), "--json")
    assert cli.main(["doctor", *words, "--vllm-version", "0.32.0"]) == 1
    held = json.loads(capsys.readouterr().out)
    last = held["steps"][-1]
    number = len(held["steps"]) - 1
    assert f"{number}. {last['asked']} {last['found']}".startswith(decides)
    assert last["decides"] is True


def test_a_tier_that_is_read_back_is_not_accused(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = doctor(capsys, "--metrics", str(SCRAPES / "vllm-0.32.0-tier-loaded.txt"))
    assert (code, "never loads" in said) == (0, False)
    assert "no known trap in what was given" in said


def test_a_tier_that_nothing_was_pushed_into_yet_is_not_accused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = tmp_path / "metrics.txt"
    pool = 'vllm:cache_config_info{block_size="256",enable_prefix_caching="True",engine="0",num_gpu_blocks="10000"} 1.0'
    metrics.write_text(f"{WRITE_ONLY}# TYPE vllm:cache_config_info gauge\n{pool}\n")
    code, said = doctor(capsys, "--metrics", str(metrics))
    assert code == 0
    assert "the tier stores and has not loaded yet, which may be no fault: what was computed fills 35 % of L1" in said
    assert cli.main(["inspect", str(metrics)]) == 0
    assert "stored and not loaded yet, which is no fault" in capsys.readouterr().out
    metrics.write_text(metrics.read_text().replace("10000", "1000"))
    assert doctor(capsys, "--metrics", str(metrics))[0] == 1


def test_a_short_log_says_nothing_of_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "vllm.log"
    log.write_text("".join(f"{line}\n" for line in incident_log.lines(8, 8) if line != incident_log.LAUNCH))
    code, said = doctor(capsys, "--log", str(log))
    assert code == 0
    assert "the log tells of 8 intervals with stores only" in said


def installation(folder: Path, *, patched: bool) -> Path:
    """An environment with one watched file, and the wheel's record of it."""
    packages = folder / "lib" / "python3.11" / "site-packages"
    name = "vllm/v1/kv_offload/cpu/manager.py"
    (packages / name).parent.mkdir(parents=True)
    (packages / "vllm" / "__init__.py").touch()
    (packages / name).write_text("released\n")
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"released\n").digest()).rstrip(b"=").decode()
    record = packages / "vllm-0.26.0.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text(f"{name},sha256={digest},9\n")
    if patched:
        (packages / name).write_text("released, and patched\n")
    return folder


def test_a_patched_scheduler_is_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = installation(tmp_path, patched=True)
    code, said = doctor(
        capsys, "--installation", str(folder), "--config", "vllm serve m --enable-prompt-tokens-details"
    )
    assert code == 0, "a doubt is no trap"
    assert "doubt  patched: vllm/v1/kv_offload/cpu/manager.py differ from the release" in said
    assert said.startswith("vLLM 0.26.0; ")


def test_a_released_scheduler_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = installation(tmp_path, patched=False)
    assert "no known trap" in doctor(capsys, "--installation", str(folder))[1]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "give at least one of --metrics, --log, --config, --installation"),
        (["--log", "none.log"], "none.log: no such log"),
        (["--config", "none"], "--config none: neither a file nor a profile (cpu-hybrid"),
        (["--config", "echo hello there"], "no launch of vLLM"),
        (["--config", "vllm serve 'unbalanced"], "No closing quotation"),
        (["--config", "cpu-tiny", "--model-config", "none.json"], "none.json: No such file"),
        (["--installation", "."], "holds no vLLM"),
        (["--metrics", "none.txt"], "none.txt: No such file"),
    ],
)
def test_what_cannot_be_read_is_one_line(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = doctor(capsys, *words)
    assert code == 2
    assert says in said
    assert said.count("\n") == 1


def test_a_launch_out_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "launch.sh"
    file.write_text(
        "# ours\nVLLM_X=1 \\\nvllm serve m \\\n    --no-enable-prefix-caching \\\n    --enable-prompt-tokens-details\n"
    )
    code, said = doctor(capsys, "--config", str(file))
    assert code == 1
    assert "TRAP   caching-off" in said
    assert "details-off" not in said
