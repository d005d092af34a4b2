"""One vLLM from start to end, with a stand-in for vLLM: readiness, clear refusals, nothing left behind."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import fake_vllm
import httpx
import pytest

from engine import cli
from engine.embedded.server import listen, url_of
from engine.vllm import environment
from engine.vllm.environment import PLUGINS, VllmError
from engine.vllm.launch_profile import Profile
from engine.vllm.processes import session_members
from engine.vllm.server import VllmServer, running

PROFILE = Profile("test", "a test", "cpu", "org/model", {"block-size": 32}, {"EXTRA": "1"})


def server_of(tmp_path: Path, profile: Profile = PROFILE) -> VllmServer:
    return VllmServer(profile, fake_vllm.make(tmp_path / "environment"), log=tmp_path / "logs" / "vllm.log")


def gone(pid: int) -> bool:
    """True once a process has ended; it may take its parent a moment to say so."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.05)
    return False


def test_it_answers_and_ends_with_everything_it_started(tmp_path: Path) -> None:
    said: list[str] = []
    with running(server_of(tmp_path), say=said.append) as server:
        assert httpx.get(f"{server.url}/health", trust_env=False).is_success
        log = server.log.read_text()
        [child] = [int(pid) for pid in re.findall(r"^child (\d+)$", log, re.MULTILINE)]
        assert {server.pid, child} <= set(session_members(server.pid))
    assert "'--block-size', '32'" in log
    assert f"path {PLUGINS} extra 1" in log
    assert any(line.startswith("starting the engine (") for line in said)
    assert session_members(server.pid) == []
    assert gone(child)


def test_what_does_not_end_when_asked_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_VLLM", "stubborn")
    server = server_of(tmp_path)
    server.start(say=lambda _: None)
    assert server.stop(grace_s=0.2) is False
    assert session_members(server.pid) == []


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            "ValueError: To serve at least one request with the models's max seq len (65536), (1.0 GiB "
            "KV cache is needed",
            "the pool is too small for the model length: lower --max-model-len",
        ),
        ("vllm serve: error: unrecognized arguments: --no-such", "this version of vLLM does not take that flag"),
        ("OSError: [Errno 98] Address already in use", "the port is taken"),
        ("Exception: CPU Offloading is currently only supported on CUDA-alike and XPU GPUs", "needs a GPU"),
        ("KeyError: 'something nobody has seen'", "KeyError: 'something nobody has seen'"),
    ],
)
def test_its_own_last_error_is_the_reason(
    line: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_VLLM", f"die:{line}")
    server = server_of(tmp_path)
    with pytest.raises(VllmError) as refused:
        server.start(say=lambda _: None)
    text = str(refused.value)
    assert text.startswith("vLLM ended at start (1): ")
    assert says in text
    assert "Engine core initialization failed" not in text
    assert str(server.log) in text
    assert "\n" not in text


def test_one_that_never_answers_is_given_up_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_VLLM", "silent")
    server = server_of(tmp_path)
    with pytest.raises(VllmError, match=r"does not answer after 1 s \(starting the engine\)"):
        server.start(say=lambda _: None, timeout_s=1)
    assert session_members(server.pid) == []


def test_a_taken_port_is_said_before_anything_is_started(tmp_path: Path) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = int(url_of(taken).rsplit(":", 1)[1])
        server = VllmServer(PROFILE, fake_vllm.make(tmp_path / "e"), log=tmp_path / "vllm.log", port=port)
        with pytest.raises(VllmError, match=rf"cannot listen on 127\.0\.0\.1:{port}.*Choose another --port"):
            server.start(say=lambda _: None)
    assert not server.log.exists()


def test_tiny_models_that_were_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(environment.CACHE_VARIABLE, str(tmp_path / "cache"))
    server = server_of(tmp_path, Profile("test", "a test", "cpu", "tiny:llama"))
    with pytest.raises(VllmError, match="tiny models are not made: type `make engine-vllm`"):
        server.start(say=lambda _: None)


class TestCommand:
    """`prefixproof-engine serve --backend vllm`."""

    @pytest.fixture
    def words(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        fake_vllm.make(tmp_path / "environment")
        monkeypatch.setenv(environment.VARIABLE, str(tmp_path / "environment"))
        profile = tmp_path / "mine.toml"
        profile.write_text('title = "mine"\ndevice = "cuda"\nmodel = "org/model"\n[flags]\nserved-model-name = "m"\n')
        log = str(tmp_path / "vllm.log")
        return ["serve", "--backend", "vllm", "--profile", str(profile), "--port", "0", "--log", log]

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_it_serves_until_a_signal(self, number: signal.Signals, words: list[str], tmp_path: Path) -> None:
        with subprocess.Popen(
            [sys.executable, "-m", "engine", *words, "--seed", "7"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            assert process.stdout
            assert process.stderr
            ready = process.stdout.readline()
            found = re.fullmatch(r"prefixproof-engine: m at (http://127\.0\.0\.1:\d+)\n", ready)
            assert found, ready
            log = (tmp_path / "vllm.log").read_text()
            [child] = [int(pid) for pid in re.findall(r"^child (\d+)$", log, re.MULTILINE)]
            process.send_signal(number)
            rest, said = process.communicate(timeout=60)
        assert (process.returncode, rest) == (0, "")
        assert "'--seed', '7'" in log
        assert "vLLM 0.32.0 (named by PREFIXPROOF_VLLM), profile mine; log: " in said
        assert gone(child)

    def test_one_that_ends_by_itself_is_exit_3_with_the_reason(
        self, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("FAKE_VLLM", "die-later")
        assert cli.main(words) in (2, 3)  # it dies of the first health check, which may or may not be answered
        assert "ValueError: out of memory, or so - there is not enough memory" in capsys.readouterr().err

    def test_the_launch_can_be_shown_without_starting_anything(
        self, words: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        assert cli.main([*words, "--show", "--block-size", "64", "--env", "A=1"]) == 0
        shown = capsys.readouterr().out
        assert "vllm serve org/model \\\n    --served-model-name m \\\n    --block-size 64\n" in shown
        assert "A=1 \\\n" in shown
        assert not (tmp_path / "vllm.log").exists()

    @pytest.mark.parametrize(
        ("extra", "says"),
        [
            (["--profile", "none"], "there is no profile 'none'"),
            (["stray", "words"], "'words' is no vLLM flag"),
            (["--env", "A"], "--env A: give NAME=VALUE"),
            (["--host", "256.0.0.1"], "cannot listen on 256.0.0.1"),
        ],
    )
    def test_words_that_cannot_work_are_one_line(
        self, extra: list[str], says: str, words: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert cli.main([*words, *extra]) == 2
        said = capsys.readouterr().err.splitlines()
        assert says in said[-1]

    def test_without_vllm_it_says_what_to_type(
        self, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.delenv(environment.VARIABLE)
        monkeypatch.setenv(environment.CACHE_VARIABLE, str(tmp_path))
        monkeypatch.setenv("PATH", "")
        assert cli.main(words) == 2
        assert "vLLM is not installed: " in capsys.readouterr().err
