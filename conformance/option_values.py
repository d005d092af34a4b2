"""From the words a user typed to `RunOptions`; whatever cannot be meant is refused here, before anything is sent."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from conformance.baseline import read as read_baseline
from conformance.errors import UsageProblem
from conformance.observe.under_load import LOAD_FAULTS
from conformance.options import Budget, RunOptions
from conformance.restart_command import runnable
from conformance.rules import FAMILIES, select
from conformance.sessions import CLIENTS
from conformance.verdicts import Entry
from conformance.wire.endpoint import is_loopback

Number = TypeVar("Number", int, float)
Choice = TypeVar("Choice", bound=StrEnum)

SHAPES = ("scaled", "full")
TEMPLATES = ("tools-first", "system-first")
TOKENIZERS = ("fast", "deepseek")
PLAYED_CLIENTS = tuple(name for name, client in CLIENTS.items() if client.appends)
"""Names `--client` takes: prefix rules presuppose a client whose turns only append."""

EMBEDDED_ONLY = ("fault", "template", "block-size", "tokenizer")
TARGET_ONLY = (
    "engine", "api-key", "allow-disruptive", "engine-metrics", "pool-tokens", "pool-share", "l2-tokens", "yes-load",
    "restart-command",
)  # fmt: skip


def read_options(given: Mapping[str, str | bool | None], *, environment_key: str | None = None) -> RunOptions:
    """`given` maps option names without dashes ("api-key") to what was typed; None or absent = not given.

    `environment_key` is the API key of the environment, used when none was typed and there is a target. Raises
    UsageProblem.
    """
    words = {name: value for name, value in given.items() if isinstance(value, str)}
    for name, value in words.items():
        if not value.strip():
            raise UsageProblem(f"--{name} is empty: give a value or leave it out")
    target = words.get("target")
    for name in EMBEDDED_ONLY if target is not None else TARGET_ONLY:
        if given.get(name):
            reason = "only goes with the embedded pair: leave --target out" if target else "needs --target"
            raise UsageProblem(f"--{name} {reason}")
    defaults = RunOptions()
    if words.get("fault") in LOAD_FAULTS and not given.get("load"):
        raise UsageProblem(f"--fault {words['fault']} shows under load only: add --load")
    rules = _list(words.get("rules"))
    select(rules)
    return RunOptions(
        target=_url("target", target),
        model=words.get("model"),
        api_key=words.get("api-key", environment_key) if target is not None else None,
        entries=_entries(words.get("entry")),
        engine=_url("engine", words.get("engine")),
        upstream_listen=_address(words.get("upstream-listen")),
        fault=_fault(words.get("fault")),
        rules=rules,
        budget=_member(Budget, "budget", words.get("budget"), defaults.budget),
        report_dir=Path(words["report"]) if "report" in words else None,
        baseline=read_baseline(Path(words["baseline"])) if "baseline" in words else None,
        write_baseline=Path(words["write-baseline"]) if "write-baseline" in words else None,
        allow_unjudged=_families(words.get("allow-unjudged")),
        allow_disruptive=bool(given.get("allow-disruptive")),
        restart_command=_command(words.get("restart-command"), allowed=bool(given.get("allow-disruptive"))),
        seed=_number(int, "seed", words.get("seed"), defaults.seed, least=0),
        clients=_clients(words.get("client")),
        shape=_one_of("shape", words.get("shape"), SHAPES, defaults.shape),
        template=_one_of("template", words.get("template"), TEMPLATES, defaults.template),
        block_size=_number(int, "block-size", words.get("block-size"), defaults.block_size, least=1),
        tokenizer=_one_of("tokenizer", words.get("tokenizer"), TOKENIZERS, defaults.tokenizer),
        load=bool(given.get("load")),
        yes_load=_yes_load(words.get("yes-load"), target, load=bool(given.get("load"))),
        engine_metrics=_url("engine-metrics", words.get("engine-metrics")),
        pool_tokens=_tokens("pool-tokens", words.get("pool-tokens")),
        l2_tokens=_tokens("l2-tokens", words.get("l2-tokens")),
        timeout_s=_number(float, "timeout", words.get("timeout"), defaults.timeout_s, least=0.001),
        pool_share=_number(float, "pool-share", words.get("pool-share"), defaults.pool_share, least=0.001),
    )


def known_faults() -> tuple[str, ...]:
    """Names `--fault` takes."""
    from reference_gateway import FAULTS

    return (*FAULTS, *LOAD_FAULTS)


def _tokens(name: str, text: str | None) -> int | None:
    return None if text is None else _number(int, name, text, 0, least=1)


def _yes_load(name: str | None, target: str | None, *, load: bool) -> str | None:
    """Load beyond this machine needs the target's host said a second time."""
    if not load:
        if name is not None:
            raise UsageProblem("--yes-load only goes with --load")
        return None
    host = urlsplit(target).hostname or "" if target is not None else ""
    if target is not None and not is_loopback(target) and (name or "").lower() != host.lower():
        raise UsageProblem(f"--load puts load on {host}: if you may, say so with --yes-load {host}")
    return name


