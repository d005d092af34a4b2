"""One run of the suite: what is started, what is observed, what is said of it. Knows nothing of pytest."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import cached_property
from typing import Literal, cast

from conformance import RULE_SET, __version__
from conformance.conclusions import Open, conclude, left_open
from conformance.errors import SuiteProblem, TargetProblem, UsageProblem
from conformance.evidence.thresholds import THRESHOLDS
from conformance.facts import facts_of
from conformance.observe.both_entries import both_entries
from conformance.observe.lab import Salts, WireLab
from conformance.observe.observations import DialectPair
from conformance.observe.observed import Observed
from conformance.observe.plan import Plan, plan_for
from conformance.observe.scripted import ScriptedUpstream, hello
from conformance.observe.under_load import LoadOf, LoadRuns, no_load
from conformance.observe.usage_scripts import NOT_WHEN_QUICK
from conformance.options import Budget, RunOptions
from conformance.pair import check_fault
from conformance.pool import Ask, Demand, demand_of, pool_fact
from conformance.preflight import Preflight, check_target, nothing_arrived, preflight_token
from conformance.recorder import Recorder
from conformance.redact import hide_secrets, public_url
from conformance.restarts import Restarts
from conformance.roots import link_roots
from conformance.rules import RULES, select
from conformance.sent_texts import SentTexts
from conformance.start import gateway_fault, load_runs, start
from conformance.traffic import Traffic, traffic
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
from conformance.vocabulary import spoken
from conformance.wire.client import Wire
from conformance.wire.endpoint import base_url
from conformance.wire.engine_version import VllmVersion, vllm_version
from conformance.wire.exchange import Exchange
from conformance.wires import Wires

CAP_FACTOR = 2.0
"""Times the budget a run may send before it stops: failures are confirmed under fresh salts at extra cost."""

FAMILY_OF = {rule.id: rule.family for rule in RULES.values()}
MUSTS = frozenset(rule.id for rule in RULES.values() if rule.is_must)

NEEDS_RECORDER = "needs a recorder: --upstream-listen HOST:PORT with --engine URL"

PATIENCE_S = 2.0
"""The least that is waited for a request beside a hung one; where answers took longer so far, 40 times as long."""

NEEDS_ENGINE = "needs an engine behind the recorder: --engine URL"


class Run:
    """One run. `preflight` starts it; each entry is then observed as judgements ask."""

    def __init__(self, options: RunOptions, *, ask: Ask | None = None) -> None:
        check_fault(gateway_fault(options))
        if options.fault and options.target:
            raise UsageProblem("--fault mutates the embedded gateway; it cannot be combined with --target")
        self.options = options
        self._ask = ask
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
        self._wires = Wires(options, self.run_id, self._stack, self.exchanges.append)
        self._pool: Fact | None = None
        self._loads: dict[Entry, LoadRuns] = {}
        self._restarts = Restarts(options, self.rules, None)

    def preflight(self) -> None:
        """Start the pair or the recorder, and ask the target one small thing per entry.

        Raises TargetProblem (exit 10), SuiteProblem (exit 11) or UsageProblem.
        """
        options, marker = self.options, self.salts.marker.encode()
        try:
            started = start(options, self._stack, marker)
            self._recorder, self._restarts = started.recorder, Restarts(options, self.rules, started.restart)
            if self._recorder is not None and self._recorder.engine_url is None:
                for entry in options.entries or tuple(Entry):
                    self._recorder.scripts.put(preflight_token(self.salts.marker, entry), hello())
            self._preflight = check_target(
                started.url,
                api_key=options.api_key,
                model=started.model or None,
                entries=options.entries,
                timeout_s=options.timeout_s,
                recorder=self._recorder,
                run_id=self.run_id,
                marker=self.salts.marker,
            )
        except (TargetProblem, UsageProblem, SuiteProblem):
            raise
        except Exception as error:
            said = spoken(hide_secrets(str(error)))
            raise SuiteProblem(f"the suite could not start: {type(error).__name__}: {said}") from error
        self._wires.open_main(self._preflight, self._recorder)
        unseen = NEEDS_ENGINE if self.scripted_only else self._blind(self.entries[0]) or NEEDS_RECORDER
        self._restarts.at(self._preflight, self.salts, () if self.scripted_only else filter(self.sees, Entry), unseen)
        self._pool = pool_fact(options, self.demand, self._ask)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries the target has, of those asked for."""
        return self._checked.entries

    @property
    def sees_upstream(self) -> bool:
        """True when requests to some entry reach the recorder."""
        return self._recorder is not None and bool(self._checked.recorder_sees)

    def sees(self, entry: Entry) -> bool:
        """True when requests to this entry reach the recorder: entries may go by different channels."""
        return self._recorder is not None and entry in self._checked.recorder_sees

    @property
    def scripted_only(self) -> bool:
        """True when nothing but scripts answers behind the target: there is a recorder, and no engine for it."""
        return self.sees_upstream and self._recorder is not None and self._recorder.engine_url is None

    def plan(self, entry: Entry) -> Plan:
        """What is sent to an entry."""
        return plan_for(
            self.options.budget,
            sees_upstream=self.sees(entry),
            shape=self.options.shape,
            engine=not (self.scripted_only and self.sees(entry)),
            restart=self._restarts.of(entry),
        )

    @property
    def demand(self) -> Demand:
        """What the plan sends to all entries, before any failure is confirmed."""
        return demand_of({entry: self.plan(entry) for entry in self.entries})

    @property
    def token_cap(self) -> int:
        """Prompt tokens at which sending stops, whatever is still open."""
        asked = self.options.budget.prompt_tokens * len(self.entries)
        return round(CAP_FACTOR * max(asked, self.demand.tokens))

    def observed(self, entry: Entry) -> Observed:
        """What was and will be observed on `entry`."""
        if entry not in self._observed:
            self._observed[entry] = self._observe(entry)
        return self._observed[entry]

    @cached_property
    def _sent_texts(self) -> SentTexts:
        return SentTexts(self.exchanges)

    def sent_texts(self) -> Sequence[str]:
        """Every text sent so far, once; later calls only append."""
        return self._sent_texts.all()

    def record(self, verdict: Verdict) -> None:
        """Keep a verdict for the report."""
        self.verdicts.append(verdict)

    def exit_code(self) -> ExitCode:
        """The exit code of the verdicts recorded so far."""
        return exit_code(
            by_rule(self._final),
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
            requests_planned=self.demand.requests if checked else 0,
            requests_sent=self._wires.sent.requests,
            prompt_tokens_planned=self.demand.tokens if checked else 0,
            prompt_tokens_sent=self._wires.sent.tokens,
            engine_requests_sent=self._wires.sent_to_engine.requests,
            engine_prompt_tokens_sent=self._wires.sent_to_engine.tokens,
            prompt_tokens_cap=self.token_cap if checked else 0,
            facts=self._facts(checked) if checked else (),
            verdicts=link_roots(self._final),
            families=self._families,
            unjudged=unjudged_families(
                by_rule(self._final),
                families_of=FAMILY_OF,
                musts=MUSTS,
                requested=self._families,
                withheld=self._withheld,
            ),
            unjudged_allowed=options.allow_unjudged,
            withheld=tuple(found.why for found in self._open),
            baseline=options.baseline.state(self._final) if options.baseline else None,
        )

    def close(self) -> None:
        """Stop everything this run started."""
        self._stack.close()

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
        return baseline is not None and bool(baseline.state(self._final).stale)

    @property
    def _traffics(self) -> dict[Entry, Traffic]:
        recorder = self._recorder is not None
        return {entry: traffic(entry, o.exchanges, recorder=recorder) for entry, o in self._observed.items()}

    @property
    def _final(self) -> tuple[Verdict, ...]:
        """The verdicts as they stand beside the whole traffic."""
        return conclude(self.verdicts, self._traffics)

    @property
    def _open(self) -> tuple[Open, ...]:
        if self._preflight is None:
            return ()
        return left_open(
            self.verdicts,
            self._final,
            entries=self.entries,
            families=self._families,
            family_of=FAMILY_OF,
            musts=MUSTS,
            states=[o.cache_state for o in self._observed.values() if o.qualified],
            stopped=self._wires.stopped,
            blind=self._blind,
            traffics=self._traffics,
            load=self.options.load,
        )

    @property
    def _withheld(self) -> tuple[str, ...]:
        """Families that are not green whatever was judged."""
        return tuple(dict.fromkeys(family for found in self._open for family in found.families))

    def _blind(self, entry: Entry) -> str | None:
        """Why the recorder saw nothing of an entry; None where it did, or where there is none."""
        if self._recorder is None or self.sees(entry):
            return None
        if not self._checked.recorder_sees:
            return nothing_arrived(self._recorder.url or "", self._checked.model)
        return f"no request to {entry.path} arrives at the recorder, though others do: it goes by another channel"

    def _observe(self, entry: Entry) -> Observed:
        wire = self._wires.main
        assert wire is not None, "preflight makes the wire"
        lab = self._lab(entry, wire, sees_upstream=self.sees(entry))
        return Observed(
            entry=entry,
            lab=lab,
            plan=self.plan(entry),
            thresholds=THRESHOLDS,
            rng=random.Random(f"{self.options.seed}/{entry}"),
            dialects=lambda: self.dialects,
            pause_s=self.options.pause_s if self.options.target else 0.0,
            needs=self._blind(entry) or NEEDS_RECORDER,
            engine_lab=lambda: self._direct_lab,
            native_lab=self._native_lab,
            other=lambda: self._other(entry),
            engine=lambda: self._engine_version,
            load=self._load_of(entry),
            scripted=self._scripted(entry),
            patience_s=PATIENCE_S if self.options.target else 1.0,
            restart=self._restarts.for_entry(entry, self.observed, self._wires.anew),
        )

    def _load_of(self, entry: Entry) -> LoadOf:
        if not self.options.load:
            return no_load
        self._loads[entry] = load_runs(self.options, self._checked, entry)
        return self._loads[entry].of

    def _other(self, entry: Entry) -> Observed | None:
        return next((self.observed(other) for other in self.entries if other is not entry), None)

    def _scripted(self, entry: Entry) -> ScriptedUpstream | None:
        """Where a recorder sees the target's requests, it can answer them too."""
        if self._recorder is None or not self.sees(entry):
            return None
        without = NOT_WHEN_QUICK if self.options.budget is Budget.QUICK else ()
        wire = self._wires.scripted(self._checked, self._recorder)
        return ScriptedUpstream(entry, wire, self._recorder, self.salts, without=without)

    def _native_lab(self) -> WireLab | None:
        """The embedded gateway's channel towards an upstream that speaks Messages; None with any other target."""
        if self.options.target is not None or self._recorder is None:
            return None
        wire = self._wires.native(self._checked, self._recorder)
        return self._lab(Entry.MESSAGES, wire, sees_upstream=True)

    @cached_property
    def _engine_version(self) -> VllmVersion | None:
        return vllm_version(base_url(self.options.engine)[0]) if self.options.engine is not None else None

    @cached_property
    def _direct_lab(self) -> WireLab | None:
        """Conversations straight to the engine: None without `--engine`, or where it cannot be spoken to."""
        wire = self._wires.engine(self.salts.marker)
        if wire is None:
            return None
        return self._lab(Entry.CHAT, wire, sees_upstream=False)

    def _lab(self, entry: Entry, wire: Wire, *, sees_upstream: bool) -> WireLab:
        return WireLab(
            entry=entry,
            wire=wire,
            salts=self.salts,
            seed=self.options.seed,
            client=self.options.client_of(entry),
            base_bytes=self.plan(entry).base_bytes,
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
        direct = None if self.sees_upstream else self._direct_lab
        return both_entries(self.observed, self.salts.fresh(), direct)

    def _facts(self, checked: Preflight) -> tuple[Fact, ...]:
        recorder = [f"scripted answers only: what {NEEDS_ENGINE} is not run"] if self.scripted_only else []
        if self._recorder is not None and self._recorder.notice:
            recorder.append(self._recorder.notice)
        return facts_of(
            checked,
            self._observed,
            self._traffics.values(),
            sees=self.sees,
            pool=self._pool,
            stopped=self._wires.stopped,
            waits=self._wires.waits,
            engine=self._wires.engine_note,
            recorder=recorder,
            restart=self._restarts.line,
            loads={entry: runs.told for entry, runs in self._loads.items()},
        )
