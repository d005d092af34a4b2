"""Gateways as processes of their own, and a command that restarts them.

suite -> gateway process -> recorder of the run -> embedded engine
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from restart_script import start, stop, wait
from suite_targets import free_port

from conformance.pair import ALIAS, MODEL, engine_config
from conformance.servers import serve
from engine.embedded import create_app as engine_app

SCRIPT = Path(__file__).parent / "restart_script.py"


@dataclass(frozen=True)
class Rig:
    """A gateway process in front of a recorder that is not there yet, and what a run needs to judge it."""

    folder: Path
    url: str
    engine: str
    listen: str

    def command(self, mode: str) -> tuple[str, ...]:
        """A command that restarts the gateway, in one way or another (see `restart_script.main`)."""
        return (sys.executable, str(SCRIPT), str(self.folder), mode)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def starts(self) -> int:
        """How often the gateway was started."""
        return len((self.folder / "starts").read_text(encoding="utf-8").split())


@contextmanager
def gateway_process(folder: Path, fault: str | None = None) -> Iterator[Rig]:
    """The reference gateway, `python -m reference_gateway`, until the context ends."""
    command = [sys.executable, "-m", "reference_gateway", "--config", str(folder / "channels.toml")]
    with _rig(folder, [*command, *(["--fault", fault] if fault else [])]) as rig:
        (folder / "channels.toml").write_text(
            f'host = "127.0.0.1"\nport = {rig.url.rpartition(":")[2]}\n[[channels]]\nname = "vllm"\n'
            f'url = "http://{rig.listen}"\nmodels = ["{MODEL}"]\naliases = {{ {ALIAS} = "{MODEL}" }}\n'
            "strip_anthropic_billing_header = true\nanthropic_messages_exclude_cache = true\n",
            encoding="utf-8",
        )
        start(folder)
        wait(rig.port, answering=True)
        yield rig


@contextmanager
def script_process(folder: Path, script: Path) -> Iterator[Rig]:
    """A gateway that is a script of its own, called with its port and its upstream's address."""
    with _rig(folder, [sys.executable, str(script)]) as rig:
        state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        state["command"] += [rig.url.rpartition(":")[2], rig.listen]
        (folder / "state.json").write_text(json.dumps(state), encoding="utf-8")
        start(folder)
        wait(rig.port, answering=True)
        yield rig


@contextmanager
def _rig(folder: Path, command: Sequence[str]) -> Iterator[Rig]:
    port, listen = free_port(), f"127.0.0.1:{free_port()}"
    state = {"command": list(command), "port": port}
    (folder / "state.json").write_text(json.dumps(state), encoding="utf-8")
    config = engine_config(template="tools-first", block_size=64, tokenizer="fast")
    with serve(engine_app(config)) as engine:
        try:
            yield Rig(folder, f"http://127.0.0.1:{port}", engine.url, listen)
        finally:
            stop(folder)
