"""The same arguments give the same bytes in another process, with another hash seed."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import conformance
from conformance.sessions import CLIENTS, ChatCodingSession, ClaudeCodeSession, dual_text_request
from conformance.sessions.tool_definitions import compact

ROOT = Path(conformance.__file__).parent.parent

PROGRAM = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[2]]
from test_session_determinism import digest
print(digest())
"""


def digest() -> str:
    """A hash over everything this package gives out."""
    seen = hashlib.sha256()
    shapes: tuple[dict[str, Any], ...] = (
        {},
        {"shape": "full"},
        {"tools": 5, "tools_bytes": 6001, "kinds": ("text", "tool", "tool")},
        {"base_bytes": 20_000},
    )
    for client in (ClaudeCodeSession, ChatCodingSession):
        for options in shapes:
            s = client(seed="determinism", salt="pp-determinism", **options)
            for size in (500, 3000, 800, 1200):
                s.grow(size)
                seen.update(s.encoded())
            seen.update(compact([s.headers(), s.fragments()]).encode())
    for recorded in CLIENTS.values():
        for request in recorded.play(seed="determinism", salt="pp-determinism"):
            seen.update(compact([request.path, dict(request.body), dict(request.headers), request.group]).encode())
    seen.update(compact(dual_text_request("pp-determinism", 1001)).encode())
    return seen.hexdigest()


@pytest.mark.parametrize("hash_seed", ["0", "4242"])
def test_another_process_gives_the_same_bytes(hash_seed: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(ROOT), str(Path(__file__).parent)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == digest()


def test_order_of_use_does_not_matter() -> None:
    first = ClaudeCodeSession(seed="order", salt="pp-order-1")
    first.grow(900)
    ClaudeCodeSession(seed="order", salt="pp-order-2", shape="full").grow(4000)
    again = ClaudeCodeSession(seed="order", salt="pp-order-1")
    again.body()
    again.fragments()
    again.grow(900)
    assert again.encoded() == first.encoded()
