"""Restarting a target by its owner's command, and watching it go and come back.

The command is run without a shell, in a session of its own and without the target's key in its environment. What it
starts is left running: it may be the gateway itself.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from tempfile import TemporaryFile
from typing import IO, Any

import httpx

from conformance.errors import RestartFailed
from conformance.vocabulary import spoken
from conformance.wire.endpoint import API_KEY_VARIABLE, Endpoint
from conformance.wire.problems import broken, redact

LOOK_S = 0.1
"""Between two looks at the target."""

LOOK_AGAIN_S = 1.0
"""Between two looks at one that limits its rate."""

LONGEST_LOOK_S = 5.0
"""How long one of them may wait for its answer."""

CALM_S = 0.5
"""How long a target must answer as before until it is taken for back."""

SETTLE_S = 5.0
"""How long is waited for what may still come: a target to go away although the command has ended, or a command to end
although the target is back (it may be the gateway, in the foreground)."""

LOOKS_A_CONNECTION = 50
"""Servers close a connection by themselves after some number of requests, the least known number is 100."""

TOO_MANY = 429
"""A status of whoever is there and counts requests."""

SHOWN_BYTES = 4096
SHOWN_CHARACTERS = 180
"""How much of the end of what a failed command wrote is read, and how much of that is shown."""


@dataclass(frozen=True)
class Waits:
    """Seconds: a restart may take `within`, and `settle` is `SETTLE_S`."""

    within: float
    settle: float = SETTLE_S
    calm: float = CALM_S


def program_name(command: Sequence[str]) -> str:
    """The command as a report may name it: arguments may carry secrets, folders are a machine's own."""
    return f"`{PurePath(command[0]).name}{' ...' if len(command) > 1 else ''}`"


def runnable(command: Sequence[str]) -> bool:
    """True when there is such a program."""
    return shutil.which(command[0]) is not None


def restart(command: Sequence[str], endpoint: Endpoint, waits: Waits) -> str:
    """Run the command and wait until the target answers as it did before.

    Returns by what it showed that it was away, e.g. "connections were refused"; "" where it answered all the time.
    Raises RestartFailed where the command cannot be run or fails, and where the target is not back, or the command has
    neither ended nor done anything to it, when time is up.
    """
    with _Watch(endpoint) as watch, TemporaryFile() as stderr:
        watch.learn()
        process = _started(command, stderr)
        try:
            return _watched(command, process, watch, waits)
        except _CommandFailed as failed:
            words = _last_words(stderr, command, endpoint.api_key)
            raise RestartFailed(f"{_named(command)} {failed}: {words}") from None
        finally:
            if process.poll() is None:  # let it run, and take note of its end whenever that comes
                threading.Thread(target=process.wait, name="prefixproof-restart", daemon=True).start()


class _CommandFailed(Exception):
    """How the command ended, where that is no success."""


def _watched(command: Sequence[str], process: subprocess.Popen[bytes], watch: _Watch, waits: Waits) -> str:
    began = last_bad = time.monotonic()
    ended_at: float | None = None
    signs, late = 0, False  # late: the target went after the command had ended, so that more of it may still be to go
    while True:
        code = process.poll()
        if code:
            raise _CommandFailed(f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}")
        up, now = watch.look(), time.monotonic()
        if watch.signs and not signs:
            late = ended_at is not None
        if code == 0 and ended_at is None:
            ended_at = now
        if not up or watch.signs > signs:
            last_bad, signs = now, watch.signs
        calm = now - last_bad
        overdue = now - began >= waits.within
        settled = signs or overdue or (ended_at is not None and now - ended_at >= waits.settle)
        if ended_at is not None and settled and calm >= (waits.settle if late else waits.calm):
            return watch.away
        if ended_at is None and signs and calm >= waits.settle:
            return watch.away
        if overdue:
            raise RestartFailed(_overdue(command, process, watch, up, waits.within))
        time.sleep(LOOK_AGAIN_S if watch.limited else LOOK_S)


