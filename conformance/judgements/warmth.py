"""PFX-19, ISO-01 and AFF-02: the same warmth on both entries, tenants apart, sessions recognisable."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from conformance.diagnosis.divergence import prefix_change
from conformance.evidence.hotpair import Arm
from conformance.judgements.requests_table import turns_table
from conformance.judgements.translated import finding, got, unseen
from conformance.judgements.verdict import (
    Judging,
    cache_evidence_missing,
    confirming,
    evidence,
    evidence_of,
    upstream_prompts,
)
from conformance.observe.observed import Observed
from conformance.observe.records import own_record
from conformance.verdicts import Change, Excerpt, Status, Table, Vantage, Verdict
from conformance.wire.exchange import Exchange

_WARM, _COLD = 0.8, 0.3
"""Shares of what was appended that a later turn reads from cache: at least / at most, in most turns."""

_LEAST_TURNS = 5

_SESSION_HEADERS = ("x-claude-code-session-id", "x-session-id", "x-session-affinity")
_SESSION_FIELDS = ("prompt_cache_key", "user", "safety_identifier")


def both_entries_are_equally_warm(observed: Observed) -> Verdict:
    """PFX-19: as the entry's real client grows its conversation, cached counts grow alike on both entries."""
    judging = Judging("PFX-19", observed.entry, Vantage.CLIENT)
    other = observed.other
    if other is None:
        return judging.says(Status.NOT_APPLICABLE, "the target has only one entry", 0)
    for entry in (observed, other):
        _ = entry.arms
        if missing := cache_evidence_missing(entry, judging):
            return missing
    first = _compare((observed, observed.arms.pinned), (other, other.arms.pinned))
    if first.cold is None:
        if first.alike:
            return judging.passes(first.reason, first.n, tables=(first.table,))
        return judging.undecided(first.reason, first.n, tables=(first.table,))
    ruled_out = ["the engine and its load, because the other entry's turns, on the same model, stay warm"]
    tables, n = [first.table], first.n
    if observed.sees_upstream and _prefix_changes(first.cold.arms.pinned):
        ruled_out.append("chance, because its upstream prompts do not begin each other")
    else:
        second = _compare((observed, observed.confirmation.pinned), (other, other.confirmation.pinned))
        tables, n = [first.table, *confirming([second.table])], n + second.n
        if second.cold is not first.cold:
            return judging.undecided(f"{first.reason}; not confirmed: {second.reason}", n, tables=tables)
        ruled_out.append("chance, because fresh salts show the same")
    return judging.says(
        Status.FAIL, first.reason, n, code="entries-differ", tables=tables, ruled_out=ruled_out,
        excerpts=_last_turns(first.cold, other if first.cold is observed else observed),
    )  # fmt: skip


def _last_turns(cold: Observed, warm: Observed) -> tuple[Excerpt, ...]:
    """The last two turns on the cold entry, between which its prompt changes, and the last on the warm one."""
    before, last = [s for s in cold.arms.pinned.new_turns if s.valid][-2:]
    warmest = [s for s in warm.arms.pinned.new_turns if s.valid][-1]
    return (
        *evidence_of(cold, (f"last turn but one on {cold.entry.path}", before), (f"last on {cold.entry.path}", last)),
        *evidence_of(warm, (f"last turn on {warm.entry.path}", warmest)),
    )


@dataclass(frozen=True)
class _Comparison:
    """`cold` is the entry whose counts do not grow while the other's do; `alike` is True when both grow."""

    cold: Observed | None
    alike: bool
    reason: str
    n: int
    table: Table


def _compare(one: tuple[Observed, Arm], two: tuple[Observed, Arm]) -> _Comparison:
    grown = appended(one[1], two[1])
    kept = {entry.entry.path: kept_growth(arm, each) for (entry, arm), each in zip((one, two), grown, strict=True)}
    rows = tuple((path, len(found), round(_middle(found), 3) if found else None) for path, found in kept.items())
    table = Table("share of what was appended that later turns read from cache", ("entry", "turns", "median"), rows)
    n = len(one[1].new_turns) + len(two[1].new_turns)
    fewest = min(map(len, kept.values()))
    if fewest < _LEAST_TURNS:
        return _Comparison(None, False, f"only {fewest} turns could be compared", n, table)
    (cold, colder), (warm, warmer) = sorted(kept.items(), key=lambda item: _middle(item[1]))
    reason = f"{cold} reads {_middle(colder):.0%} of what was appended from cache, {warm} {_middle(warmer):.0%}"
    if _middle(warmer) < _WARM:
        return _Comparison(
            None, False, f"neither entry keeps its prefix well enough to compare (see PFX-01): {reason}", n, table
        )
    if sum(share <= _COLD for share in colder) >= len(colder) - 1:
        whose = one[0] if cold == one[0].entry.path else two[0]
        return _Comparison(whose, False, reason, n, table)
    if sum(share >= _WARM - 0.1 for share in colder) >= len(colder) - 1:
        return _Comparison(None, True, reason, n, table)
    return _Comparison(None, False, f"some turns are warm on one entry and cold on the other: {reason}", n, table)


def appended(one: Arm, two: Arm) -> tuple[list[int], list[int]]:
    """What each turn's prompt has more than the first answered one's, in tokens; the lesser where both append alike.

    An entry whose totals then grow faster counts cached tokens twice: USE-01's matter, which makes no cache cold.
    """
    ones, twos = ([(s.prompt or 0) - _first_prompt(arm) for s in arm.new_turns] for arm in (one, two))
    if one.growth != two.growth:
        return ones, twos
    lesser = [min(turn) for turn in zip(ones, twos, strict=False)]
    return lesser, lesser