def _command(text: str | None, *, allowed: bool) -> tuple[str, ...] | None:
    """A program and its arguments. The messages never repeat the arguments: they may carry secrets."""
    if text is None:
        return None
    if not allowed:
        raise UsageProblem("--restart-command restarts the gateway for everybody: if it may, add --allow-disruptive")
    try:
        command = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageProblem(f"--restart-command cannot be read as a command line ({error})") from None
    if command and "=" in command[0] and not runnable(command):
        name = command[0].partition("=")[0]
        raise UsageProblem(f"--restart-command: it is run without a shell, so write env {name}=... before the program")
    if not command or not runnable(command):
        name = f" {command[0]}" if command else ""
        raise UsageProblem(
            f"--restart-command: there is no program{name} here; it is run without a shell (for what needs one "
            "write sh -c '...')"
        )
    return command


def _list(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip()) if text is not None else ()


def _entries(text: str | None) -> tuple[Entry, ...] | None:
    if text is None:
        return None
    names = {_one_of("entry", part, tuple(Entry), "") for part in _list(text)}
    if not names:
        raise UsageProblem("--entry names no entry: choose messages, chat or both")
    return tuple(entry for entry in Entry if entry in names)


def _clients(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    for part in _list(text):
        if part in CLIENTS and part not in PLAYED_CLIENTS:
            raise UsageProblem(
                f"--client {part}: its requests do not only append, as the rules on prefixes presuppose of a client's "
                f"sessions: it is played from scripts alone (docs/clients.md); choose from {', '.join(PLAYED_CLIENTS)}"
            )
    names = tuple(_one_of("client", part, PLAYED_CLIENTS, "") for part in _list(text))
    if not names:
        raise UsageProblem(f"--client names no client: choose from {', '.join(PLAYED_CLIENTS)}")
    dialects = [CLIENTS[name].dialect for name in names]
    if len(set(dialects)) < len(dialects):
        raise UsageProblem(f"--client {text}: one client for /v1/messages and one for /v1/chat/completions, no more")
    return names


def _families(text: str | None) -> tuple[str, ...]:
    return tuple(_one_of("allow-unjudged", part, FAMILIES, "") for part in _list(text))


def _fault(name: str | None) -> str | None:
    if name is not None and name not in known_faults():
        raise UsageProblem(f"--fault {name}: no such fault; known are {', '.join(known_faults())}")
    return name


def _member(kind: type[Choice], name: str, text: str | None, default: Choice) -> Choice:
    return kind(_one_of(name, text, tuple(kind), default))


def _one_of(name: str, text: str | None, choices: tuple[str, ...], default: str) -> str:
    if text is None:
        return default
    if text not in choices:
        raise UsageProblem(f"--{name} {text}: choose from {', '.join(choices)}")
    return text


def _number(kind: Callable[[str], Number], name: str, text: str | None, default: Number, *, least: Number) -> Number:
    if text is None:
        return default
    try:
        value = kind(text)
    except ValueError:
        raise UsageProblem(f"--{name} {text}: not a number") from None
    if not value >= least or value == float("inf"):
        raise UsageProblem(f"--{name} {text}: must be at least {least} and finite")
    return value


def _url(name: str, text: str | None) -> str | None:
    """An http(s) URL. The message never repeats the text: a URL may carry a password."""
    if text is None:
        return None
    try:
        parts = urlsplit(text.strip())
        _ = parts.port
    except ValueError:
        raise UsageProblem(f"--{name}: not a URL; write it like http://127.0.0.1:3000") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageProblem(f"--{name}: not an http(s) URL; write it like http://127.0.0.1:3000")
    return text.strip().rstrip("/")


def _address(text: str | None) -> str | None:
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise UsageProblem(f"--upstream-listen {text}: write HOST:PORT, e.g. 127.0.0.1:9100")
    return text
