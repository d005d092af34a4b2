"""What a run amounts to beside its verdicts: which of them are withheld, and which families stay open and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from conformance.evidence.qualify import NEVER_HIT, CacheState
from conformance.traffic import Traffic, withheld
from conformance.verdicts import Entry, Status, Vantage, Verdict

GROWTH_RULES = ("PFX-01", "PFX-02", "PIN-01")
"""Rules that watch a conversation grow: repeats and fresh prompts alone do not show whether new turns keep theirs."""

DECISIVE = ("CON-01", *GROWTH_RULES)
"""Rules without whose word the cache family is not green: inconclusive there is no "nothing found"."""

READ_BACK = "L2-02"
"""The same under load: inconclusive there, a tier may be written in vain."""

Blind = Callable[[Entry], str | None]
"""Why the recorder that was asked for sees nothing of an entry; None where it does, or where there is none."""


@dataclass(frozen=True)
class Open:
    """Families that are not green whatever was judged, and why."""

    families: tuple[str, ...]
    why: str


def conclude(verdicts: Iterable[Verdict], traffics: Mapping[Entry, Traffic]) -> tuple[Verdict, ...]:
    """The verdicts as they stand beside the whole traffic."""
    return tuple(withheld(v, traffics[v.entry]) if v.entry in traffics else v for v in verdicts)


def left_open(
    before: Sequence[Verdict],
    after: Sequence[Verdict],
    *,
    entries: Sequence[Entry],
    families: tuple[str, ...],
    family_of: Mapping[str, str],
    musts: frozenset[str],
    states: Iterable[CacheState],
    stopped: str | None,
    blind: Blind,
    traffics: Mapping[Entry, Traffic],
    load: bool = False,
) -> tuple[Open, ...]:
    """Every reason for which a run is incomplete; `before` and `after` are the verdicts in one order.

    `stopped` is why sending ended for good, if it did. With `load`, rules that need it are asked for.
    """
    found = [Open(families, f"stopped sending: {stopped}")] if stopped is not None else []
    unseen = dict.fromkeys(why for entry in entries if (why := blind(entry)) is not None)
    found += [Open(families, why) for why in unseen]
    found += [
        Open(("cache",), state.value)
        for state in dict.fromkeys(states)
        if state in {*NEVER_HIT, CacheState.UNKNOWN, CacheState.RESPONSE_CACHE}
    ]
    for entry in entries:
        taken = [a for a, b in zip(after, before, strict=True) if a is not b and a.entry is entry and a.rule in musts]
        for why in dict.fromkeys(_why(verdict, traffics[entry]) for verdict in taken):
            own = dict.fromkeys(family_of[v.rule] for v in taken if _why(v, traffics[entry]) == why)
            found.append(Open(tuple(own), why))
        found += [Open(("cache",), why) for why in _undecided(before, entry)]
        found += [Open(("cache",), why) for why in _unloaded(after, entry, musts)] if load else []
    found += [
        Open((family_of[v.rule],), f"{v.rule} on {v.entry.path}: {v.reason}")
        for v in after
        if v.status is Status.INCONCLUSIVE and v.code
    ]
    return tuple(found)


def _why(verdict: Verdict, traffic: Traffic) -> str:
    return (
        traffic.recorder_line if verdict.vantage is Vantage.UPSTREAM and not traffic.troubled else traffic.failure_line
    )


def _unloaded(verdicts: Sequence[Verdict], entry: Entry, musts: frozenset[str]) -> list[str]:
    """Why load that was asked for decided nothing, or left open whether the second tier is read at all."""
    said = [v for v in verdicts if v.entry is entry and v.vantage is Vantage.LOAD and v.rule in musts]
    if said and not any(v.status.judged or v.status is Status.NOT_APPLICABLE for v in said):
        return [f"load decided nothing on {entry.path}: {said[0].reason}"]
    return [
        f"{v.rule} is undecided on {entry.path}: {v.reason}"
        for v in said
        if v.rule == READ_BACK and v.status is Status.INCONCLUSIVE and not v.code
    ]


def _undecided(verdicts: Sequence[Verdict], entry: Entry) -> list[str]:
    said = {v.rule: v.status for v in verdicts if v.entry is entry}
    growth = [rule for rule in GROWTH_RULES if rule in said]
    if growth and not any(said[rule].judged for rule in growth):
        return [f"no verdict on a growing conversation on {entry.path} ({', '.join(growth)})"]
    return [f"{rule} is undecided on {entry.path}" for rule in DECISIVE if said.get(rule) is Status.INCONCLUSIVE]
