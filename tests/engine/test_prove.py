"""`prove`: the right word for the models and geometries that were run on vLLM, and clear refusals."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine import cli
from engine.embedded.groups import describe, parse_groups
from engine.prove.launch import read_launch
from engine.prove.model_config import ModelError, groups_of
from engine.prove.sweep import Row, lengths
from engine.prove.verdict import Setting, candidates, in_words, word_of

KV = (
    '--kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_connector_extra_config":{"cpu_bytes_to_use":9}}\''
)
LAYERS = ["sliding_attention", "full_attention"] * 2
LLAMA = {"model_type": "llama", "num_hidden_layers": 2}
GEMMA3 = {"model_type": "gemma3_text", "num_hidden_layers": 4, "sliding_window": 128, "layer_types": LAYERS}
COHERE2 = {"model_type": "cohere2", "num_hidden_layers": 4, "sliding_window": 128, "layer_types": LAYERS}
EXAONE = {
    "model_type": "exaone_moe",
    "num_hidden_layers": 4,
    "sliding_window": 128,
    "layer_types": LAYERS,
    "num_nextn_predict_layers": 1,
}
MTP = '--speculative-config \'{"method":"mtp","num_speculative_tokens":1}\''
EAGLE = '--speculative-config \'{"method":"eagle","model":"draft","num_speculative_tokens":2}\''
NGRAM = '--speculative-config \'{"method":"ngram","num_speculative_tokens":2}\''
RETENTION = "--prefix-cache-retention-interval 32"

# What vLLM 0.32.0 loaded of a re-sent prompt: anything, or nothing.
MODELS = [
    (GEMMA3, "", True),
    (GEMMA3, EAGLE, True),
    (LLAMA, NGRAM, True),
    (LLAMA, EAGLE, True),
    (EXAONE, "", True),
    (EXAONE, MTP, False),
    (EXAONE, f"{MTP} {RETENTION}", True),
    (COHERE2, "", False),
    ({**GEMMA3, "sliding_window": 129}, "", False),
    ({**COHERE2, "sliding_window": 127}, "", True),
    (COHERE2, RETENTION, True),
]


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = cli.main(["prove", *words])
    out, complaint = capsys.readouterr()
    return status, out, complaint


def config_file(folder: Path, config: dict[str, Any]) -> str:
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return str(path)


@pytest.mark.parametrize(("config", "flags", "loads"), MODELS)
def test_models_as_they_were_on_vllm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], config: dict[str, Any], flags: str, loads: bool
) -> None:
    launch = f"vllm serve tiny --block-size 32 {KV} {flags}"
    status, out, complaint = run(
        capsys, "--model-config", config_file(tmp_path, config), "--launch", launch, "--length", "1570", "--json"
    )
    told = json.loads(out)
    assert (told["word"], status, complaint) == (("loads", 0, "") if loads else ("never loads", 1, ""))
    assert "embedded model" in told["speaker"]
    if not loads:
        assert told["groups"][told["veto"]].startswith("window")
        assert told["remedies"][0]["change"] == RETENTION
        assert told["remedies"][0]["least"] >= 1_500


def test_a_length_dependent_geometry_is_called_one(capsys: pytest.CaptureFixture[str]) -> None:
    groups = "mla:256,window:64:128,window:64:128:draft"
    status, out, _ = run(
        capsys, "--groups", groups, "--vllm-version", "0.29.0", "--length", "30208", "--length", "30300"
    )
    assert status == 1
    assert out.startswith("loads only for some lengths")
    status, out, _ = run(
        capsys, "--groups", groups, "--vllm-version", "0.32.0", "--length", "30208", "--length", "30300"
    )
    assert (status, out.splitlines()[0]) == (0, "loads")


def test_the_incidents_geometry_is_vetoed_by_its_draft_group_or_not_by_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = config_file(tmp_path, {"model_type": "deepseek_v4", "num_hidden_layers": 43})
    launch = f'vllm serve flash --block-size 256 {KV} -sc \'{{"method":"dspark","num_speculative_tokens":7}}\''
    words = ("--model-config", config, "--launch", launch, "--length", "30208", "--json")
    by_release = {}
    for version in ("0.29.0", "0.32.0"):
        _status, out, _ = run(capsys, *words, "--vllm-version", version)
        told = json.loads(out)
        assert told["groups"] == ["mla:256", "window:64:128", "window:64:128:draft", "window:4:8", "window:8:128"]
        by_release[version] = told["word"]
    assert by_release["0.29.0"] == "never loads"
    assert by_release["0.32.0"] in ("loads", "never loads")


def test_the_answer_comes_first_and_says_who_vetoes_and_what_helps(capsys: pytest.CaptureFixture[str]) -> None:
    _status, out, _ = run(capsys, "--groups", "full:16,window:16:129", "--length", "1550")
    lines = out.splitlines()
    assert lines[0] == (
        "never loads: group 1 (sliding window 129) vetoes; --prefix-cache-retention-interval 16 fixes it"
    )
    assert "no vLLM was run" in lines[1]
    assert any(line.split()[:2] == ["1550", "0"] for line in lines)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--groups", "full:16", "--launch", "vllm serve m"], "configures no second tier"),
        (["--groups", "full:16", "--launch", f"vllm serve m {KV} --no-enable-prefix-caching"], "caching off"),
        (
            ["--groups", "full:16", "--launch", "vllm serve m --kv-transfer-config.kv_connector NixlConnector"],
            "only OffloadingConnector",
        ),
        (["--groups", "full:16", "--vllm-version", "0.12"], "the rules of"),
        (["--groups", "full:16", "--wheel", "w"], "name an interpreter"),
        (["--groups", "full:16", "--python", "p", "--vllm-version", "0.32"], "installed vLLM answers"),
        (["--groups", "full:16", "--python", "no/such/python"], "is no Python"),
        (["--groups", "half:16"], "is no KV group"),
        (["--model-config", "no/such/config.json"], "cannot be read"),
        (["--groups", "full:16", "--launch", "vllm serve m --block-size x"], "whole number"),
    ],
)
def test_what_cannot_be_proved_is_said_in_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    status, out, complaint = run(capsys, *words)
    assert (status, out) == (2, "")
    assert says in complaint
    assert complaint.count("\n") == 1


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_file_that_is_no_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    status, _out, complaint = run(capsys, "--model-config", str(path))
    assert status == 2
    assert "config.json" in complaint


def groups_text(config: dict[str, Any], launch: str) -> str:
    return describe(groups_of(config, read_launch(launch)).groups)


def test_groups_of_models() -> None:
    serve = "vllm serve m --block-size 32"
    assert groups_text(LLAMA, serve) == "full:32:x2"
    assert groups_text(GEMMA3, serve) == "window:32:128:x2,full:32:x2"
    assert groups_text(COHERE2, serve) == "window:32:129:x2,full:32:x2"
    assert groups_text(EXAONE, f"{serve} {MTP}") == "window:32:128:x2:draft,window:32:128,full:32:x2"
    full_drafter = {**EXAONE, "mtp_layer_types": ["full_attention"]}
    assert groups_text(full_drafter, f"{serve} {MTP}") == "window:32:128:x2,full:32:x2:draft,full:32"
    deepseek = {"model_type": "deepseek_v3", "num_hidden_layers": 3, "kv_lora_rank": 512, "num_nextn_predict_layers": 1}
    assert groups_text(deepseek, serve) == "mla:32:x3"
    assert groups_text(deepseek, f"{serve} {MTP}") == "mla:32:x4:draft"
    assert (
        groups_text({"model_type": "mistral", "num_hidden_layers": 2, "sliding_window": 64}, serve) == "window:32:64:x2"
    )
    assert groups_text({"model_type": "qwen2", "num_hidden_layers": 2, "sliding_window": 64}, serve) == "full:32:x2"
    gemma = {
        "model_type": "gemma3",
        "text_config": {"model_type": "gemma3_text", "num_hidden_layers": 6, "sliding_window": 9},
    }
    assert groups_text(gemma, serve) == ",".join(["window:32:9"] * 5 + ["full:32"])
    assert groups_text(GEMMA3, f"{serve} --disable-hybrid-kv-cache-manager") == "full:32:x4"
    assert groups_of(LLAMA, read_launch("vllm serve m")).notes
    assert groups_of(LLAMA, read_launch(f"{serve} {EAGLE}")).unmarked_drafter


@pytest.mark.parametrize(
    ("config", "launch"),
    [
        ({}, "vllm serve m"),
        ({"num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"]}, "vllm serve m"),
        ({"num_hidden_layers": 1, "layer_types": ["sliding_attention"]}, "vllm serve m"),
        ({"num_hidden_layers": 2, "mamba_d_state": 16}, "vllm serve m"),
        (LLAMA, f"vllm serve m {MTP}"),
        (
            {"model_type": "qwen2", "num_hidden_layers": 2, "sliding_window": 64, "use_sliding_window": True},
            "vllm serve",
        ),
    ],
)
def test_models_whose_groups_are_not_known_are_refused(config: dict[str, Any], launch: str) -> None:
    with pytest.raises(ModelError):
        groups_of(config, read_launch(launch))


def test_lengths_cover_the_remainders() -> None:
    found = lengths(parse_groups("mla:256,window:64:128"), 1)
    assert {tokens % 256 for tokens in found} >= {0, 1, 16, 64, 128, 255}
    assert min(found) > 512
    assert len(lengths(parse_groups("full:4"), 1)) == 4


def test_words_and_candidates() -> None:
    rows = [Row(100, 0, (0, 0), 1), Row(101, 96, (0, 0), None)]
    assert word_of(rows) == "loads only for some lengths"
    assert word_of(rows[:1]) == "never loads"
    assert word_of(rows[1:]) == "loads"
    setting = Setting(groups=parse_groups("full:16,window:16:129,full:16:draft"), chunk_blocks=2)
    changes = [change for change, _setting in candidates(setting, "0.32.0")]
    assert changes[0] == "--prefix-cache-retention-interval 32"
    assert len(changes) == 3
    assert [change for change, _ in candidates(setting, "0.29.0")] == changes[1:]


def test_no_remedy_is_said() -> None:
    from engine.prove.verdict import Verdict

    verdict = Verdict("never loads", "the test", (Row(100, 0, (0, 0), 0),), 0)
    assert any("without the tier" in line for line in in_words(verdict, parse_groups("window:16:128")))
