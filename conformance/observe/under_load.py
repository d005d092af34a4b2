"""Runs of the load generator, as a child process: Locust patches the standard library and stays out of pytest's."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol

import orjson

from conformance.errors import SuiteProblem
from conformance.verdicts import Entry
from conformance.wire.endpoint import API_KEY_VARIABLE

EXTRA_S: Final = 60.0
"""How much longer than its own bound on time a run may take to start and to write its result."""

GOODBYE_S: Final = 25.0
"""How long it may take to end its own processes when it is told to."""

USAGE, TARGET = 2, 10
"""Exit codes of the load generator: it could not start, or the target stopped answering."""

LOAD_FAULTS: Final[dict[str, frozenset[str]]] = {
    "l2-write-only": frozenset({"L2-01", "L2-02", "L2-04"}),
    "l2-partial": frozenset({"L2-01", "L2-04"}),
    "l2-exact-only": frozenset({"L2-04"}),
    "l2-wrong-blocks": frozenset({"L2-03"}),
    "l2-stalls": frozenset({"L2-05"}),
    "l2-slow": frozenset({"L2-07"}),
    "l2-unmetered": frozenset({"L2-06"}),
    "random-routing": frozenset({"AFF-01"}),
}
"""Faults of the embedded pair that only load shows, and the rules each breaks."""


@dataclass(frozen=True)
class LoadRun:
    """One run: its result as `load/result.py` writes it, or why there is none. `lacks`: something must be given first,
    else the run failed."""

    shape: str
    result: Mapping[str, Any] | None
    why_not: str = ""
    lacks: bool = False


@dataclass(frozen=True, kw_only=True)
class LoadSettings:
    """Where and how to put load on. `target` None means an embedded pair of the child's own, with `fault` in it."""

    target: str | None
    model: str
    api_key: str | None = field(repr=False)
    engine: str | None
    fault: str | None
    template: str
    block_size: int
    seed: int
    yes_load: str | None = None
    pool_tokens: int | None = None
    l2_tokens: int | None = None
    max_seconds: float = 600.0
    timeout_s: float = 120.0


EMBEDDED: Final = {"pool-tokens": "144000", "l2-tokens": "600000", "step-interval": "0.003", "batched-tokens": "512"}
"""Sizes of the child's own pair: small enough for seconds, with steps that take time, so that computing does."""

REPLICAS: Final = 3


def run_load(settings: LoadSettings, shape: str, entry: Entry) -> LoadRun:
    """Put `shape` on the target through one entry, and read what came of it. Raises SuiteProblem if the load generator
    itself breaks."""
    if find_spec("locust") is None:
        return LoadRun(shape, None, "needs Locust: pip install 'prefixproof[load]'", lacks=True)
    longest = settings.max_seconds + EXTRA_S
    with tempfile.TemporaryDirectory(prefix="prefixproof-load-") as folder:
        file = Path(folder) / "result.json"
        code, said = _run_child([*arguments(settings, shape, entry), "--result", str(file)], settings.api_key, longest)
        if file.exists() and code is not None:
            return LoadRun(shape, orjson.loads(file.read_bytes()))
    last = said[-1].removeprefix("prefixproof-load: ")[:300] if said else "it said nothing"
    if code is None:
        return LoadRun(shape, None, f"the load generator did not end within {longest:g} s")
    if code not in (USAGE, TARGET):
        raise SuiteProblem(f"the load generator ended with {code}: {last}")
    return LoadRun(shape, None, last, lacks=code == USAGE)


def _run_child(words: list[str], api_key: str | None, longest: float) -> tuple[int | None, list[str]]:
    """Exit code, None if it had to be ended, and the lines of stderr. It takes the pair it started with it."""
    # Locust reads options from its environment too; those are for the user's own runs.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LOCUST_")}
    environment |= {API_KEY_VARIABLE: api_key} if api_key else {}
    root = Path(__file__).resolve().parent.parent.parent
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "load", *words], stdout=subprocess.DEVNULL, stderr=errors, env=environment, cwd=root
        )
        code: int | None = None
        try:
            code = child.wait(timeout=longest)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if child.poll() is None:
                _end(child)
        errors.seek(0)
        return code, errors.read().decode("utf-8", "replace").strip().splitlines()


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()  # so that it can end the processes of its own pair
    try:
        child.wait(timeout=GOODBYE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


class LoadOf(Protocol):
    """A run of a shape; `again` is a second one, made to confirm the first."""

    def __call__(self, shape: str, /, *, again: bool = False) -> LoadRun: ...


def no_load(shape: str, /, *, again: bool = False) -> LoadRun:  # noqa: ARG001 - as `LoadRuns.of`
    """What there is of a run where nobody allowed load."""
    return LoadRun(shape, None, "needs --load", lacks=True)


class LoadRuns:
    """The runs through one entry, each made when it is first asked for."""

    def __init__(self, settings: LoadSettings, entry: Entry) -> None:
        self._settings = settings
        self._entry = entry
        self._made: dict[tuple[str, bool], LoadRun] = {}

    def of(self, shape: str, /, *, again: bool = False) -> LoadRun:
        """The run of a shape, or the one `again`, which is made to confirm it."""
        if (shape, again) not in self._made:
            self._made[shape, again] = run_load(self._settings, shape, self._entry)
        return self._made[shape, again]

    @property
    def told(self) -> str:
        """What was sent so far, for a reader; "" where nothing was."""
        totals = [(shape, run.result["total"]) for (shape, _), run in self._made.items() if run.result is not None]
        return ", ".join(
            f"{shape}: {total['requests']:,} requests, {total['prompt']:,} prompt tokens" for shape, total in totals
        )


def arguments(settings: LoadSettings, shape: str, entry: Entry) -> list[str]:
    """The child's command line; a key is never in it."""
    given: dict[str, object] = {
        "mix": f"{entry.value}-only", "seed": settings.seed, "think": 0, "max-seconds": settings.max_seconds,
        "timeout": settings.timeout_s, "sdk-share": 0,
    }  # fmt: skip
    if settings.target is None:
        given |= {"template": settings.template, "block-size": settings.block_size, **EMBEDDED}
        given |= {"fault": settings.fault} if settings.fault else {}
        given |= {"timeout": 5, "max-seconds": 40} if settings.fault == "l2-stalls" else {}
        if shape == "repeats":
            given |= {"replicas": REPLICAS}
    else:
        given |= {"host": settings.target, "model": settings.model}
        given |= {"engine": settings.engine} if settings.engine else {}
        given |= {"yes-load": settings.yes_load} if settings.yes_load else {}
        given |= {"pool-tokens": settings.pool_tokens} if settings.pool_tokens else {}
        given |= {"l2-tokens": settings.l2_tokens} if settings.l2_tokens else {}
    return [shape, *(str(word) for name, value in given.items() for word in (f"--{name}", value))]
