"""Whole runs as a user starts them, against the embedded pair and against targets that fail."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from load.embedded import PairOptions, embedded_pair

ROOT = Path(__file__).parents[2]
SMALL = ("--sessions", "4", "--pool-tokens", "96000", "--l2-tokens", "400000", "--think", "0", "--sdk-share", "0")


def run(folder: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, result and what was printed."""
    file = folder / "result.json"
    done = subprocess.run(
        [sys.executable, "-m", "load", *arguments, "--result", str(file)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    result = orjson.loads(file.read_bytes()) if file.exists() else {}
    return done.returncode, result, done.stdout + done.stderr


def test_evicted_sessions_come_back_from_the_second_tier_and_the_gate_holds(tmp_path: Path) -> None:
    code, result, said = run(
        tmp_path, "evict", *SMALL, "--gate", "load/second_tier.toml", "--report", str(tmp_path / "r")
    )
    assert code == 0, said
    assert result["total"]["errors"] == 0
    assert result["total"]["requests"] == result["planned_requests"]
    tier = result["second_tier"]
    assert tier["share_loaded"] > 0.95
    assert tier["warm_rate"] > 0.9
    back = next(row for row in result["predicted"] if row["phase"] == "return")
    assert back["measured"] == pytest.approx(back["with_l2"], abs=0.01)
    assert back["l1"] < 0.1 < 0.9 < back["with_l2"]
    assert set(result["cpu_seconds"]) == {"client", "engine", "gateway"}
    assert "<svg" in (tmp_path / "r" / "report.html").read_text()


def test_a_write_only_tier_fails_the_gate_with_l2_02_and_the_cause_recipe(tmp_path: Path) -> None:
    code, result, said = run(tmp_path, "evict", *SMALL, "--gate", "load/second_tier.toml", "--fault", "l2-write-only")
    assert code == 1, said
    assert {h["rule"] for h in result["gate"] if h["holds"] is False} >= {"L2-02"}
    assert "lookups" in result["recipe"][1]
    back = next(row for row in result["predicted"] if row["phase"] == "return")
    assert back["measured"] == pytest.approx(back["l1"], abs=0.01), "what L1 alone gives, within a point"


def test_two_workers_send_what_one_process_sends(tmp_path: Path) -> None:
    same = ("steady", "--seed", "3", "--run", "abcdef", "--think", "0", "--sessions", "6", "--sdk-share", "0.2")
    results: list[dict[str, Any]] = []
    given: tuple[tuple[int, tuple[str, ...]], ...] = ((1, ()), (2, ("--processes", "2")))
    for workers, more in given:
        code, result, said = run(tmp_path, *same, "--pool-tokens", "4000000", "--l2-tokens", "0", *more)
        assert code == 0, said
        assert result["workers"] == workers
        assert result["total"]["requests"] == result["planned_requests"] > 20
        assert result["total"]["unreported"] == 0, "SDKs ask for usage too"
        results.append(result)
    counts = ("requests", "errors", "reported", "prompt", "sent_bytes")
    for by in ("by_client", "by_entry", "by_kind"):
        one, two = ({name: [row[c] for c in counts] for name, row in result[by].items()} for result in results)
        assert one == two
    # Sub-agents begin alike and at once: which of them finds the other's blocks is a matter of milliseconds.
    # So is which of two sessions is the first to send the beginning they share; that one of them is, is none.
    kinds = set(results[0]["by_kind"]) - {"sub-agent"}
    alone, both = (sum(result["by_kind"][kind]["cached"] for kind in kinds) for result in results)
    assert alone == both > 0


def test_a_soak_lasts_its_time_and_another_shape_its_plan(tmp_path: Path) -> None:
    fast = ("--think", "0", "--users", "2", "--mix", "chat-only", "--sdk-share", "0.5")
    code, result, said = run(tmp_path, "soak", *fast, "--max-seconds", "8")
    assert code == 0, said
    assert result["stopped"] == "the time bound of 8 s"
    assert result["seconds"] >= 8
    assert result["total"]["unreported"] == 0
    sessions = {row[result["columns"].index("session")] for row in result["requests"]}
    assert len(sessions) > 4, "new ones begin when others are over"
    assert "ended as asked: the time bound of 8 s" in said
    code, result, said = run(tmp_path, "soak", *fast, "--sessions", "2", "--max-seconds", "60")
    assert (code, result["stopped"]) == (0, None), said
    assert result["total"]["requests"] == result["planned_requests"]


def test_locusts_own_end_is_told_like_any_other(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    with embedded_pair(PairOptions()) as pair:
        command = ("-m", "locust", "-f", "load/locustfile.py", "--headless", "-t", "6s", "-u", "2", "--only-summary")
        shape = ("--host", pair.gateway, "--shape", "soak", "--think", "0", "--sdk-share", "0", "--result", str(file))
        done = subprocess.run(
            [sys.executable, *command, *shape], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert orjson.loads(file.read_bytes())["stopped"] == "the time bound of 6 s (--run-time)"
        assert "ended as asked: the time bound of 6 s (--run-time)" in done.stdout
        assert "hit rate" in done.stdout
        file.unlink()
        process = subprocess.Popen(
            [sys.executable, *command, *shape, "-t", "5m", "--max-seconds", "300"],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        with process:
            next(line for line in process.stdout if " s  soak: " in line and " 0 requests" not in line)
            process.send_signal(signal.SIGINT)
            said = process.stdout.read()
        assert process.returncode == 12, said
        assert "ended early: cut short" in said
        assert orjson.loads(file.read_bytes())["total"]["errors"] == 0


@contextmanager
def target(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that does `answer` with each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        stop = threading.Event()

        def serve() -> None:
            held = []
            while not stop.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                held.append(connection)
                answer(connection)
            for connection in held:
                connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            stop.set()
            thread.join()


def garbage(connection: socket.socket) -> None:
    connection.recv(1_000_000)
    body = b"data: \xff\xfe{]\n\n" * 3
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
    connection.sendall(head % len(body) + body)
    connection.close()


def refusal(connection: socket.socket) -> None:
    connection.recv(1_000_000)
    body = b'{"error":{"type":"rate_limit_error","message":"slow down"}}'
    head = b"HTTP/1.1 429 Too Many Requests\r\nconnection: close\r\nset-cookie: who=me\r\ncontent-length: %d\r\n\r\n"
    connection.sendall(head % len(body) + body)
    connection.close()


def countless(connection: socket.socket) -> None:
    connection.recv(1_000_000)
    usage = b'{"prompt_tokens":%d,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":0}}' % (9 * 10**18)
    body = (
        b'data: {"choices":[{"delta":{"content":"a"}}]}\n\ndata: {"choices":[],"usage":%s}\n\ndata: [DONE]\n\n' % usage
    )
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
    connection.sendall(head % len(body) + body)
    connection.close()


def test_counts_that_no_prompt_has_are_no_counts(tmp_path: Path) -> None:
    with target(countless) as url:
        code, result, said = run(
            tmp_path, "storm", "--host", url, "--sessions", "4", "--sdk-share", "0", "--mix", "chat-only"
        )
    assert code == 0, said
    total = result["total"]
    assert (total["prompt"], total["unreported"], total["errors"]) == (0, 8, 0)


@pytest.mark.parametrize(
    ("answer", "code", "says"),
    [
        pytest.param(lambda c: c.close(), 10, "", id="dies"),
        pytest.param(lambda _: None, 10, "no whole answer within 1 s", id="stalls"),
        pytest.param(garbage, 1, "not JSON", id="garbage"),
        pytest.param(refusal, 1, "status 429: rate_limit_error", id="refuses"),
    ],
)
def test_a_target_that_fails_ends_the_run_in_time_and_is_counted(
    tmp_path: Path, answer: Callable[[socket.socket], None], code: int, says: str
) -> None:
    limits = ("--sessions", "30", "--timeout", "1", "--max-seconds", "60", "--sdk-share", "0", "--mix", "chat-only")
    with target(answer) as url:
        found, result, said = run(tmp_path, "storm", "--host", url, *limits)
    assert found == code, said
    total = result["total"]
    assert total["errors"] == total["requests"] > 20
    assert sum(result["errors"].values()) == total["errors"]
    assert any(says in text for text in result["errors"])
    assert result["seconds"] < 90


def test_an_endless_run_of_garbage_ends_early(tmp_path: Path) -> None:
    limits = ("--think", "0", "--max-seconds", "60", "--sdk-share", "0", "--mix", "chat-only")
    with target(garbage) as url:
        code, result, said = run(tmp_path, "soak", "--host", url, *limits)
    assert code == 1, said
    assert result["stopped"] == "25 requests in a row failed"
    assert not result["target_gone"]
    assert 25 <= result["total"]["errors"] == result["total"]["requests"] < 40


def test_load_on_others_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    code, result, said = run(tmp_path, "steady", "--host", "http://gw.example:3000")
    assert (code, result) == (2, {})
    assert "--yes-load gw.example" in said
