"""The options of a run, one list for `prefixproof-load` and for Locust's own command line.

The key is in none of them: it comes from the environment, so that no web page or process list shows it.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from conformance.wire.endpoint import API_KEY_VARIABLE
from load.errors import LoadProblem
from load.limits import check_host
from load.mixes import MIXES
from load.shapes import SHAPES, Pressure

DEFAULT_MODEL: Final = "llm-prime"


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """One run, as plain data that a master can send to its workers."""

    shape: str = "steady"
    host: str = ""
    model: str = DEFAULT_MODEL
    engine: str | None = None
    seed: int = 0
    run: str = ""
    mix: str = "agents"
    users: int = 4
    sessions: int | None = None
    pool_tokens: int | None = None
    l2_tokens: int | None = None
    factor: float = 2.0
    returning: float = 0.25
    pause: float = 0.0
    think: float = 1.0
    sdk_share: float = 0.05
    max_seconds: float = 120.0
    max_requests: int = 5_000
    max_tokens: int = 20_000_000
    answer_tokens: int = 16
    timeout: float = 60.0
    trace: str | None = None
    trace_scale: float = 0.0
    trace_requests: int | None = None
    gate: str | None = None
    report: str | None = None
    result: str | None = None
    yes_load: str | None = None

    def pressure(self, pool_tokens: int | None) -> Pressure:
        """What a shape is made from; `pool_tokens` is what the engine's metrics said."""
        return Pressure(
            seed=self.seed,
            users=self.users,
            sessions=self.sessions,
            mix=self.mix,
            pool_tokens=self.pool_tokens or pool_tokens,
            factor=self.factor,
            returning=self.returning,
            pause=self.pause,
            think=self.think,
            seconds=self.max_seconds,
            requests=self.max_requests,
            sdk_share=self.sdk_share,
        )

    def as_dict(self) -> dict[str, Any]:
        """For JSON and for workers; there is no key in it."""
        return asdict(self)


def from_dict(data: dict[str, Any]) -> LoadOptions:
    """What `as_dict` gave."""
    return LoadOptions(**data)


@dataclass(frozen=True, slots=True)
class _Option:
    name: str
    kind: type
    default: Any
    says: str

    @property
    def dest(self) -> str:
        return self.name.replace("-", "_")


_DEFAULTS: Final = LoadOptions()

OPTIONS: Final = (
    _Option("model", str, _DEFAULTS.model, "model name to ask for"),
    _Option("engine", str, None, "the engine's base URL: its /metrics are read for both tiers and the pool's size"),
    _Option("seed", int, 0, "decides clients, sizes, pauses and texts"),
    _Option("run", str, "", "4 to 8 letters that open every text, so that runs do not warm each other; default: new"),
    _Option("mix", str, _DEFAULTS.mix, f"which clients: {', '.join(MIXES)}"),
    _Option("sessions", int, None, "how many sessions; default: as the shape needs"),
    _Option("pool-tokens", int, None, "tokens L1 holds, where the metrics do not say"),
    _Option(
        "l2-tokens", int, None, "tokens L2 holds; without it a tier that never loads cannot be told from a small one"
    ),
    _Option("factor", float, _DEFAULTS.factor, "evict: the working set over L1"),
    _Option("returning", float, _DEFAULTS.returning, "evict: share of L1 that comes back"),
    _Option("pause", float, _DEFAULTS.pause, "seconds of quiet before evicted sessions come back"),
    _Option("think", float, _DEFAULTS.think, "factor on all pauses between turns; 0 for none"),
    _Option("sdk-share", float, _DEFAULTS.sdk_share, "share of sessions sent by the official SDKs"),
    _Option("max-seconds", float, _DEFAULTS.max_seconds, "bound on the run's time"),
    _Option("max-requests", int, _DEFAULTS.max_requests, "bound on requests"),
    _Option("max-tokens", int, _DEFAULTS.max_tokens, "bound on prompt tokens"),
    _Option("answer-tokens", int, _DEFAULTS.answer_tokens, "longest answer asked for"),
    _Option("timeout", float, _DEFAULTS.timeout, "seconds a whole answer may take"),
    _Option("trace", str, None, "replay: a trace file (Mooncake, Weka, Azure or own JSONL)"),
    _Option("trace-scale", float, 0.0, "replay: factor on the trace's time; 0 sends as fast as answers come"),
    _Option("trace-requests", int, None, "replay: only the first N requests"),
    _Option("gate", str, None, "a TOML file with what must hold"),
    _Option("report", str, None, "folder for report.html and result.json"),
    _Option("result", str, None, "write the result there, as JSON"),
    _Option("yes-load", str, None, "name of the host of --host, needed beyond this machine"),
)
"""Every option both command lines have; `--host` and `--users` are Locust's own there."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add `OPTIONS` to a parser, ours or Locust's."""
    for option in OPTIONS:
        shown = "" if option.default in (None, "") else f" (default {option.default})"
        parser.add_argument(
            f"--{option.name}", type=option.kind, default=option.default, metavar=option.name.upper().replace("-", "_"),
            help=option.says + shown,
        )  # fmt: skip


def from_namespace(parsed: argparse.Namespace, **own: Any) -> LoadOptions:
    """Options out of a parsed command line; `own` overrides. Raises `LoadProblem` for what cannot be meant."""
    names = {f.name for f in fields(LoadOptions)}
    given = {name: value for name, value in vars(parsed).items() if name in names and value is not None}
    options = LoadOptions(**(given | own))
    check(options)
    return options


def check(options: LoadOptions) -> None:
    """Raises `LoadProblem` for options that make no sense, or load that nobody allowed."""
    if options.shape not in (*SHAPES, "replay", "incident"):
        raise LoadProblem(f"no shape {options.shape!r}: choose from {', '.join((*SHAPES, 'replay', 'incident'))}")
    parts = urlsplit(options.host)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise LoadProblem("--host: write it like http://127.0.0.1:3000")
    if "@" in parts.netloc:
        raise LoadProblem(f"--host carries credentials: take them out and put the key into {API_KEY_VARIABLE}")
    check_host(options.host, options.yes_load)
    for name, least in (
        ("users", 1), ("max_seconds", 0.1), ("max_requests", 1), ("max_tokens", 1), ("timeout", 0.1), ("think", 0.0),
        ("pause", 0.0), ("answer_tokens", 1), ("sessions", 1), ("pool_tokens", 1), ("trace_scale", 0.0),
    ):  # fmt: skip
        value = getattr(options, name)
        if value is not None and not least <= value < float("inf"):
            raise LoadProblem(f"--{name.replace('_', '-')} {value}: give at least {least}")
    for name in ("returning", "sdk_share"):
        if not 0 <= getattr(options, name) <= 1:
            raise LoadProblem(f"--{name.replace('_', '-')} {getattr(options, name)}: give a share between 0 and 1")
    if options.mix not in MIXES:
        raise LoadProblem(f"--mix {options.mix}: choose from {', '.join(MIXES)}")
    if options.run and not (4 <= len(options.run) <= 8 and options.run.isalnum() and options.run.isascii()):
        raise LoadProblem("--run: give 4 to 8 letters and digits")
    if options.shape == "replay" and options.trace is None:
        raise LoadProblem("replay needs --trace FILE")
    for name in ("gate", "trace"):
        path = getattr(options, name)
        if path is not None and not Path(path).exists():
            raise LoadProblem(f"--{name} {path}: no such file")
