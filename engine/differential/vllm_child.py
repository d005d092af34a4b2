"""vLLM in an environment of its own: a child process that plays scripts (`vllm_worker`), one after another."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from engine.differential.scripts import Script

WORKER = Path(__file__).with_name("vllm_worker.py")


class VllmError(RuntimeError):
    """vLLM could not be started, or failed over a script; the message has its own last words."""


class VllmChild:
    """A running worker. `python` is an interpreter that has vLLM; `wheel` an unpacked other release before it."""

    def __init__(self, python: str | Path, wheel: str | Path | None = None) -> None:
        if not Path(python).is_file():
            raise VllmError(f"{python} is no Python: give the interpreter of an environment that has vLLM")
        env = dict(os.environ)
        env.pop("PYTHONPATH", None)
        if wheel is not None:
            env["PYTHONPATH"] = str(wheel)
        env["PYTHONHASHSEED"] = "0"
        # A pipe that nobody reads would fill up.
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it lives as long as the child
        self._process = subprocess.Popen(  # noqa: S603 - the user's own interpreter
            [str(python), "-P", str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=env,
            text=True,
        )
        try:
            hello = self._read()
        except VllmError:
            self.close()
            raise
        self.version = str(hello["vllm"])

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(timeout=30)
            self._log.seek(0)
            last = [text for text in self._log if text.strip()][-1:] or ["it said nothing"]
            raise VllmError(f"vLLM's worker ended with status {self._process.returncode}: {last[0].strip()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def play(self, script: Script, *, detail: bool = False, quiet: bool = False) -> dict[str, Any]:
        """vLLM's trace of a script; `quiet`: only what its requests found, in less time.

        Raises `VllmError` if the worker is gone. A geometry vLLM refuses is `{"unsupported": why}`, an exception of its
        own `{"error": what}`.
        """
        return self._ask({**script.message(detail=detail), "quiet": quiet})

    def serve(self, script: Script, served: Sequence[tuple[int, Sequence[int]]]) -> dict[str, Any]:
        """What each prompt of `served` (length, ids of its full blocks) finds on an engine like the script's.

        `found` has (from L1, from L2) a prompt, in tokens; otherwise as `play`.
        """
        return self._ask({**script.message(), "quiet": True, "served": served})

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()
        return self._read()

    def close(self) -> None:
        """End the worker."""
        if self._process.stdin and not self._process.stdin.closed:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()

    def __enter__(self) -> "VllmChild":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def workers(python: str | Path, wheel: str | Path | None, count: int) -> Iterator[Sequence[VllmChild]]:
    """Several workers side by side."""
    children: list[VllmChild] = []
    try:
        for _ in range(count):
            children.append(VllmChild(python, wheel))  # noqa: PERF401 - those started so far must be ended
        yield children
    finally:
        for child in children:
            child.close()
