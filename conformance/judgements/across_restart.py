"""PFX-09 and PFX-14 across a restart of the target: what was sent before it is sent once more.

A difference is proof whatever else is known. That nothing differs is a pass only where the requests arrived, and where
it showed that the target was away: a command that did nothing would satisfy both rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from conformance.diagnosis.divergence import tools_change
from conformance.judgements import identical, prefix
from conformance.judgements.verdict import Judging, evidence, upstream_prompts
from conformance.observe.observed import Observed
from conformance.observe.records import own_record
from conformance.observe.restarted import SentAgain
from conformance.report.wording import change_line
from conformance.verdicts import Cell, Change, Status, Table, Vantage, Verdict
from conformance.wire.exchange import Exchange

REORDERED = ("tools re-ordered", "keys re-ordered")


@dataclass(frozen=True)
class Difference:
    """What differs between two upstream requests; where, and what it costs, where the rule's words do not do."""

    change: Change
    where: str = ""
    cost: str = ""

    @property
    def told(self) -> str:
        """Where and what, once: the words of the rule, or else the change itself."""
        return self.where or f": {change_line(self.change)}"


@dataclass(frozen=True)
class Compared:
    """How a rule compares: the part of an upstream request it looks at, as bytes (None: there is nothing to look at),
    and what differs in two of them."""

    rule: str
    code: str
    what: str  # a difference is, in words
    title: str  # of what is looked at
    only_exact: bool  # whether the client's own bytes must be the same
    part: Callable[[Exchange], bytes | None]
    difference: Callable[[Exchange, Exchange, Observed], Difference | None]


def tools_keep_their_order(observed: Observed) -> Verdict:
    """PFX-09 by upstream bytes: tools and their keys keep one order, in one process and from one to the next."""
    return _across(prefix.tools_keep_their_order(observed), observed, TOOLS)


def identical_requests_give_identical_bodies(observed: Observed) -> Verdict:
    """PFX-14: one client body is one upstream body, in one process and from one to the next."""
    return _across(identical.identical_requests_give_identical_bodies(observed), observed, BODIES)


def _across(first: Verdict, observed: Observed, compared: Compared) -> Verdict:
    """The verdict without a restart, unless that is a pass and there is a restart: then the one across it."""
    if first.status is not Status.PASS or not observed.will_restart:
        return first
    judging = Judging(compared.rule, observed.entry, Vantage.UPSTREAM)
    if unsteady := _unsteady(first, judging, observed, compared):
        return unsteady
    across = observed.across_restart
    pairs = [pair for pair in across.pairs if pair.exact or not compared.only_exact]
    sought = [pair for pair in pairs if compared.part(pair.early) is not None]
    lost = [pair for pair in sought if None in (compared.part(pair.before), compared.part(pair.after))]
    seen = [pair for pair in sought if pair not in lost]
    n = first.n + 2 * len(pairs)
    table = _table(pairs, compared)
    if varies := _in_time(seen, observed, compared):
        return judging.withholds(
            f"{first.reason}; but {varies}: what a restart changes cannot be told from that",
            n, code="varies-in-time", tables=(*first.tables, table),
        )  # fmt: skip
    for pair in seen:
        found = compared.difference(pair.before, pair.after, observed)
        if found is None:
            continue
        same = "byte for byte the same" if pair.exact else "the same"
        return judging.says(
            Status.FAIL,
            f"{pair.what}, sent again after the target was restarted, reaches the upstream with {compared.what}"
            f"{found.told}",
            n,
            code=f"{compared.code}-across-restart",
            tables=(table,),
            change=found.change,
            ruled_out=(
                f"the client: it sent {same} before and after the restart",
                f"what varies by itself: {first.reason}, and right before the restart it arrived as early in the run",
            ),
            excerpts=(
                evidence("before the restart", pair.before, observed),
                evidence("after the restart", pair.after, observed),
            ),
            cost=found.cost or _COST,
        )
    if lost or not seen:
        errors = (exchange.error for pair in lost for exchange in (pair.before, pair.after))
        error = next((error for error in errors if error), None)
        why = error or "no such request reached the recorder (a response cache?)"
        return judging.withholds(
            f"{first.reason}; but nothing is known of {len(lost) or len(pairs)} of {len(pairs)} requests sent again "
            f"around a restart: {why}",
            n, code="lost-around-restart", tables=(*first.tables, table),
        )  # fmt: skip
    if not across.seen:
        return judging.withholds(
            f"{first.reason}, also in {len(seen)} requests sent after the restart command; but nothing showed "
            "that the target was restarted: no connection was refused or closed, and no answer was an error",
            n, code="restart-not-seen", tables=(*first.tables, table),
        )  # fmt: skip
    return judging.passes(f"{first.reason}, and so across a restart ({across.seen})", n, tables=(*first.tables, table))


