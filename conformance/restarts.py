"""The one restart of a run: whether there is one, when it is made, and what is said of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from conformance.errors import RestartFailed, TargetProblem
from conformance.observe.lab import Salts
from conformance.observe.observed import Observed
from conformance.observe.restarted import Restart
from conformance.options import RunOptions
from conformance.preflight import Preflight, check_target
from conformance.restart_command import Waits, program_name, restart
from conformance.rules import ACROSS_RESTART, Rule
from conformance.verdicts import Entry
from conformance.wire.endpoint import Endpoint

IN_PROCESS = "the gateway was made anew"
"""By what the embedded gateway's restart shows: whoever makes it sees it."""

ASK_AGAIN_S = 1.0
"""Between two questions whether the target is back."""


@dataclass(frozen=True)
class _Place:
    """The target as requests reach it; `sees` are the entries that can be compared, `unseen` says why none can."""

    checked: Preflight
    marker: str
    sees: frozenset[Entry]
    unseen: str

    @property
    def run_id(self) -> str:
        return self.marker.partition("-")[2]


class Restarts:
    """The restart of one run. Without a way to restart the target, or without a use for that, there is none."""

    def __init__(self, options: RunOptions, rules: Sequence[Rule], in_process: Callable[[], None] | None) -> None:
        self.waits = Waits(within=options.timeout_s)
        self._options = options
        self._in_process = in_process
        self._rules = frozenset(rule.id for rule in rules) & set(ACROSS_RESTART)
        self._place: _Place | None = None
        self._shown: str | None = None  # by what the restart showed, once it was made
        self._failed: RestartFailed | None = None

    def at(self, checked: Preflight, salts: Salts, sees: Iterable[Entry], unseen: str) -> None:
        """Where the target is, of which entries it is seen what reaches the engine, and if of none, what that needs."""
        self._place = _Place(checked, salts.marker, frozenset(sees) & set(checked.entries), unseen)

    def of(self, entry: Entry) -> bool:
        """True when verdicts on an entry may compare across the restart."""
        return self._why_not is None and self._place is not None and entry in self._place.sees

    def for_entry(
        self, entry: Entry, observed: Callable[[Entry], Observed], anew: Callable[[Preflight | None], None]
    ) -> Restart | None:
        """What makes the restart when it is first called on any entry; None for an entry that it shows nothing of.

        What all entries compare is sent first. `anew` is then told that connections are stale, and what the target was
        asked to see that it is back.
        """

        def restart() -> str:
            if self._failed is not None:
                raise self._failed
            if self._shown is None:
                for each in filter(self.of, Entry):
                    observed(each).prepare_restart(self._rules)
                observed(entry).lab.wire.breaker.check()
                try:
                    self._shown, asked = self._make()
                except RestartFailed as error:
                    self._failed = error
                    raise
                anew(asked)
            return self._shown

        return restart if self.of(entry) else None

    @property
    def line(self) -> str | None:
        """What becomes of the command that was given; None where none was."""
        command = self._options.restart_command
        if command is None or self._place is None:
            return None
        program = program_name(command)
        if (why := self._why_not) is not None:
            return f"{program} (--restart-command) is not run: {why}"
        if self._failed is not None:
            return f"{program} was run at the end, without success"
        if self._shown is not None:
            how = self._shown or "nothing showed that the target was away"
            return f"{program} was run once, at the end ({how}); {self._compare} across it"
        return (
            f"{program} is run once, when all other rules are judged, and {self._compare} what the gateway sends "
            f"upstream before and after it; up to {self.waits.within:g} s are waited for the target. It is not run "
            "where that fails without it"
        )

    @property
    def _compare(self) -> str:
        return f"{' and '.join(sorted(self._rules))} {'compare' if len(self._rules) > 1 else 'compares'}"

    @property
    def _why_not(self) -> str | None:
        if self._options.restart_command is None and self._in_process is None:
            return "there is no --restart-command"
        if self._options.restart_command is not None and not self._options.allow_disruptive:
            return "--allow-disruptive is not given"
        if not self._rules:
            return f"only {' and '.join(ACROSS_RESTART)} compare across a restart, and they are not selected"
        if self._place is None or not self._place.sees:
            unseen = self._place.unseen if self._place is not None else "the target was not asked yet"
            return f"what the gateway sends upstream is not seen: {unseen}"
        return None

    def _make(self) -> tuple[str, Preflight | None]:
        command, place = self._options.restart_command, self._place
        if command is None or place is None:
            assert self._in_process is not None
            try:
                self._in_process()
            except OSError as error:
                raise RestartFailed(f"the embedded gateway could not be made anew: {error.strerror or error}") from None
            return IN_PROCESS, None
        endpoint = Endpoint(
            url=place.checked.target,
            api_key=self._options.api_key,
            timeout_s=self._options.timeout_s,
            run_id=place.run_id,
        )
        until = time.monotonic() + self.waits.within
        seen = restart(command, endpoint, self.waits)
        return seen, self._ready(place, program_name(command), until)

    def _ready(self, place: _Place, program: str, until: float) -> Preflight:
        """Ask for what clients ask until that is answered, at least once."""
        while True:
            try:
                return check_target(
                    place.checked.target,
                    api_key=self._options.api_key,
                    model=place.checked.model,
                    entries=place.checked.entries,
                    timeout_s=self._options.timeout_s,
                    run_id=place.run_id,
                    marker=place.marker,
                )
            except TargetProblem as problem:
                if time.monotonic() >= until:
                    raise RestartFailed(
                        f"after {program} was run, clients' requests are not answered as before: {problem}"
                    ) from None
            time.sleep(ASK_AGAIN_S)
