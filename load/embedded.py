"""The embedded pair as processes of their own: engine and reference gateway, found by the lines they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from load.errors import TargetGone
from load.options import DEFAULT_MODEL

ENGINE_MODEL: Final = "deepseek-v4-flash"
_URL: Final = re.compile(r"https?://[\w.:\[\]-]+")
_START_S: Final = 30


@dataclass(frozen=True, kw_only=True)
class PairOptions:
    """Sizes in tokens. `fault` is one of the gateway, `engine_fault` one of the engine."""

    pool_tokens: int = 200_000
    l2_tokens: int = 800_000
    block_size: int = 64
    tokenizer: str = "fast"
    template: str = "tools-first"
    max_model_len: int | None = None
    strip_header: bool = True
    exclude_cache: bool = True
    fault: str | None = None
    engine_fault: str | None = None
    step_interval: float = 0.0
    batched_tokens: int = 8_192
    replicas: int = 1
    routing: str = "session"
    usage_log: Path | None = None


@dataclass(frozen=True)
class RunningPair:
    """Where the pair answers, and the ids of its processes."""

    gateway: str
    engines: tuple[str, ...]
    processes: dict[str, int]


@contextmanager
def embedded_pair(options: PairOptions) -> Iterator[RunningPair]:
    """Run the pair until the context ends. Raises `TargetGone` with the process's own words if one does not start."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="prefixproof-load-")))
        processes: dict[str, int] = {}
        engines = []
        for number in range(options.replicas):
            url, pid = stack.enter_context(_process(["-m", "engine", *_engine_arguments(options)]))
            engines.append(url)
            processes["engine" if options.replicas == 1 else f"engine{number}"] = pid
        config = folder / "channels.toml"
        config.write_text(_channels(options, engines), encoding="utf-8")
        arguments = ["-m", "reference_gateway", "--config", str(config), "--port", "0"]
        if options.fault:
            arguments += ["--fault", options.fault]
        gateway, pid = stack.enter_context(_process(arguments))
        processes["gateway"] = pid
        yield RunningPair(gateway, tuple(engines), processes)


def _engine_arguments(options: PairOptions) -> list[str]:
    size = options.block_size
    arguments = [
        "serve", "--port", "0", "--model", ENGINE_MODEL, "--block-size", str(size), "--num-blocks",
        str(options.pool_tokens // size + 1), "--tokenizer", options.tokenizer, "--template", options.template,
        "--l2-chunks", str(options.l2_tokens // size), "--step-interval", str(options.step_interval),
        "--max-num-batched-tokens", str(options.batched_tokens),
    ]  # fmt: skip
    if options.max_model_len is not None:
        arguments += ["--max-model-len", str(options.max_model_len)]
    if options.engine_fault:
        arguments += ["--fault", options.engine_fault]
    return arguments


def _channels(options: PairOptions, engines: list[str]) -> str:
    replicas = ", ".join(f'"{url}"' for url in engines[1:])
    more = f'replicas = [{replicas}]\nrouting = "{options.routing}"\n' if len(engines) > 1 else ""
    log = f'usage_log = "{options.usage_log}"\n' if options.usage_log is not None else ""
    return (
        log + '[[channels]]\nname = "vllm"\n'
        f'url = "{engines[0]}"\n{more}models = ["{ENGINE_MODEL}"]\n'
        f'aliases = {{ "{DEFAULT_MODEL}" = "{ENGINE_MODEL}" }}\n'
        f"strip_anthropic_billing_header = {str(options.strip_header).lower()}\n"
        f"anthropic_messages_exclude_cache = {str(options.exclude_cache).lower()}\n"
    )


@contextmanager
def _process(arguments: list[str]) -> Iterator[tuple[str, int]]:
    """A Python process of this project; its URL, read from its first line, and its id."""
    root = str(Path(__file__).resolve().parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed below
    process = subprocess.Popen(  # noqa: S603 - our own modules
        [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=errors, env=environment, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = _URL.search(line)
        if found is None:
            process.wait(timeout=_START_S)
            errors.seek(0)
            said = errors.read().decode("utf-8", "replace").strip().splitlines()
            raise TargetGone(f"{arguments[1]} did not start: {said[-1] if said else 'it said nothing'}")
        yield found[0], process.pid
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()
        errors.close()


def with_sizes(options: PairOptions, *, pool_tokens: int | None, l2_tokens: int | None) -> PairOptions:
    """The same with sizes of one's own where they are given."""
    return replace(
        options,
        pool_tokens=options.pool_tokens if pool_tokens is None else pool_tokens,
        l2_tokens=options.l2_tokens if l2_tokens is None else l2_tokens,
    )