_COST = (
    "Every deploy, crash or scaling step makes all sessions cold at once, and replicas of the gateway share nothing: "
    "the engine computes each prompt anew from this place on."
)


def _unsteady(first: Verdict, judging: Judging, observed: Observed, compared: Compared) -> Verdict | None:
    """A difference that one process makes by itself: what shows only in a request with many tools."""
    one, two = observed.many_tools[:2]
    if compared.part(one) is None or compared.part(two) is None:
        return None
    found = compared.difference(one, two, observed)
    if found is None:
        return None
    return judging.says(
        Status.FAIL,
        f"a request with many tools, sent twice without a restart in between, reaches the upstream with "
        f"{compared.what}{found.told}",
        first.n + 2,
        code=compared.code,
        tables=first.tables,
        change=found.change,
        ruled_out=("the client: it sent byte for byte the same",),
        excerpts=(evidence("the second request", two, observed),),
        cost=found.cost,
    )


def _in_time(pairs: Sequence[SentAgain], observed: Observed, compared: Compared) -> str:
    """What differs from early in the run to right before the restart, in words; "" where nothing does."""
    for pair in pairs:
        if found := compared.difference(pair.early, pair.before, observed):
            return (
                f"{pair.what} reached the upstream with {compared.what} right before the restart than early in the run "
                f"({found.change.kind} in {found.change.part}: a date? another channel?)"
            )
    return ""


def _table(pairs: Sequence[SentAgain], compared: Compared) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for pair in pairs:
        before, after = compared.part(pair.before), compared.part(pair.after)
        same = None if before is None or after is None else "yes" if before == after else "no"
        rows.append((pair.what, *(None if part is None else len(part) for part in (before, after)), same))
    columns = ("request", "bytes before", "bytes after", "the same")
    return Table(f"{compared.title}, across the restart", columns, tuple(rows))


def _tool_section(exchange: Exchange) -> bytes | None:
    prompts = upstream_prompts([exchange])
    if not prompts or len(prompts[0][1].tools) < 2:
        return None
    return "\n".join(tool.text for tool in prompts[0][1].tools).encode()


def _tools_differ(one: Exchange, two: Exchange, observed: Observed) -> Difference | None:
    before, after = (prompt.tools for _, prompt in upstream_prompts((one, two)))
    change = tools_change(before, after, observed.own_text)
    return Difference(change) if change is not None and change.kind in REORDERED else None


def _body(exchange: Exchange) -> bytes | None:
    record = own_record(exchange)
    return record.body if record is not None else None


def _bodies_differ(one: Exchange, two: Exchange, observed: Observed) -> Difference | None:
    before, after = own_record(one), own_record(two)
    if before is None or after is None or before.body == after.body:
        return None
    return Difference(*identical.body_change(before, after, observed))


TOOLS = Compared(
    "PFX-09",
    "tools-reordered",
    "its tool section in another order",
    "tool sections upstream",
    False,
    _tool_section,
    _tools_differ,
)
BODIES = Compared("PFX-14", "bodies-vary", "another body", "upstream bodies", True, _body, _bodies_differ)
