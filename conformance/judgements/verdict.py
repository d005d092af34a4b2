"""Short ways to write a verdict down, and the gate that every verdict from client evidence passes first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from conformance.diagnosis.prompt import UpstreamPrompt, parse_prompt
from conformance.evidence.conversation import Sent
from conformance.evidence.qualify import NEVER_HIT, CacheState
from conformance.observe.observed import Observed
from conformance.observe.records import own_record
from conformance.report.excerpts import excerpt
from conformance.verdicts import Change, Entry, Excerpt, Status, Table, Vantage, Verdict
from conformance.wire.exchange import Exchange, Usage
from conformance.wire.upstream_usage import upstream_usage

NOT_TOLD_APART = "gateway or engine not told apart: give --upstream-listen, or --engine for a direct arm"
"""Why a finding by counts alone accuses nobody."""


class Judging:
    """Makes the verdicts of one rule on one entry."""

    def __init__(self, rule: str, entry: Entry, vantage: Vantage) -> None:
        self.rule = rule
        self.entry = entry
        self.vantage = vantage
        self._rests_on: tuple[Table, ...] = ()

    def rests_on(self, table: Table) -> None:
        """Show `table` with any verdict that comes without a table of its own."""
        self._rests_on = (table,)

    def says(
        self,
        status: Status,
        reason: str,
        n: int,
        *,
        code: str = "",
        tables: Sequence[Table] = (),
        ruled_out: Sequence[str] = (),
        change: Change | None = None,
        excerpts: Sequence[Excerpt] = (),
        cost: str = "",
    ) -> Verdict:
        return Verdict(
            rule=self.rule, entry=self.entry, status=status, reason=reason, vantage=self.vantage, n=n, code=code,
            tables=tuple(tables) or self._rests_on, ruled_out=tuple(ruled_out), change=change,
            excerpts=tuple(excerpts), cost=cost,
        )  # fmt: skip

    def passes(self, reason: str, n: int, *, tables: Sequence[Table] = ()) -> Verdict:
        return self.says(Status.PASS, reason, n, tables=tables)

    def undecided(self, reason: str, n: int = 0, *, tables: Sequence[Table] = ()) -> Verdict:
        return self.says(Status.INCONCLUSIVE, reason, n, tables=tables)

    def withholds(
        self, reason: str, n: int, *, code: str, tables: Sequence[Table] = (), ruled_out: Sequence[str] = ()
    ) -> Verdict:
        """A finding that may not be the gateway's: no failure, and no reason to be green."""
        return self.says(Status.INCONCLUSIVE, reason, n, code=code, tables=tables, ruled_out=ruled_out)

    def not_run(self, reason: str) -> Verdict:
        return self.says(Status.NOT_RUN, reason, 0)


def cache_evidence_missing(observed: Observed, judging: Judging) -> Verdict | None:
    """Why client evidence cannot speak of the cache here, as a verdict; None when it can.

    A target that hits nothing, or does not count what it is sent, would pass any comparison of counts.
    """
    qualification = observed.qualification
    n = len(qualification.probes) * 2
    tables = (qualification.table,)
    failed = [p.first.exchange for p in qualification.probes if not p.first.valid and p.first.exchange is not None]
    if failed:
        return judging.undecided(
            f"{len(failed)} of {n // 2} probe requests failed: {failed[0].error}", n, tables=tables
        )
    if all(p.first.prompt is None for p in qualification.probes):
        return judging.undecided("no answer reports prompt tokens: usage is missing (see USE-01)", n, tables=tables)
    if not qualification.all_counted:
        dropped = ", ".join(f"the {name}" for name, seen in qualification.counted.items() if not seen)
        return judging.undecided(
            f"the reported prompt tokens do not grow with {dropped}: it does not reach the model, or is not counted",
            n,
            tables=tables,
        )
    state = observed.cache_state
    if state is CacheState.NOT_REPORTED:
        return judging.says(Status.NOT_RUN, cached_not_reported(observed), n, tables=tables)
    if state is CacheState.NONE_SEEN:
        return judging.undecided("no cache seen: engine off, or the gateway changes every prompt", n, tables=tables)
    if state in NEVER_HIT or state is CacheState.UNKNOWN:
        return judging.undecided(f"no cache seen: {state}", n, tables=tables)
    if state is not CacheState.HITS:
        forms = f" ({observed.hits_by_form})" if observed.hits_by_form else ""
        return judging.undecided(
            f"{state}{forms}: prefix verdicts from the client's side are withheld", n, tables=tables
        )
    return None


def no_attribution(observed: Observed, judging: Judging) -> Verdict | None:
    """*Not applicable* where the client whose sessions are played sends no attribution block; else None."""
    if observed.lab.sends_attribution:
        return None
    return judging.says(Status.NOT_APPLICABLE, f"{observed.lab.client.name} sends no attribution block", 0)


def cached_not_reported(observed: Observed) -> str:
    """Why no answer carries cached tokens: the engine does not report them, or the gateway does not pass them on."""
    upstream = [usage_upstream(e).cached for e in observed.exchanges]
    reported = [cached for cached in upstream if cached is not None]
    if reported:
        see = " (see USE-01)" if observed.entry is Entry.MESSAGES else ""
        return f"no answer carries cached tokens, though the upstream reports up to {max(reported):,} of them{see}"
    return "no answer carries cached tokens (vLLM: start it with --enable-prompt-tokens-details)"


def confirming(tables: Sequence[Table]) -> tuple[Table, ...]:
    """The tables of a second look, with titles that tell them from the first one's."""
    return tuple(replace(table, title=f"{table.title}, under fresh salts") for table in tables)


def upstream_only(rule: str, observed: Observed, judgement: Callable[[Observed], Verdict]) -> Verdict:
    """The verdict of a rule that only upstream bytes decide; *not run* where no recorder sees them."""
    if observed.sees_upstream:
        return judgement(observed)
    return Judging(rule, observed.entry, Vantage.UPSTREAM).not_run(observed.needs_recorder)


def upstream_prompts(exchanges: Sequence[Exchange]) -> list[tuple[Exchange, UpstreamPrompt]]:
    """Each exchange that reached the recorder, with the prompt the gateway sent for it."""
    found = []
    for exchange in exchanges:
        record = own_record(exchange)
        prompt = parse_prompt(record.path, record.json) if record is not None else None
        if prompt is not None:
            found.append((exchange, prompt))
    return found


def usage_upstream(exchange: Exchange) -> Usage:
    """What the engine reported for this exchange; empty where no recorder saw it."""
    record = own_record(exchange)
    return upstream_usage(record) if record is not None else Usage()


def evidence(title: str, exchange: Exchange, observed: Observed) -> Excerpt:
    """Request and answer of an exchange as a report may show them."""
    upstream = own_record(exchange) or next(reversed(exchange.upstream), None)
    return excerpt(title, exchange, upstream, own=observed.own_text)


def evidence_of(observed: Observed, *titled: tuple[str, Sent]) -> tuple[Excerpt, ...]:
    """`evidence` for each send that went over the wire."""
    return tuple(evidence(title, sent.exchange, observed) for title, sent in titled if sent.exchange is not None)
