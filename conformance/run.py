"""One run of the suite: what is started, what is observed, what is said of it. Knows nothing of pytest."""

from __future__ import annotations

import random
import secrets
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import cached_property
from typing import Literal, cast

from conformance import RULE_SET, __version__
from conformance.errors import SuiteProblem, TargetProblem, UsageProblem
from conformance.evidence.qualify import CacheState
from conformance.evidence.thresholds import THRESHOLDS
from conformance.facts import facts_of
from conformance.observe.lab import Salts, WireLab
from conformance.observe.observed import DialectPair, Observed
from conformance.observe.plan import Plan, plan_for
from conformance.observe.scripted import ScriptedBreaker, ScriptedUpstream, hello
from conformance.observe.under_load import LOAD_FAULTS, LoadRun, LoadSettings, run_load
from conformance.observe.usage_scripts import NOT_WHEN_QUICK
from conformance.options import Budget, RunOptions
from conformance.pair import ALIAS, NATIVE_MODEL, check_fault, embedded_pair, engine_config
from conformance.preflight import Preflight, check_target, preflight_token
from conformance.recorder import Recorder, relay
from conformance.redact import public_url
from conformance.roots import link_roots
from conformance.rules import RULES, select
from conformance.sessions import dual_text_request
from conformance.verdicts import (
    Entry,
    ExitCode,
    Fact,
    RunReport,
    Vantage,
    Verdict,
    by_rule,
    exit_code,
    unjudged_families,
)
from conformance.wire.breaker import Breaker
from conformance.wire.client import Wire
from conformance.wire.exchange import Exchange

CAP_FACTOR = 2.0
"""Times the budget a run may send before it stops: failures are confirmed under fresh salts at extra cost."""

FAMILY_OF = {rule.id: rule.family for rule in RULES.values()}
MUSTS = frozenset(rule.id for rule in RULES.values() if rule.is_must)

GROWTH_RULES = frozenset({"PFX-01", "PFX-02", "PIN-01"})
"""Rules that watch a conversation grow."""

SCRIPTED_TIMEOUT_S = 30.0
"""A scripted answer is there at once: whoever waits longer for one waits for a gateway that hangs."""

PATIENCE_S = 2.0
"""The least that is waited for a request beside a hung one; where answers took longer so far, 40 times as long."""

NEEDS_ENGINE = "needs an engine behind the recorder: --engine URL"

DUAL_BYTES = 5_000
"""Text of the request that is sent to both entries."""