def _first_prompt(arm: Arm) -> int:
    """Tokens of the first turn that was answered."""
    return next((s.prompt for s in arm.new_turns if s.valid and s.prompt), 0)


def kept_growth(arm: Arm, appended: list[int]) -> list[float]:
    """For each new turn after the second: how much more it reads from cache than the second one, by what was appended.

    `appended` is by turn, in tokens. 1 where every turn keeps all before it; 0 where counts are pinned, whatever they
    are pinned at.
    """
    turns = [
        (s, more)
        for s, more in zip(arm.new_turns, appended, strict=False)
        if s.valid and None not in (s.prompt, s.cached)
    ]
    found = []
    for (_, before), (turn, _) in pairwise(turns[1:]):
        if before > 0:
            found.append(min(1.0, ((turn.cached or 0) - (turns[1][0].cached or 0)) / before))
    return found


def _prefix_changes(arm: Arm) -> bool:
    prompts = [prompt for _, prompt in upstream_prompts([s.exchange for s in arm.new_turns if s.exchange is not None])]
    return any(prefix_change(a, b, lambda _: True) is not None for a, b in pairwise(prompts))


def _middle(shares: list[float]) -> float:
    return sorted(shares)[len(shares) // 2] if shares else 0.0


def tenants_are_kept_apart(observed: Observed) -> Verdict:
    """ISO-01: a salt the client declares reaches the engine as it is: its own prompts hit, another tenant's do not."""
    judging = Judging("ISO-01", observed.entry, Vantage.CLIENT)
    sends = observed.translation.tenants
    counts = tuple((f"salt {name}", t.exchange.usage.prompt, t.exchange.usage.cached) for name, t in sends)
    table = Table("one prompt under the salts a, a, b", ("send", "prompt", "cached"), counts)
    (_, first), (_, again), (_, foreign) = sends
    if not all(translated.exchange.ok for _, translated in sends):
        return judging.undecided(f"the gateway refuses cache_salt: {first.exchange.error or again.exchange.error}", 3)
    floor = observed.qualification.floor + observed.granule
    seen_by_other = foreign.exchange.usage.cached or 0
    if observed.sees_upstream:
        if silent := unseen(judging, first, again, foreign):
            return silent
        salts = [got(translated).fields.get("cache_salt") for _, translated in sends]
        if None in salts and seen_by_other <= floor:
            return judging.undecided(
                "the salt does not reach the upstream, yet no tenant was seen to read another's (see PFX-18)",
                3,
                tables=(table,),
            )
        came = None
        if None in salts:
            came = Change("the field cache_salt", 0, "the salts a, a, b", "(nothing)", "field dropped")
        elif salts[0] != salts[1]:
            came = Change("the field cache_salt", 0, "the salt a, twice", "two salts", "salt varies")
        elif salts[0] == salts[2]:
            came = Change("the field cache_salt", 0, "the salts a and b", "one salt", "salts merged")
        if came is not None:
            return finding(
                judging, observed, foreign, 3, came, code="salt-not-kept",
                says="a tenant's declared salt does not reach the engine as its own", tables=(table,),
            )  # fmt: skip
    if missing := cache_evidence_missing(observed, judging):
        return missing
    hit = again.exchange.usage.cached or 0
    if hit <= seen_by_other <= floor:
        return judging.undecided(
            "the prompt is too short for its repeat to hit at this granularity", 3, tables=(table,)
        )
    if seen_by_other <= floor:
        return judging.passes(
            f"a tenant's repeat hits {hit:,} tokens, another tenant's {seen_by_other:,}", 3, tables=(table,)
        )
    return judging.undecided(
        f"another tenant's salt hits {seen_by_other:,} tokens; whether the engine knows cache_salt is not told apart",
        3, tables=(table,),
    )  # fmt: skip


def the_session_is_recognisable(observed: Observed) -> Verdict:
    """AFF-02: a session key that reaches the upstream is one for all turns of a session, and another for another."""
    judging = Judging("AFF-02", observed.entry, Vantage.UPSTREAM)
    arm = observed.arms.plain
    turns = [s.exchange for s in arm.new_turns if s.exchange is not None and own_record(s.exchange) is not None]
    keys = [_keys(exchange) for exchange in turns]
    n = len(turns)
    judging.rests_on(turns_table(turns))
    if sum(bool(found) for found in keys) < 3:
        return judging.says(
            Status.NOT_APPLICABLE,
            "no session key reaches the upstream: a router in the gateway itself is not seen here",
            n,
        )
    for name in dict.fromkeys(name for found in keys for name in found):
        values = [found.get(name) for found in keys]
        if len(set(values)) > 1:
            at = next(i for i, value in enumerate(values) if value != values[0])
            change = Change(name, 0, str(values[0])[:12], str(values[at])[:12], "session key varies")
            return judging.says(
                Status.FAIL,
                f"the session key {name} is another in every turn: it follows the body, not the session",
                n, code="key-follows-body", change=change,
                ruled_out=("the client, because it sends one session id in all of these turns",),
                excerpts=tuple(evidence(f"turn {i + 1}", turns[i], observed) for i in (0, at)),
            )  # fmt: skip
    return judging.passes(f"{len(turns)} turns of one session carry one key ({', '.join(keys[0])})", n)


def _keys(exchange: Exchange) -> dict[str, str]:
    record = own_record(exchange)
    if record is None:
        return {}
    found = {name: record.headers[name] for name in _SESSION_HEADERS if name in record.headers}
    body = record.json if isinstance(record.json, dict) else {}
    metadata = body.get("metadata")
    fields = {name: body.get(name) for name in _SESSION_FIELDS}
    fields["metadata.user_id"] = metadata.get("user_id") if isinstance(metadata, dict) else None
    return found | {f"the field {name}": str(value) for name, value in fields.items() if value is not None}
