"""Installs a gateway into a folder of its own, once for each locked version: a virtual environment or an npm prefix.

The folders lie in a cache outside the checkout. An existing installation is used instead where the environment variable
`PREFIXPROOF_TARGET_<NAME>` names its folder, e.g. `PREFIXPROOF_TARGET_LITELLM_1_108_7=$HOME/litellm-venv`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gateway_spec import Gateway, TargetsError

Say = Callable[[str], None]

STAMP = ".installed"
"""Holds what was installed; written last, so that a broken installation is made again."""

INSTALLING_S = 1_800


@dataclass(frozen=True)
class Installed:
    """An installed gateway: where its executables are, and the version that was found there."""

    folder: Path
    executables: Path
    version: str
    packages: str
    """Every installed package with its version, one a line."""

    def executable(self, name: str) -> str:
        """Raises `TargetsError` when the installation has no such command."""
        path = self.executables / name
        if not path.is_file():
            raise TargetsError(f"{self.folder} has no executable {name!r}")
        return str(path)


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """`PREFIXPROOF_TARGETS_CACHE`, or `prefixproof/targets` in the user's cache folder."""
    if own := environ.get("PREFIXPROOF_TARGETS_CACHE"):
        return Path(own)
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prefixproof" / "targets"


def variable_of(name: str) -> str:
    """The environment variable that names an existing installation."""
    return "PREFIXPROOF_TARGET_" + re.sub(r"\W", "_", name).upper()


def install(gateway: Gateway, say: Say, environ: Mapping[str, str] = os.environ) -> Installed:
    """Find or make the installation. Raises `TargetsError` when it fails or is of another version."""
    own = environ.get(variable_of(gateway.name))
    folder = Path(own).resolve() if own else cache_folder(environ) / gateway.name
    if own:
        say(f"uses {folder}, as {variable_of(gateway.name)} says")
    else:
        _make(gateway, folder, say)
    executables = folder / ("node_modules/.bin" if gateway.install.npm else "bin")
    version, packages = _look(gateway, folder)
    if version != gateway.version:
        raise TargetsError(f"{folder} holds version {version or 'none'}, not {gateway.version}")
    return Installed(folder, executables, version, packages)


def _make(gateway: Gateway, folder: Path, say: Say) -> None:
    wanted = "\n".join((gateway.install.requirement, *gateway.install.beside))
    stamp = folder / STAMP
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        say(f"is installed in {folder}")
        return
    say(f"installing {' '.join(wanted.split())} into {folder} (once) ...")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if gateway.install.npm:
        npm = shutil.which("npm")
        if npm is None:
            raise TargetsError("npm not found: install Node.js 20 or later")
        _run([npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), gateway.install.npm], folder)
    else:
        _run([sys.executable, "-m", "venv", str(folder)], folder)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        _run([*pip, *wanted.splitlines()], folder)
    stamp.write_text(wanted, encoding="utf-8")


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=INSTALLING_S, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).splitlines()[-12:])
        raise TargetsError(f"{' '.join(command[:4])} ... ended with {done.returncode}:\n{last}")


def _look(gateway: Gateway, folder: Path) -> tuple[str | None, str]:
    """The version of the gateway's package, and all packages."""
    if gateway.install.npm:
        return _look_npm(gateway.install.package, folder)
    python = folder / "bin" / "python"
    if not python.is_file():
        raise TargetsError(f"{folder} is no virtual environment: it has no bin/python")
    done = subprocess.run(
        [str(python), "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    versions = dict(line.split("==", 1) for line in done.stdout.splitlines() if "==" in line)
    named = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in versions.items()}
    return named.get(re.sub(r"[-_.]+", "-", gateway.install.package).lower()), done.stdout


def _look_npm(package: str, folder: Path) -> tuple[str | None, str]:
    lines, found = [], None
    for manifest in sorted((folder / "node_modules").glob("**/package.json")):
        name = manifest.parent.relative_to(folder / "node_modules").as_posix()
        if name.count("/") > (1 if name.startswith("@") else 0):
            continue
        version = str(json.loads(manifest.read_text(encoding="utf-8")).get("version"))
        lines.append(f"{name}@{version}")
        if name == package:
            found = version
    return found, "\n".join(lines) + "\n"
