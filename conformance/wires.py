"""The wires of one run: to the target, to the embedded gateway's second channel, and straight to the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from conformance.errors import TargetProblem
from conformance.observe.scripted import ScriptedBreaker
from conformance.options import RunOptions
from conformance.pair import NATIVE_MODEL
from conformance.preflight import Preflight, check_target
from conformance.recorder import Recorder
from conformance.verdicts import Entry
from conformance.wire.breaker import Breaker
from conformance.wire.client import Wire
from conformance.wire.exchange import Exchange
from conformance.wire.limits import TokenLimit
from conformance.wire.patience import Patience

SCRIPTED_TIMEOUT_S = 30.0
"""A scripted answer is there at once: whoever waits longer for one waits for a gateway that hangs."""


@dataclass(frozen=True)
class Sent:
    """What went out: requests, and their prompt tokens."""

    requests: int
    tokens: int


class Wires:
    """Opens wires and counts what they sent. `stack` closes them; `note` is told of every finished exchange."""

    def __init__(self, options: RunOptions, run_id: str, stack: ExitStack, note: Callable[[Exchange], None]) -> None:
        self.main: Wire | None = None
        self.engine_note = ""  # why there is no direct arm
        self._options = options
        self._run_id = run_id
        self._stack = stack
        self._note = note
        self._scripted: Wire | None = None
        self._to_target: list[Wire | Preflight] = []
        self._to_engine: list[Wire | Preflight] = []

    def open_main(self, checked: Preflight, recorder: Recorder | None) -> None:
        """The wire to the target, which waits where the target asks it to."""
        options = self._options
        patience = Patience(longest_s=options.longest_wait_s)
        self.main = self._open(
            checked.target, options.api_key, checked.model, recorder, patience, limits=checked.limits
        )
        self._to_target += [checked, self.main]

    def native(self, checked: Preflight, recorder: Recorder) -> Wire:
        """To the embedded gateway's channel towards an upstream that speaks Messages."""
        wire = self._open(checked.target, None, NATIVE_MODEL, recorder, limits=checked.limits)
        self._to_target.append(wire)
        return wire

    def scripted(self, checked: Preflight, recorder: Recorder) -> Wire:
        """To the target, for requests that the recorder answers by script: errors are expected, and not waited upon."""
        if self._scripted is None:
            breaker = ScriptedBreaker()
            breaker.main = self.main.breaker if self.main is not None else None
            timeout_s = min(self._options.timeout_s, SCRIPTED_TIMEOUT_S)
            self._scripted = self._open(
                checked.target, self._options.api_key, checked.model, recorder, breaker=breaker,
                timeout_s=timeout_s, limits=checked.limits,
            )  # fmt: skip
            self._to_target.append(self._scripted)
        return self._scripted

    def engine(self, marker: str) -> Wire | None:
        """Straight to `--engine`; None without one, or where it cannot be spoken to."""
        options = self._options
        if options.engine is None:
            return None
        try:
            checked = check_target(
                options.engine,
                api_key=None,
                model=None,
                entries=(Entry.CHAT,),
                timeout_s=options.timeout_s,
                run_id=self._run_id,
                marker=marker,
            )
        except TargetProblem as problem:
            self.engine_note = f"no direct arm: {problem}"
            return None
        wire = self._open(checked.target, None, checked.model, None, limits=checked.limits)
        self._to_engine += [checked, wire]
        return wire

    def anew(self, checked: Preflight | None) -> None:
        """Drop all connections to a target that was restarted; `checked` is what it was asked since."""
        for wire in self._to_target:
            if isinstance(wire, Wire):
                wire.close()
        if checked is not None:
            self._to_target.append(checked)

    @property
    def sent(self) -> Sent:
        """To the target, the preflight's requests included."""
        return _sum(self._to_target)

    @property
    def sent_to_engine(self) -> Sent:
        """Past the target, straight to the engine: the direct arm."""
        return _sum(self._to_engine)

    @property
    def stopped(self) -> str | None:
        """Why nothing more is sent to the target; None while it is."""
        return self.main.breaker.reason if self.main is not None else None

    @property
    def waits(self) -> str | None:
        """What of the target's Retry-After was kept."""
        return self.main.patience.line if self.main is not None and self.main.patience is not None else None

    def _open(
        self,
        url: str,
        key: str | None,
        model: str,
        recorder: Recorder | None,
        patience: Patience | None = None,
        *,
        breaker: Breaker | None = None,
        timeout_s: float | None = None,
        limits: Mapping[Entry, TokenLimit],
    ) -> Wire:
        return self._stack.enter_context(
            Wire(
                url,
                api_key=key,
                model=model,
                timeout_s=timeout_s or self._options.timeout_s,
                recorder=recorder,
                run_id=self._run_id,
                breaker=breaker,
                patience=patience,
                on_exchange=self._note,
                limits=limits,
            )
        )


def _sum(parts: list[Wire | Preflight]) -> Sent:
    return Sent(
        sum(part.requests if isinstance(part, Preflight) else part.sent_requests for part in parts),
        sum(part.prompt_tokens if isinstance(part, Preflight) else part.prompt_tokens_sent for part in parts),
    )
