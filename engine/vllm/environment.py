"""Where vLLM is: an environment named by the user, the project's own CPU installation, or the present environment."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
LOCK = HERE / "requirements-cpu.lock"
MODELS_SCRIPT = HERE / "tiny_models.py"
TEMPLATES = HERE / "templates"
PLUGINS = HERE / "plugins"

READY = ".ready"
"""Written last: a folder without it is the remains of an installation that did not end."""

VARIABLE = "PREFIXPROOF_VLLM"
"""Names an environment that holds vLLM: its folder."""

CACHE_VARIABLE = "PREFIXPROOF_VLLM_CACHE"

_VERSION = "import importlib.metadata as m; print(m.version('vllm'))"


class VllmError(Exception):
    """Something that keeps vLLM from being found, installed or started; the message says what to do."""


@dataclass(frozen=True)
class Environment:
    """An environment with vLLM in it."""

    python: Path
    where: str
    """How it was found, for messages."""

    @property
    def command(self) -> Path:
        """The `vllm` executable."""
        return self.python.with_name("vllm")

    def version(self) -> str:
        """vLLM's version, as its metadata has it. Raises `VllmError` when there is none."""
        done = subprocess.run(  # noqa: S603 - the Python of the environment that was found
            [str(self.python), "-c", _VERSION], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        if done.returncode:
            raise VllmError(f"{self.python} holds no vLLM ({self.where})")
        return done.stdout.strip()


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """`PREFIXPROOF_VLLM_CACHE`, or `prefixproof/vllm` in the user's cache folder."""
    if own := environ.get(CACHE_VARIABLE):
        return Path(own)
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prefixproof" / "vllm"


def environment_key() -> str:
    """Changes when what is installed changes."""
    return _digest(LOCK)


def models_key() -> str:
    """Changes when the tiny models or the packages that make them change."""
    return _digest(LOCK, MODELS_SCRIPT, *sorted(TEMPLATES.glob("*.jinja")))


def environment_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where `make engine-vllm` installs."""
    return cache_folder(environ) / f"env-{environment_key()}"


def models_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the tiny models are made."""
    return cache_folder(environ) / f"models-{models_key()}"


def find(*, gpu: bool, environ: Mapping[str, str] = os.environ) -> Environment:
    """The environment a launch uses. Raises `VllmError` that says what to type when there is none.

    What the user named comes first. A CPU profile prefers the project's own CPU installation, a GPU profile the
    present environment and the PATH.
    """
    if own := environ.get(VARIABLE):
        python = Path(own).expanduser() / "bin" / "python"
        if not python.is_file():
            raise VllmError(f"{VARIABLE}={own} is no environment: it has no bin/python")
        return Environment(python, f"named by {VARIABLE}")
    candidates = list(_candidates(environ))
    for found in candidates if gpu else sorted(candidates, key=lambda c: "make engine-vllm" not in c.where):
        return found
    what = (
        "install vLLM beside prefixproof (pip install 'prefixproof[vllm]')"
        if gpu
        else "type `make engine-vllm` in the checkout (Linux x86-64, Python 3.11, 3 GB)"
    )
    raise VllmError(f"vLLM is not installed: {what}, or name an environment that has it with {VARIABLE}=FOLDER")


def _candidates(environ: Mapping[str, str]) -> Iterator[Environment]:
    beside = Path(sys.executable)
    if beside.with_name("vllm").is_file():
        yield Environment(beside, "the present environment")
    on_path = shutil.which("vllm", path=environ.get("PATH", ""))
    if on_path and Path(on_path).resolve().with_name("python").is_file():
        yield Environment(Path(on_path).resolve().with_name("python"), "on the PATH")
    made = environment_folder(environ)
    if (made / READY).is_file():
        yield Environment(made / "bin" / "python", "made by `make engine-vllm`")


def _digest(*files: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
