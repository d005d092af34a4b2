"""What the judgements of load share: a run that cannot be used, and a second run before anything is accused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Protocol

from conformance.judgements.verdict import Judging, confirming
from conformance.observe.under_load import LoadRun
from conformance.rules import RULES
from conformance.verdicts import Entry, Status, Vantage, Verdict


class Loaded(Protocol):
    """One entry under load: all these judgements need of what was observed."""

    entry: Entry

    def load_run(self, shape: str, /, *, again: bool = False) -> LoadRun: ...


Look = Callable[[LoadRun, Judging], Verdict]


def judged_by_load(rule: str, shape: str) -> Callable[[Look], Callable[[Loaded], Verdict]]:
    """Make a rule's judgement of a look at one run of that shape; see `looked_at_twice`."""

    def judgement(look: Look) -> Callable[[Loaded], Verdict]:
        @wraps(look)
        def judge(observed: Loaded) -> Verdict:
            return looked_at_twice(observed, shape, Judging(rule, observed.entry, Vantage.LOAD), look)

        return judge

    return judgement


def looked_at_twice(observed: Loaded, shape: str, judging: Judging, look: Look) -> Verdict:
    """The verdict on a run; a failure only where a second run, with sessions of its own, fails as well.

    A neighbour's burst, a restart or a busy machine spoils one run, and seldom two in the same way.
    """
    first = look(observed.load_run(shape), judging)
    if first.status is not Status.FAIL:
        return first
    second = look(observed.load_run(shape, again=True), judging)
    n, tables = first.n + second.n, (*first.tables, *confirming(second.tables))
    if second.status is Status.FAIL:
        return replace(first, reason=f"{first.reason}; in a second run too", n=n, tables=tables)
    doubt = f"{first.reason}; a second run did not confirm it: {second.reason}"
    if RULES[judging.rule].is_must:
        return judging.withholds(doubt, n, code=first.code, tables=tables)
    return judging.undecided(doubt, n, tables=tables)


def unusable(run: LoadRun, judging: Judging) -> Verdict | None:
    """The verdict where a run left no result; None where it did."""
    if run.result is not None:
        return None
    return judging.not_run(run.why_not) if run.lacks else judging.undecided(f"no load result: {run.why_not}")
