"""Launch profiles: readable, complete, and every flag of theirs can be overridden."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.vllm import command
from engine.vllm.environment import PLUGINS, VllmError
from engine.vllm.launch_profile import Profile, load, names
from engine.vllm.tiny_models import KINDS

MODELS = Path("models")


def words(profile: Profile) -> list[str]:
    return profile.command(models=MODELS, host="127.0.0.1", port=1)


def value(profile: Profile, flag: str) -> str:
    shown = words(profile)
    return shown[shown.index(flag) + 1]


@pytest.mark.parametrize("name", names())
def test_a_profile_says_what_it_is_and_starts_what_it_says(name: str) -> None:
    profile = load(name)
    shown = words(profile)
    assert profile.title
    assert shown[0] == "serve"
    assert shown[2:6] == ["--host", "127.0.0.1", "--port", "1"]
    assert "--enable-prompt-tokens-details" in shown, "usage without cached tokens proves nothing"
    assert profile.tiny_kind is None or profile.tiny_kind in KINDS
    assert profile.device == ("cpu" if name.startswith("cpu-") else "cuda")
    assert profile.shown().startswith(f"# {name}: ")


def test_a_tiny_model_is_a_folder_of_the_cache() -> None:
    assert words(load("cpu-tiny"))[1] == str(MODELS / "llama")


def test_the_offload_module_a_profile_names_is_shipped() -> None:
    named = [load(name).flags.get("kv-transfer-config") for name in names() if name.startswith("cpu-")]
    modules = {c["kv_connector_extra_config"]["spec_module_path"] for c in named if isinstance(c, dict)}
    assert {path.stem for path in PLUGINS.glob("*.py")} == modules


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--block-size", "64"], ["--block-size", "64"]),
        (["--block-size=64"], ["--block-size", "64"]),
        (["--block_size", "64"], ["--block-size", "64"]),
        (["--served-model-name", "a", "b"], ["--served-model-name", "a", "b"]),
        (["--seed", "7"], ["--seed", "7"]),
        (["--enable-log-requests"], ["--enable-log-requests"]),
    ],
)
def test_a_flag_replaces_the_profiles_or_is_added(flags: list[str], expected: list[str]) -> None:
    shown = " ".join(words(load("cpu-tiny").overridden(flags)))
    assert " ".join(expected) in shown
    assert shown.count(expected[0] + " ") + shown.endswith(expected[0]) == 1


def test_flags_are_taken_back() -> None:
    profile = load("cpu-tiny").overridden(["--no-enforce-eager", "--no-tool-call-parser"])
    assert "--no-enforce-eager" in words(profile)
    assert "--enforce-eager" not in words(profile)
    assert not [word for word in words(profile) if "tool-call-parser" in word]


def test_the_model_can_be_another() -> None:
    assert words(load("cpu-tiny").overridden(["org/model", "--seed", "1"]))[1] == "org/model"
    assert words(load("cpu-tiny").overridden(["--model", "org/model"]))[1] == "org/model"


def test_one_value_inside_a_json_flag_can_be_changed() -> None:
    profile = load("cpu-l2")
    before = json.loads(value(profile, "--kv-transfer-config"))
    path = "--kv-transfer-config.kv_connector_extra_config"
    changed = profile.overridden([f"{path}.cpu_bytes_to_use", "1000", f"{path}.host-copy-drop", "0.5"])
    after = json.loads(value(changed, "--kv-transfer-config"))
    expected = before["kv_connector_extra_config"] | {"cpu_bytes_to_use": 1000, "host_copy_drop": 0.5}
    assert after == before | {"kv_connector_extra_config": expected}
    assert json.loads(value(profile, "--kv-transfer-config")) == before, "the profile itself stays as it is"


def test_a_whole_json_flag_can_be_replaced() -> None:
    other = {"kv_connector": "Other"}
    changed = load("cpu-l2").overridden(["--kv-transfer-config", json.dumps(other)])
    assert json.loads(value(changed, "--kv-transfer-config")) == other


def test_environment_variables_are_added() -> None:
    assert load("cpu-tiny").overridden([], {"A": "1"}).env["A"] == "1"


@pytest.mark.parametrize(
    ("flags", "says"),
    [(["model", "stray"], "'stray' is no vLLM flag"), (["--block-size.x", "1"], "block-size holds no JSON object")],
)
def test_words_that_are_no_flags(flags: list[str], says: str) -> None:
    with pytest.raises(VllmError, match=says):
        load("cpu-tiny").overridden(flags)


def test_a_profile_of_the_users(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('title = "mine"\ndevice = "cuda"\nmodel = "org/m"\n[flags]\nenable-prompt-tokens-details = true\n')
    profile = load(str(file))
    assert (profile.name, profile.served_name) == ("mine", "org/m")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("title = ", "mine.toml"),
        ('title = "t"\ndevice = "tpu"\nmodel = "m"\n', "device"),
        ('title = "t"\ndevice = "cpu"\nmodel = "m"\nflag = 1\n', "flag"),
        ('title = "t"\ndevice = "cpu"\nmodel = "m"\n[env]\nA = 1\n', "env.A"),
    ],
)
def test_a_profile_that_is_none_says_where(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(VllmError, match=says):
        load(str(file))


def test_an_unknown_profile_names_the_known() -> None:
    with pytest.raises(VllmError, match=r"no profile 'none': choose from .*cpu-tiny"):
        load("none")


def test_the_profiles_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.list_profiles() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == names()
    assert {line.split()[1] for line in lines} == {"cpu", "cuda"}


def test_the_incidents_launch() -> None:
    """The figures of the incident, single-GPU and 8-way."""
    for name, ways in (("h200-deepseek-v4-flash", "8"), ("h200-deepseek-v4-flash-1gpu", "1")):
        profile = load(name)
        connector = json.loads(value(profile, "--kv-transfer-config"))
        assert (connector["kv_connector"], connector["kv_role"]) == ("OffloadingConnector", "kv_both")
        assert value(profile, "--block-size") == "256"
        assert value(profile, "--tensor-parallel-size") == ways
        assert json.loads(value(profile, "--speculative-config")) == {"method": "dspark", "num_speculative_tokens": 7}
        assert "--enable-cumem-allocator" in words(profile)
        assert "--no-disable-hybrid-kv-cache-manager" in words(profile)
    eight = json.loads(value(load("h200-deepseek-v4-flash"), "--kv-transfer-config"))
    assert eight["kv_connector_extra_config"]["cpu_bytes_to_use"] == 960_000_000_000