class Run:
    """One run. `preflight` starts it; each entry is then observed as judgements ask."""

    def __init__(self, options: RunOptions) -> None:
        self._gateway_fault = None if options.fault in LOAD_FAULTS else options.fault
        check_fault(self._gateway_fault)
        if options.fault and options.target:
            raise UsageProblem("--fault mutates the embedded gateway; it cannot be combined with --target")
        self.options = options
        self.rules = select(options.rules)
        self.run_id = secrets.token_hex(3) if options.target else f"{options.seed:06x}"
        self.salts = Salts(self.run_id)
        self.verdicts: list[Verdict] = []
        self.exchanges: list[Exchange] = []
        self._stack = ExitStack()
        self._started = datetime.now(UTC)
        self._clock = time.monotonic()
        self._observed: dict[Entry, Observed] = {}
        self._preflight: Preflight | None = None
        self._recorder: Recorder | None = None
        self._wire: Wire | None = None
        self._scripted_wire: Wire | None = None
        self._engine_note = ""

    def preflight(self) -> None:
        """Start the pair or the recorder, and ask the target one small thing per entry.

        Raises TargetProblem (exit 10), SuiteProblem (exit 11) or UsageProblem.
        """
        options, marker = self.options, self.salts.marker.encode()
        try:
            if options.target is None:
                pair = self._stack.enter_context(
                    embedded_pair(
                        engine=engine_config(
                            template=options.template, block_size=options.block_size, tokenizer=options.tokenizer
                        ),
                        fault=self._gateway_fault,
                        marker=marker,
                        listen=options.upstream_listen,
                        recorder=options.recorder,
                    )
                )
                url, self._recorder, model = pair.gateway_url, pair.recorder, options.model or ALIAS
            else:
                url, model = options.target, options.model or ""
                if options.upstream_listen:
                    self._recorder = self._stack.enter_context(
                        relay(options.engine, marker=marker, listen=options.upstream_listen)
                    )
            if self._recorder is not None and self._recorder.engine_url is None:
                for entry in options.entries or tuple(Entry):
                    self._recorder.scripts.put(preflight_token(self.salts.marker, entry), hello())
            self._preflight = check_target(
                url,
                api_key=options.api_key,
                model=model or None,
                entries=options.entries,
                timeout_s=options.timeout_s,
                recorder=self._recorder,
                run_id=self.run_id,
                marker=self.salts.marker,
            )
        except (TargetProblem, UsageProblem, SuiteProblem):
            raise
        except Exception as error:
            raise SuiteProblem(f"the suite could not start: {type(error).__name__}: {error}") from error
        self._wire = self._wire_to(self._preflight.model)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries the target has, of those asked for."""
        return self._checked.entries

    @property
    def sees_upstream(self) -> bool:
        return self._recorder is not None and self._checked.recorder_sees

    @property
    def scripted_only(self) -> bool:
        """True when nothing but scripts answers behind the target: there is a recorder, and no engine for it."""
        return self.sees_upstream and self._recorder is not None and self._recorder.engine_url is None

    @cached_property
    def plan(self) -> Plan:
        return plan_for(self.options.budget, sees_upstream=self.sees_upstream, shape=self.options.shape)

    @property
    def planned_tokens(self) -> int:
        """Prompt tokens the plan sends to all entries, before any failure is confirmed."""
        return sum(self.plan.tokens(entry) for entry in self.entries)

    @property
    def token_cap(self) -> int:
        """Prompt tokens at which sending stops, whatever is still open."""
        asked = self.options.budget.prompt_tokens * len(self.entries)
        return round(CAP_FACTOR * max(asked, self.planned_tokens))

    def observed(self, entry: Entry) -> Observed:
        """What was and will be observed on `entry`."""
        if entry not in self._observed:
            self._observed[entry] = self._observe(entry)
        return self._observed[entry]

    def record(self, verdict: Verdict) -> None:
        """Keep a verdict for the report."""
        self.verdicts.append(verdict)

    def exit_code(self) -> ExitCode:
        """The exit code of the verdicts recorded so far."""
        return exit_code(
            by_rule(self.verdicts),
            families_of=FAMILY_OF,
            musts=MUSTS,
            requested=self._families,
            allowed_unjudged=self.options.allow_unjudged,
            withheld=self._withheld,
            stale=self._stale,
        )

    def report(self) -> RunReport:
        """Everything a reader needs, so far."""
        options = self.options
        checked = self._preflight
        return RunReport(
            suite_version=__version__,
            rule_set=RULE_SET,
            target=public_url(options.target) if options.target else "embedded pair",
            model=checked.model if checked else (options.model or ""),
            entries=checked.entries if checked else (options.entries or tuple(Entry)),
            vantages=(Vantage.CLIENT, *((Vantage.UPSTREAM,) if checked and self.sees_upstream else ())),
            fault=options.fault,
            budget=options.budget.value,
            seed=options.seed,
            started=self._started.isoformat(timespec="seconds"),
            seconds=time.monotonic() - self._clock,
            requests_sent=sum(wire.sent_requests for wire in self._wires),
            prompt_tokens_planned=self.planned_tokens if checked else 0,
            prompt_tokens_sent=sum(wire.prompt_tokens_sent for wire in self._wires),
            prompt_tokens_cap=self.token_cap if checked else 0,
            facts=self._facts() if checked else (),
            verdicts=link_roots(self.verdicts),
            families=self._families,
            unjudged=unjudged_families(
                by_rule(self.verdicts),
                families_of=FAMILY_OF,
                musts=MUSTS,
                requested=self._families,
                withheld=self._withheld,
            ),
            unjudged_allowed=options.allow_unjudged,
            baseline=options.baseline.state(self.verdicts) if options.baseline else None,
        )

    def close(self) -> None:
        """Stop everything this run started."""
        self._stack.close()

    @property
    def _needs_recorder(self) -> str:
        if self._recorder is not None:
            return f"the recorder at {self._recorder.url} saw none of the suite's requests: point a channel at it"
        return "needs a recorder: --upstream-listen HOST:PORT with --engine URL"

    @property
    def _wires(self) -> tuple[Wire, ...]:
        return tuple(wire for wire in (self._wire, self._scripted_wire) if wire is not None)

    @property
    def _checked(self) -> Preflight:
        if self._preflight is None:
            raise SuiteProblem("the run was used before its preflight")
        return self._preflight

    @property
    def _families(self) -> tuple[str, ...]:
        asked = [rule for rule in self.rules if rule.is_must]
        # A rule that needs load asks for no family, unless nothing else was selected: then nothing judged is not green.
        judged = [rule for rule in asked if not rule.needs_load] or asked
        return tuple(dict.fromkeys(rule.family for rule in judged))

    @property
    def _stale(self) -> bool:
        baseline = self.options.baseline
        return baseline is not None and bool(baseline.state(self.verdicts).stale)

    @property
    def _withheld(self) -> tuple[str, ...]:
        """Families that are not green whatever was judged.

        All of them when the target kept failing until the breaker stopped the run; the cache family when identical
        prompts never hit, when a response cache answers for the engine, or when no conversation was seen to grow.
        """
        if self._preflight is None:
            return ()
        if self._wire is not None and self._wire.breaker.reason is not None:
            return self._families
        states = {o.cache_state for o in self._observed.values() if o.qualified}
        if states & {CacheState.NONE_SEEN, CacheState.RESPONSE_CACHE}:
            return ("cache",)
        return ("cache",) if any(self._growth_unjudged(entry) for entry in self.entries) else ()

    def _growth_unjudged(self, entry: Entry) -> bool:
        """True when rules on a growing conversation were asked for and none could be judged on this entry.

        Repeats and fresh prompts alone do not show whether new turns keep their prefix.
        """
        said = [v.status for v in self.verdicts if v.entry is entry and v.rule in GROWTH_RULES]
        return bool(said) and not any(status.judged for status in said)

    def _observe(self, entry: Entry) -> Observed:
        assert self._wire is not None, "preflight makes the wire"
        lab = self._lab(entry, self._wire, sees_upstream=self.sees_upstream)
        return Observed(
            entry=entry,
            lab=lab,
            plan=self.plan,
            thresholds=THRESHOLDS,
            rng=random.Random(f"{self.options.seed}/{entry}"),
            dialects=lambda: self.dialects,
            pause_s=self.options.pause_s if self.options.target else 0.0,
            needs=self._needs_recorder,
            engine_lab=self._engine_lab,
            native_lab=self._native_lab,
            other=lambda: self._other(entry),
            load=self._put_load_on if self.options.load else None,
            scripted=self._scripted(entry),
            patience_s=PATIENCE_S if self.options.target else 1.0,
        )

    def _put_load_on(self, shape: str, entry: Entry) -> LoadRun:
        options, target = self.options, self.options.target
        settings = LoadSettings(
            target=self._checked.target if target else None,
            model=self._checked.model,
            api_key=options.api_key,
            engine=options.engine_metrics or options.engine,
            fault=options.fault,
            template=options.template,
            block_size=options.block_size,
            seed=options.seed,
            yes_load=options.yes_load,
            pool_tokens=options.pool_tokens,
            l2_tokens=options.l2_tokens,
            timeout_s=options.timeout_s,
        )
        return run_load(settings, shape, entry)

    def _other(self, entry: Entry) -> Observed | None:
        return next((self.observed(other) for other in self.entries if other is not entry), None)

    def _scripted(self, entry: Entry) -> ScriptedUpstream | None:
        """Where a recorder sees the target's requests, it can answer them too."""
        if self._recorder is None or not self.sees_upstream:
            return None
        if self._scripted_wire is None:
            self._scripted_wire = self._wire_to(
                self._checked.model,
                timeout_s=min(self.options.timeout_s, SCRIPTED_TIMEOUT_S),
                breaker=ScriptedBreaker(),
            )
        without = NOT_WHEN_QUICK if self.options.budget is Budget.QUICK else ()
        return ScriptedUpstream(entry, self._scripted_wire, self._recorder, self.salts, without=without)

    def _native_lab(self) -> WireLab | None:
        """The embedded gateway's channel towards an upstream that speaks Messages; None with any other target."""
        if self.options.target is not None or self._recorder is None:
            return None
        return self._lab(Entry.MESSAGES, self._wire_to(NATIVE_MODEL), sees_upstream=self.sees_upstream)

    def _wire_to(self, model: str, *, timeout_s: float | None = None, breaker: Breaker | None = None) -> Wire:
        """A wire to the target, open until the run closes."""
        options = self.options
        return self._stack.enter_context(
            Wire(
                self._checked.target,
                api_key=options.api_key,
                model=model,
                timeout_s=timeout_s or options.timeout_s,
                recorder=self._recorder,
                run_id=self.run_id,
                breaker=breaker,
                on_exchange=self.exchanges.append,
            )
        )

    def _engine_lab(self) -> WireLab | None:
        """Conversations straight to the engine: None without `--engine`, or where it cannot be spoken to."""
        url = self.options.engine
        if url is None:
            return None
        timeout_s = self.options.timeout_s
        try:
            checked = check_target(
                url,
                api_key=None,
                model=None,
                entries=(Entry.CHAT,),
                timeout_s=timeout_s,
                run_id=self.run_id,
                marker=self.salts.marker,
            )
        except TargetProblem as problem:
            self._engine_note = f"no direct arm: {problem}"
            return None
        wire = self._stack.enter_context(
            Wire(
                checked.target,
                api_key=None,
                model=checked.model,
                timeout_s=timeout_s,
                recorder=None,
                run_id=self.run_id,
                on_exchange=self.exchanges.append,
            )
        )
        return self._lab(Entry.CHAT, wire, sees_upstream=False)

    def _lab(self, entry: Entry, wire: Wire, *, sees_upstream: bool) -> WireLab:
        return WireLab(
            entry=entry,
            wire=wire,
            salts=self.salts,
            seed=self.options.seed,
            client=self.options.client_of(entry),
            base_bytes=self.plan.base_bytes,
            shape=cast(Literal["scaled", "full"], self.options.shape),
            sees_upstream=sees_upstream,
            prompt_token_cap=self.token_cap,
            needs=NEEDS_ENGINE if sees_upstream and self.scripted_only else None,
        )

    @cached_property
    def dialects(self) -> DialectPair | None:
        """One text-only conversation on both entries, each sent until it can be warm."""
        if len(self.entries) < 2:
            return None
        bodies = dual_text_request(self.salts.fresh(), DUAL_BYTES, model=self._checked.model)
        answers = []
        for entry, body in zip((Entry.MESSAGES, Entry.CHAT), bodies, strict=True):
            observed = self.observed(entry)
            for _ in range(observed.qualification.warm_send - 1):
                observed.lab.send_body(body, via="sdk")
            answers.append(observed.lab.send_body(body, via="sdk"))
        return DialectPair(*answers)

    def _facts(self) -> tuple[Fact, ...]:
        recorder = [f"scripted answers only: what {NEEDS_ENGINE} is not run"] if self.scripted_only else []
        if self._recorder is not None and self._recorder.notice:
            recorder.append(self._recorder.notice)
        stopped = self._wire.breaker.reason if self._wire is not None else None
        return facts_of(self._checked, self._observed, stopped=stopped, engine=self._engine_note, recorder=recorder)
