"""One gateway to judge, as `gateways/NAME.toml` describes it: how it is installed, configured and started.

The file's name is the target's name. `${home}` (its HOME), `${port}` (where it shall listen), `${upstream}` (base URL
of its engine, without `/v1`) and `${model}` (the engine's model name) are filled in, in commands, environment and
files.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

GATEWAYS = Path(__file__).parent / "gateways"
ENGINE_MODEL = "deepseek-v4-flash"


class TargetsError(Exception):
    """Something that keeps a target from being judged, in words that say what to do."""


class Install(BaseModel):
    """A requirement for pip or for npm, with its version pinned, and what was seen to be missing beside it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pip: str | None = None
    npm: str | None = None
    beside: tuple[str, ...] = ()
    """Further pip requirements: what keeps an old release working with newer dependencies."""

    @model_validator(mode="after")
    def _one_and_pinned(self) -> Install:
        if (self.pip is None) == (self.npm is None):
            raise ValueError("give either pip or npm")
        if "==" not in (self.pip or "==") or "@" not in (self.npm or "@@")[1:]:
            raise ValueError("pin the version: pip NAME==VERSION, npm NAME@VERSION")
        return self

    @property
    def requirement(self) -> str:
        return self.pip or self.npm or ""

    @property
    def package(self) -> str:
        """The package's name without extras and version."""
        if self.npm:
            return self.npm.rpartition("@")[0]
        return self.requirement.partition("==")[0].partition("[")[0]


class Start(BaseModel):
    """`command`'s first word is looked up among the installed executables. `ready` is a path that answers 2xx.

    `needs_upstream`: the gateway asks its engine for something before it is ready.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: tuple[str, ...] = Field(min_length=1)
    ready: str = "/health"
    needs_upstream: bool = False
    env: dict[str, str] = {}
    files: dict[str, str] = {}


class Gateway(BaseModel):
    """A target. `upstream` is what stands behind the recorder: an engine that speaks Chat only, or one that speaks
    Messages too (the reference gateway in front of the same engine), for gateways that do not translate.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str
    version: str
    licence: str
    model: str = ENGINE_MODEL
    entries: tuple[Literal["messages", "chat"], ...] = ("messages", "chat")
    upstream: Literal["chat", "chat and messages"] = "chat"
    install: Install
    start: Start

    @model_validator(mode="after")
    def _installs_what_it_says(self) -> Gateway:
        if not self.install.requirement.endswith(self.version):
            raise ValueError(f"installs {self.install.requirement}, which is not version {self.version}")
        return self


@dataclass(frozen=True)
class Place:
    """Where one run of a gateway happens."""

    home: Path
    port: int
    upstream: str
    words: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        words = {
            "home": str(self.home),
            "port": str(self.port),
            "upstream": self.upstream,
            "model": ENGINE_MODEL,
        }
        object.__setattr__(self, "words", words)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def fill(self, text: str) -> str:
        """Raises `TargetsError` for a placeholder there is no value for."""
        try:
            return Template(text).substitute(self.words)
        except (KeyError, ValueError) as exc:
            raise TargetsError(f"{text!r}: {exc}; placeholders are {', '.join(self.words)}") from None


def load(name: str, folder: Path = GATEWAYS) -> Gateway:
    """Read one target. Raises `TargetsError` when there is none of that name or its file is not as it should be."""
    path = folder / f"{name}.toml"
    if not path.is_file():
        raise TargetsError(f"there is no target {name!r}: choose from {', '.join(names(folder))}")
    try:
        return Gateway.model_validate({"name": name, **tomllib.loads(path.read_text(encoding="utf-8"))})
    except (tomllib.TOMLDecodeError, ValidationError) as exc:
        raise TargetsError(f"{path.name}: {exc}") from None


def names(folder: Path = GATEWAYS) -> list[str]:
    """Names of all targets."""
    return sorted(path.stem for path in folder.glob("*.toml"))
