"""One running vLLM: started from a profile, watched until it answers, ended with all its processes."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from engine.embedded.server import PortError, listen
from engine.vllm.environment import PLUGINS, READY, Environment, VllmError, models_folder
from engine.vllm.failure import why_it_ended
from engine.vllm.launch_profile import Profile
from engine.vllm.processes import die_with_parent, end_session

Say = Callable[[str], None]

START_S = 900.0
"""A large model on a GPU loads for many minutes."""

GRACE_S = 20.0
STILL_S = 15.0
POLL_S = 0.25

_STAGES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"Initializing a V1 LLM engine"), "starting the engine"),
    (re.compile(r"Loading (?:weights|safetensors)|Starting to load model"), "loading weights"),
    (re.compile(r"KV cache size: ([\d,]+ tokens)"), "pool: {}"),
    (re.compile(r"Capturing CUDA graphs"), "capturing CUDA graphs"),
    (re.compile(r"Starting vLLM (?:API )?server"), "opening the port"),
)
_QUIET = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
_ALWAYS = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


class VllmServer:
    """A vLLM process and what is known of it. `start` returns when it answers."""

    def __init__(
        self, profile: Profile, environment: Environment, *, log: Path, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        self.profile = profile
        self.environment = environment
        self.host = host
        self.port = port or _free_port(host)
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where a client reaches it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def pid(self) -> int:
        """The id of vLLM's own main process, which leads a session with all the others."""
        return self._started.pid

    def start(self, *, say: Say, timeout_s: float = START_S) -> None:
        """Start it and wait until it answers. Raises `VllmError`; then nothing of it is left."""
        models = models_folder()
        if self.profile.tiny_kind and not (models / READY).is_file():
            raise VllmError("the tiny models are not made: type `make engine-vllm` in the checkout")
        with _free(self.host, self.port):
            pass
        command = [
            str(self.environment.command),
            *self.profile.command(models=models, host=self.host, port=self.port),
        ]
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            begin = output.tell()
            self._process = subprocess.Popen(  # noqa: S603 - vLLM, from a profile of the user's choice
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment(os.environ),
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        try:
            self._wait(say, timeout_s, begin)
        except BaseException:
            self.stop()
            raise

    def wait(self, seconds: float) -> int | None:
        """Wait for its end; None where it still runs after that long."""
        try:
            return self._started.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def why(self) -> str:
        """Why it ended, as far as its log says."""
        return why_it_ended(self.log)

    def stop(self, *, grace_s: float = GRACE_S) -> bool:
        """End it and all its processes. True when none had to be killed."""
        return self._process is None or end_session(self._process, grace_s=grace_s)

    @property
    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise VllmError("vLLM was not started")
        return self._process

    def _environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The caller's, without what would point vLLM's Python at other packages, and with the profile's own."""
        own = dict(self.profile.env)
        paths = [str(PLUGINS), *filter(None, [own.pop("PYTHONPATH", "")])]
        kept = {name: value for name, value in environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        quiet = _QUIET if self.profile.tiny_kind else {}
        return {**kept, **_ALWAYS, **quiet, **own, "PYTHONPATH": os.pathsep.join(paths)}

    def _wait(self, say: Say, timeout_s: float, begin: int) -> None:
        begun = time.monotonic()
        said_at, stage = begun, "importing"
        with httpx.Client(trust_env=False, timeout=5) as client, self.log.open("rb") as log:
            log.seek(begin)
            while (code := self._started.poll()) is None:
                answers = self._answers(client)
                for line in log.readlines():
                    if (new := _stage(line.decode(errors="replace"))) and new != stage:
                        stage, said_at = new, time.monotonic()
                        say(f"{stage} ({said_at - begun:.0f} s)")
                if answers:
                    return
                now = time.monotonic()
                if now - begun > timeout_s:
                    raise VllmError(f"vLLM does not answer after {timeout_s:.0f} s ({stage}); its log: {self.log}")
                if now - said_at > STILL_S:
                    say(f"still {stage} ({now - begun:.0f} s)")
                    said_at = now
                time.sleep(POLL_S)
        raise VllmError(f"vLLM ended at start ({code}): {self.why()}. Its log: {self.log}")

    def _answers(self, client: httpx.Client) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return client.get(f"{self.url}/health").is_success
        return False


@contextmanager
def running(server: VllmServer, *, say: Say, timeout_s: float = START_S) -> Iterator[VllmServer]:
    """The server, answering, until the context ends."""
    server.start(say=say, timeout_s=timeout_s)
    try:
        yield server
    finally:
        server.stop()


def _stage(line: str) -> str | None:
    for pattern, text in _STAGES:
        if found := pattern.search(line):
            return text.format(*found.groups())
    return None


@contextmanager
def _free(host: str, port: int) -> Iterator[None]:
    """Raises `VllmError` when the address cannot be listened on."""
    try:
        with listen(host, port):
            yield
    except PortError as error:
        raise VllmError(str(error)) from None


def _free_port(host: str) -> int:
    try:
        with listen(host, 0) as probe:
            port: int = probe.getsockname()[1]
            return port
    except PortError as error:
        raise VllmError(str(error)) from None
    except socket.gaierror as error:
        raise VllmError(f"cannot listen on {host}: {error}") from None
