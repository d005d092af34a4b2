"""``prefixproof-gateway`` as a command."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from gateway_rig import DEAD_URL, scripted_upstream

from reference_gateway import FAULTS
from reference_gateway.cli import main

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def channels(tmp_path: Path) -> Path:
    path = tmp_path / "channels.toml"
    path.write_text(f'[[channels]]\nname = "c"\nurl = "{DEAD_URL}"\nmodels = ["m"]\n', encoding="utf-8")
    return path


@contextmanager
def command(*arguments: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """The running command and the line it announced itself with."""
    full = [sys.executable, "-m", "reference_gateway", *arguments]
    with subprocess.Popen(full, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline()
        finally:
            if process.poll() is None:
                process.kill()


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_it_announces_its_url_serves_logs_and_ends_cleanly(
    channels: Path, tmp_path: Path, stop: signal.Signals
) -> None:
    log = tmp_path / "usage.jsonl"
    with scripted_upstream() as (_, url):
        text = channels.read_text(encoding="utf-8").replace(DEAD_URL, url)
        channels.write_text(f'usage_log = "{log}"\n{text}', encoding="utf-8")
        with command("--config", str(channels), "--port", "0", "--fault", "drop-system") as (process, line):
            assert line.startswith("reference gateway at http://127.0.0.1:")
            assert line.endswith(" (channels: c; fault drop-system)\n")
            base = line.split()[3]
            with httpx.Client(base_url=base, trust_env=False, timeout=20) as client:
                body = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
                assert client.post("/v1/messages", json=body).status_code == 200
            process.send_signal(stop)
            out, err = process.communicate(timeout=20)
            assert (process.returncode, out, err) == (0, "", "")
    (record,) = [json.loads(entry) for entry in log.read_text(encoding="utf-8").splitlines()]
    assert record["usage"]["prompt_tokens"] == 1000


def test_the_list_of_faults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--faults"]) == 0
    out = capsys.readouterr().out
    assert [line.split(":")[0] for line in out.splitlines() if not line.startswith(" ")] == list(FAULTS)
    assert "breaks PFX-02 PFX-03 PFX-19 (tools first: also PIN-01)" in out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "give --config FILE"),
        (["--config", "CHANNELS", "--fault", "typo"], "--fault: there is no fault 'typo'"),
        (["--config", "/no/such/file"], "cannot be read"),
        (["--config", "CHANNELS", "--port", "99999"], "--port: give a number"),
        (["--config", "CHANNELS", "--host", "192.0.2.1"], "cannot listen on 192.0.2.1:3000"),
    ],
)
def test_what_cannot_start_says_why(
    channels: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    assert main([str(channels) if argument == "CHANNELS" else argument for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert complaint in captured.err
    assert all(line.startswith("prefixproof-gateway: ") for line in captured.err.splitlines())


def test_every_wrong_key_is_named_at_once(channels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    channels.write_text('[[channels]]\nname = "c"\nurl = "h"\nmodel = "m"\n', encoding="utf-8")
    assert main(["--config", str(channels)]) == 2
    err = capsys.readouterr().err
    for key in ("channels.0.url: ", "channels.0.models: is missing", "channels.0.model: unknown key"):
        assert key in err


def test_a_usage_log_that_cannot_be_written(channels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = channels.read_text(encoding="utf-8")
    channels.write_text(f'usage_log = "{channels.parent}"\nport = 0\n{text}', encoding="utf-8")
    assert main(["--config", str(channels)]) == 2
    assert "usage_log: " in capsys.readouterr().err