def _started(command: Sequence[str], stderr: IO[bytes]) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if name != API_KEY_VARIABLE}
    try:
        return subprocess.Popen(  # noqa: S603 - the user's own command, and no shell
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,  # a file: a pipe would break under a gateway that outlives the run
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise RestartFailed(f"{_named(command)} cannot be run: {error.strerror or error}") from None


def _overdue(command: Sequence[str], process: subprocess.Popen[bytes], watch: _Watch, up: bool, within_s: float) -> str:
    running = process.poll() is None
    if running and not watch.away and up:
        process.terminate()  # it has done nothing to the target, so it is not the target
        return f"{_named(command)} did not end within {within_s:g} s, and the target was never away: it was stopped"
    still = " (the command still runs)" if running else ""
    return f"the target is not back {within_s:g} s after {_named(command)} was started: {watch.last}{still}"


def _named(command: Sequence[str]) -> str:
    return f"the restart command {program_name(command)}"


def _last_words(stderr: IO[bytes], command: Sequence[str], api_key: str | None) -> str:
    """The end of what the command wrote, as a report may show it."""
    size = stderr.seek(0, os.SEEK_END)
    stderr.seek(max(0, size - SHOWN_BYTES))
    text = stderr.read().decode("utf-8", "replace")
    if size > SHOWN_BYTES:  # half a secret is known to nobody
        text = text.partition("\n")[2] or text.partition(" ")[2]
    line = " ".join(spoken(redact(text, api_key), program_name(command)).split())
    if len(line) > SHOWN_CHARACTERS:
        line = "…" + line[-SHOWN_CHARACTERS:].partition(" ")[2]
    return line or "it wrote nothing to its standard error"


class _Watch:
    """Looks at a target over one kept connection. `away` says by what it first showed that it was away, `signs` how
    many looks did, `last` how the last look that failed ended."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.away = ""
        self.signs = 0
        self.last = ""
        self.limited = False  # the last look was one too many for it
        self._endpoint = endpoint
        self._status: int | None = None  # as it answered before the restart
        self._keeps = False  # whether it keeps connections open
        self._looks = 0  # over the present connection
        self._announced = False  # that the target would close it
        self._client = self._fresh()

    def __enter__(self) -> _Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def learn(self) -> None:
        """See how the target answers, before anything is done to it."""
        for _ in range(2):
            status, connected = self._get()
            if status is not None and status < 500 and status != TOO_MANY:
                self._status = status
            self._keeps = status is not None and not connected
            time.sleep(LOOK_S)  # as between two looks: a connection is kept for so long, or not
        self.away, self.signs = "", 0

    def look(self) -> bool:
        """True when the target answers as it did before."""
        if self._looks >= LOOKS_A_CONNECTION:
            self._client.close()
            self._client = self._fresh()
        announced, first = self._announced, self._looks == 0
        status, connected = self._get()
        self.limited = status == TOO_MANY
        if connected and not first and self._keeps and not announced:
            self._note("a connection that it kept open was closed")
        if status is None:
            return False
        if self._status is not None and status != self._status and not self.limited:
            self.last = f"it answers HTTP {status} instead of {self._status}"
            if status >= 500:
                self._note(f"it answered HTTP {status}")
            return False
        return True

    def _get(self) -> tuple[int | None, bool]:
        """The status of an answer, None without one; and whether a new connection was made for it."""
        connected = False

        def trace(name: str, _: Any) -> None:
            nonlocal connected
            connected = connected or name == "connection.connect_tcp.started"

        self._looks += 1
        try:
            response = self._client.get(f"{self._endpoint.url}/v1/models", extensions={"trace": trace})
        except httpx.HTTPError as error:
            why = broken(error)
            if why is None:
                raise
            self.last = f"no answer ({why.kind}: {why.detail})"
            if why.kind == "refused":
                self._note("connections were refused")
            elif why.kind == "reset":
                self._note("a connection was cut")
            self._announced = True  # whatever comes next needs a new connection
            return None, connected
        limited = response.status_code == TOO_MANY  # the next look comes later than a connection may be kept
        self._announced = limited or response.headers.get("connection", "").lower() == "close"
        return response.status_code, connected

    def _note(self, what: str) -> None:
        self.away = self.away or what
        self.signs += 1

    def _fresh(self) -> httpx.Client:
        endpoint = self._endpoint
        self._looks, self._announced = 0, False
        return httpx.Client(
            headers={**endpoint.marks, **endpoint.credentials},
            timeout=min(LONGEST_LOOK_S, endpoint.timeout_s),
            limits=httpx.Limits(max_connections=1, keepalive_expiry=None),
            **endpoint.client_options,
        )
