"""What a user asked of a run: the options of `pytest --target ...`, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from conformance.baseline import Baseline
from conformance.sessions import CLAUDE_CODE, CLIENTS, OPENCODE
from conformance.verdicts import Entry


class Budget(StrEnum):
    """About how many prompt tokens a run sends to each entry; failures seen from the client's side are confirmed at
    extra cost."""

    QUICK = "quick"
    STANDARD = "standard"
    FULL = "full"

    @property
    def prompt_tokens(self) -> int:
        return {Budget.QUICK: 60_000, Budget.STANDARD: 300_000, Budget.FULL: 2_000_000}[self]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """One run of the suite.

    `target` None means the embedded pair. `engine` is where the recorder relays to (and the direct control arm);
    `upstream_listen` is the address the recorder listens on, for a gateway channel the user points at it.
    """

    target: str | None = None
    model: str | None = None
    api_key: str | None = None
    entries: tuple[Entry, ...] | None = None  # None: both, and a missing one is "not applicable"
    engine: str | None = None
    upstream_listen: str | None = None
    fault: str | None = None
    rules: tuple[str, ...] = ()  # globs; empty selects all
    budget: Budget = Budget.STANDARD
    report_dir: Path | None = None
    baseline: Baseline | None = None
    write_baseline: Path | None = None
    allow_unjudged: tuple[str, ...] = ()
    allow_disruptive: bool = False  # without it nothing may change gateway or engine for others
    restart_command: tuple[str, ...] | None = None  # restarts the target: a program and its arguments, no shell
    seed: int = 0
    clients: tuple[str, ...] = ()  # whose sessions are played, at most one a dialect; the others are the default
    shape: str = "scaled"
    template: str = "tools-first"  # of the embedded engine; ignored with a target
    block_size: int = 64  # of the embedded engine; ignored with a target
    tokenizer: str = "fast"  # of the embedded engine; ignored with a target
    recorder: bool = True  # of the embedded pair; False leaves client evidence only
    pause_s: float = 2.0  # before a failure seen from the client's side is confirmed; 0 on the embedded pair
    timeout_s: float = 120.0
    longest_wait_s: float = 30.0  # that a Retry-After of the target is waited for, at once
    pool_tokens: int | None = None  # that the engine's first tier holds; None: as its /metrics say, if they do
    pool_share: float = 2.0  # percent of a production engine's pool that a run may fill; load is no part of that
    load: bool = False  # whether the load generator may be sent at the target
    yes_load: str | None = None  # the target's host, said again where it is not this machine
    engine_metrics: str | None = None  # where the engine's /metrics are, if not at `engine`
    l2_tokens: int | None = None  # that the engine's second tier holds

    @property
    def may_restart(self) -> bool:
        """True when the target can be restarted: by its command, or in this process."""
        return self.restart_command is not None or self.target is None

    def client_of(self, entry: Entry) -> str:
        """Name of the client (`conformance.sessions.CLIENTS`) that an entry's sessions are shaped like."""
        own = (name for name in self.clients if CLIENTS[name].dialect == entry.value)
        return next(own, CLAUDE_CODE if entry is Entry.MESSAGES else OPENCODE)

    def __repr__(self) -> str:
        shown = {k: v for k, v in self.__dict__.items() if k not in ("api_key", "restart_command")}
        return f"RunOptions({', '.join(f'{k}={v!r}' for k, v in shown.items())})"
