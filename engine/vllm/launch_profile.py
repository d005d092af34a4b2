"""Launch profiles: what `vllm serve` is started with, as files a person can read.

`profiles/NAME.toml` has a title, the device (`cpu` or `cuda`), a model, `[flags]` (vLLM's own names; true is `--name`,
false `--no-name`, a list several words, a table JSON) and `[env]`. `tiny:KIND` stands for the folder of a tiny model.
"""

from __future__ import annotations

import json
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.vllm.environment import VllmError

PROFILES = Path(__file__).parent / "profiles"
TINY = "tiny:"

Value = bool | int | float | str | list[Any] | dict[str, Any]


class _File(BaseModel):
    """What a profile's file may hold."""

    model_config = ConfigDict(extra="forbid", strict=True)

    title: str
    device: Literal["cpu", "cuda"]
    model: str = Field(min_length=1)
    flags: dict[str, Value] = {}
    env: dict[str, str] = {}


@dataclass(frozen=True)
class Profile:
    """One launch. `flags` and `env` keep the file's order."""

    name: str
    title: str
    device: Literal["cpu", "cuda"]
    model: str
    flags: Mapping[str, Value] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def tiny_kind(self) -> str | None:
        """The tiny model it serves, or None where it serves another."""
        return self.model.removeprefix(TINY) if self.model.startswith(TINY) else None

    @property
    def served_name(self) -> str:
        """The model name that requests use."""
        name = self.flags.get("served-model-name", self.model)
        return str(name[0]) if isinstance(name, list) else str(name)

    def overridden(self, words: Sequence[str], env: Mapping[str, str] | None = None) -> Profile:
        """The profile with vLLM flags of the command line in place of its own. Raises `VllmError`.

        `--name value...` replaces a flag, `--no-name` takes it back, `--name.key.sub value` changes one value inside
        a JSON flag, a word without dashes in front is the model.
        """
        flags, model = dict(self.flags), self.model
        index = 0
        if words and not words[0].startswith("--"):
            model, index = words[0], 1
        while index < len(words):
            word = words[index]
            if not word.startswith("--") or word == "--":
                raise VllmError(f"{word!r} is no vLLM flag: flags begin with --")
            index += 1
            name, equals, joined = word.removeprefix("--").replace("_", "-").partition("=")
            if equals:
                joined = word.partition("=")[2]
                values = [joined]
            else:
                values = []
                while index < len(words) and not words[index].startswith("--"):
                    values.append(words[index])
                    index += 1
            _set(flags, name, values)
        if "model" in flags:
            model = str(flags.pop("model"))
        return replace(self, model=model, flags=flags, env={**self.env, **(env or {})})

    def command(self, *, models: Path, host: str, port: int) -> list[str]:
        """The words behind `vllm`. `models` is the folder of the tiny models."""
        words = ["serve", _fill(self.model, models), "--host", host, "--port", str(port)]
        for name, value in self.flags.items():
            if isinstance(value, bool):
                words.append(f"--{name}" if value else f"--no-{name}")
            elif isinstance(value, dict):
                words += [f"--{name}", json.dumps(value)]
            else:
                values = value if isinstance(value, list) else [value]
                words += [f"--{name}", *(_fill(str(one), models) for one in values)]
        return words

    def shown(self) -> str:
        """The launch as a person would type it, one flag a line."""
        words = self.command(models=Path("MODELS"), host="HOST", port=0)[6:]
        lines = [f"# {self.name}: {self.title}"]
        lines += [f"{name}={shlex.quote(value)} \\" for name, value in self.env.items()]
        line = f"vllm serve {shlex.quote(self.model)}"
        for word in words:
            if word.startswith("--"):
                lines.append(line + " \\")
                line = f"    {word}"
            else:
                line += f" {shlex.quote(word)}"
        return "\n".join([*lines, line])


def names(folder: Path = PROFILES) -> list[str]:
    """All profiles."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def load(name: str, folder: Path = PROFILES) -> Profile:
    """A profile by its name, or by the path of a file of the user's. Raises `VllmError`."""
    path = Path(name) if name.endswith(".toml") else folder / f"{name}.toml"
    try:
        held = tomllib.loads(path.read_text(encoding="utf-8"))
        read = _File.model_validate(held)
    except FileNotFoundError:
        raise VllmError(
            f"there is no profile {name!r}: choose from {', '.join(names(folder))}, or name a .toml file"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise VllmError(f"{path}: {error}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise VllmError(f"{path}: {where}: {first['msg']}") from None
    return Profile(path.stem, read.title, read.device, read.model, read.flags, read.env)


def _set(flags: dict[str, Value], name: str, values: list[str]) -> None:
    outer, *inner = name.split(".")
    if inner:
        held = flags.get(outer, {})
        if not isinstance(held, dict) or len(values) != 1:
            raise VllmError(f"--{name}: {outer} holds no JSON object, or there is not one value")
        flags[outer] = _changed(held, inner, _parsed(values[0]))
    elif not values:
        positive = outer.removeprefix("no-")
        negative = outer.startswith("no-") and positive in flags
        if negative and not isinstance(flags[positive], bool):
            del flags[positive]  # what takes a value is taken back by leaving it out
        elif negative:
            flags[positive] = False
        else:
            flags.pop(f"no-{outer}", None)
            flags[outer] = True
    elif len(values) == 1:
        parsed = _parsed(values[0])
        flags[outer] = parsed if isinstance(parsed, dict) else values[0]
    else:
        flags[outer] = list(values)


def _changed(held: Mapping[str, Any], keys: Sequence[str], value: object) -> dict[str, Any]:
    """A copy of nested objects with one value set. Keys of JSON flags are written with underscores or dashes."""
    key = next((own for own in held if own.replace("_", "-") == keys[0]), keys[0].replace("-", "_"))
    if len(keys) == 1:
        return {**held, key: value}
    below = held.get(key, {})
    return {**held, key: _changed(below if isinstance(below, dict) else {}, keys[1:], value)}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _fill(text: str, models: Path) -> str:
    return str(models / text.removeprefix(TINY)) if text.startswith(TINY) else text
