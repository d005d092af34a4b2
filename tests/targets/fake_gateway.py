"""An installation that needs no registry: a folder that looks like a virtual environment and starts this project's own
reference gateway, or anything else, under the name `fakegw`."""

from __future__ import annotations

import sys
from pathlib import Path

from gateway_spec import Gateway, Install, Start

ROOT = Path(__file__).resolve().parents[2]
CHANNELS = """
[[channels]]
name = "engine"
url = "${upstream}/v1"
dialect = "openai-chat"
models = ["${model}"]
strip_anthropic_billing_header = true
anthropic_messages_exclude_cache = true
"""


def installation(folder: Path, script: str = "", version: str = "1.0") -> Path:
    """Make the folder. `script` is Python; without one, the command starts the reference gateway with its arguments."""
    own = "import runpy; runpy.run_module('reference_gateway', run_name='__main__', alter_sys=True)"
    program = f"import os, sys\nos.chdir({str(ROOT)!r})\nsys.path.insert(0, {str(ROOT)!r})\n{own}\n"
    (folder / "bin").mkdir(parents=True)
    _executable(folder / "bin" / "fakegw", f"#!{sys.executable}\n{script or program}")
    _executable(folder / "bin" / "python", f"#!/bin/sh\necho Fake.GW=={version}\n")
    return folder


def gateway(*words: str, name: str = "fake-1.0", env: dict[str, str] | None = None) -> Gateway:
    """A target that is installed by `installation`."""
    return Gateway(
        name=name,
        title="Fake",
        version="1.0",
        licence="none",
        install=Install(pip="fake-gw[x]==1.0"),
        start=Start(
            command=("fakegw", "--config", "${home}/channels.toml", "--port", "${port}", *words),
            files={"channels.toml": CHANNELS},
            env=env or {},
        ),
    )


def _executable(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
