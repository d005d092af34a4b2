"""The second tier's rules, as judgements over the load generator's `evict` runs.

Nothing is concluded from one delta of a counter that others may have moved: the result says whether the engine was this
run's alone, whether L1 really lost what was asked again, and whether L2 was large enough to have kept it. What fails is
looked at once more in a second run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from conformance.judgements.load_looks import Loaded, judged_by_load, unusable
from conformance.judgements.verdict import Judging
from conformance.observe.under_load import LoadRun
from conformance.verdicts import Status, Table, Verdict

Result = Mapping[str, Any]
TierLook = Callable[[Result, Judging], Verdict]

LEAST_SHARE = 0.5
"""Of what was evicted and asked again, that L2 must give back (rules.md, L2-01)."""

LEAST_EVICTED = 2_000
"""Tokens; less may be a granule's rounding."""

FEWEST = 3
SLOWER, FASTER = 1.5, 0.9
"""A load is slow when its first token takes so many times the cold one's, and fast when it takes less than the other;
in between is noise."""

PATIENT = 5.0
"""A request hangs when its time ran out at so many times the slowest good answer's: else all of it is slow."""

SOFT_ERRORS = ("status 4", "status 503", "status 529", "connection refused")
"""Kinds of failures that do not speak of the second tier: refusals, want of room, a target that ended."""

LATE = "no whole answer within"
BEFORE_PRESSURE = ("fill", "warm")


def _tier_of(run: LoadRun, judging: Judging, *, needs_metered: bool = True) -> Result | Verdict:
    """The second tier's facts, or the verdict that stands in for them."""
    if verdict := unusable(run, judging):
        return verdict
    result = run.result or {}
    if result["options"]["engine"] is None:
        return judging.not_run("needs the engine's metrics: --engine URL")
    if result["stopped"] is not None:
        return judging.undecided(f"the load run ended early: {result['stopped']}", result["total"]["requests"])
    tier: Result | None = result["second_tier"]
    if tier is None or not tier["by_request"]:
        return judging.undecided("no session was evicted and came back", 0)
    if not tier["present"]:
        return _no_tier(judging)
    if tier["reason"]:
        return judging.undecided(tier["reason"], _n(tier))
    if tier["evicted"] is None:
        return judging.undecided("the engine's metrics do not tell what L1 still held", _n(tier))
    if tier["evicted"] < LEAST_EVICTED:
        return judging.undecided("L1 still held what was asked again: needs more pressure", _n(tier))
    if needs_metered and tier["loaded"] is None:
        return judging.undecided("the metrics show no external hits", _n(tier))
    return tier


def _judged_by_tier(rule: str, *, needs_metered: bool = True) -> Callable[[TierLook], Callable[[Loaded], Verdict]]:
    """`judged_by_load` for a look at what an `evict` run tells of the second tier, where it tells enough."""

    def judgement(look: TierLook) -> Callable[[Loaded], Verdict]:
        @judged_by_load(rule, "evict")
        @wraps(look)
        def judge(run: LoadRun, judging: Judging) -> Verdict:
            tier = _tier_of(run, judging, needs_metered=needs_metered)
            return tier if isinstance(tier, Verdict) else look(tier, judging)

        return judge

    return judgement


@_judged_by_tier("L2-01")
def loads_at_least_half(tier: Result, judging: Judging) -> Verdict:
    """L2-01."""
    tables, n, share = _tables(tier), _n(tier), tier["share_loaded"]
    said = f"{_tokens(tier['loaded'])} of {_tokens(tier['evicted'])} tokens evicted and asked again came from L2"
    if share is None:
        return judging.undecided("the metrics do not say how much came from L2", n, tables=tables)
    # Where a warm repeat hits less, by granularity or by a text that changes, no more can be given back.
    if share >= LEAST_SHARE * min(1.0, tier["kept_warm"]):
        if tier["load_bytes"] is None or tier["store_bytes"] is None:
            return judging.undecided(f"{said}, and the metrics show no bytes to confirm it", n, tables=tables)
        if not tier["load_bytes"]:
            return judging.undecided(f"{said}, but no bytes were loaded: the two disagree", n, tables=tables)
        return judging.passes(f"{said}, {tier['load_bytes']:,.0f} bytes", n, tables=tables)
    return _if_roomy(judging, tier, said, "loads-too-little")


@judged_by_load("L2-02", "evict")
def is_not_write_only(run: LoadRun, judging: Judging) -> Verdict:
    """L2-02."""
    tier = _tier_of(run, judging)
    if isinstance(tier, Verdict):
        return tier
    tables, n = _tables(tier), _n(tier)
    back = (tier["loaded"] or 0) + (tier["loaded_onward"] or 0)
    if tier["loaded_onward"] or (tier["loaded"] and tier["load_bytes"] != 0):
        return judging.passes(f"{_tokens(back)} tokens were read back after eviction", n, tables=tables)
    if tier["loaded"] or tier["load_bytes"]:
        doubt = "external hits and loaded bytes disagree: one is zero, the other not"
        return judging.undecided(doubt, n, tables=tables)
    if not tier["store_bytes"]:
        return judging.undecided("nothing was stored, so nothing can be said of reading it back", n, tables=tables)
    evicted = _tokens(tier["evicted"])
    said = f"{tier['store_bytes']:,.0f} bytes stored, none loaded of {evicted} tokens evicted and asked again"
    recipe = tuple(str(line) for line in (run.result or {}).get("recipe", ()))
    return _if_roomy(judging, tier, said, "write-only", recipe=recipe)


@_judged_by_tier("L2-03")
def answers_stay_the_same(tier: Result, judging: Judging) -> Verdict:
    """L2-03."""
    tables, n = _tables(tier), _n(tier)
    if not tier["loaded"]:
        return judging.undecided("nothing was loaded from L2, so no answer rests on it", n, tables=tables)
    same, steady = tier["same_answers"]
    kept, known = tier["recalled_loaded"]
    said = f"{same} of {steady} repeats answered as before and {kept} of {known} facts were recalled after a load"
    wrong, lost = steady - same, known - kept
    if lost >= 2:
        ruled_out = ("the model's own moods: the same sessions recalled their facts before eviction",)
        return judging.says(Status.FAIL, said, n, code="answers-differ", tables=tables, ruled_out=ruled_out)
    if wrong or lost or not (steady >= 2 or known >= 2):
        # Other words alone prove nothing: a greedy choice may turn out otherwise beside other requests.
        why = "some deviate, and too few forgot" if wrong or lost else "too few answers can be compared"
        return judging.undecided(f"{said}: {why}", n, tables=tables)
    return judging.passes(said, n, tables=tables)


@_judged_by_tier("L2-04")
def next_turns_load(tier: Result, judging: Judging) -> Verdict:
    """L2-04."""
    tables = _tables(tier)
    onward = [row for row in tier["by_request"] if row[1] == "turn"]
    served = [row for row in onward if row[4] >= LEAST_SHARE * row[3]]
    said = f"{len(served)} of {len(onward)} next turns after eviction found at least half of what they could"
    if len(onward) < 2:
        return judging.undecided(
            f"only {len(onward)} sessions came back with their next turn", len(onward), tables=tables
        )
    if len(served) == len(onward):
        if not tier["loaded_onward"]:
            return judging.undecided(f"{said}, but none of it was loaded: L1 still held it", len(onward), tables=tables)
        return judging.passes(f"{said}, by loading", len(onward), tables=tables)
    if (tier["warm_rate"] or 0.0) < LEAST_SHARE:
        reason = f"{said}, but next turns hardly hit when warm either ({_share(tier['warm_rate'])}): see PFX-01"
        return judging.undecided(reason, len(onward), tables=tables)
    if len(served) > len(onward) / 4:
        return judging.undecided(f"{said}: neither all nor few", len(onward), tables=tables)
    return _if_roomy(judging, tier, said, "next-turn-misses")


@judged_by_load("L2-05", "evict")
def requests_end(run: LoadRun, judging: Judging) -> Verdict:
    """L2-05."""
    if verdict := unusable(run, judging):
        return verdict
    result = run.result or {}
    if result["options"]["engine"] is None:
        return judging.not_run("needs the engine's metrics: --engine URL")
    if (result["tiers"]["last"] or result["tiers"]["first"] or {}).get("l2_queries") is None:
        return _no_tier(judging)
    phases, total = result["by_phase"], result["total"]
    rows = tuple((name, t["requests"], t["errors"]) for name, t in phases.items())
    tables = (Table("requests by phase", ("phase", "requests", "failed"), rows),)
    n, failed = total["requests"], total["errors"] + total["unfinished"]
    if not failed and result["stopped"] is None:
        if ((result["second_tier"] or {}).get("evicted") or 0) < LEAST_EVICTED:
            return judging.undecided(f"all {n} requests ended, but nothing shows pressure", n, tables=tables)
        return judging.passes(f"all {n} requests ended, with L1 filled {_factor(result)} times over", n, tables=tables)
    kinds = ", ".join(f"{text} ({count})" for text, count in list(result["errors"].items())[:3])
    said = f"{failed} of {n} requests did not end well: {kinds or result['stopped'] or 'the run ended before'}"
    if any(phases.get(name, {}).get("errors", 0) for name in BEFORE_PRESSURE):
        return judging.undecided(f"{said}; failures began before pressure", n, tables=tables)
    hard = sum(count for text, count in result["errors"].items() if not text.startswith((*SOFT_ERRORS, LATE)))
    late, slowest = sum(c for text, c in result["errors"].items() if text.startswith(LATE)), _slowest(result)
    if hard < FEWEST <= hard + late and result["options"]["timeout"] < PATIENT * slowest:
        slow = f"{said}; good answers took up to {slowest:.1f} s, so these may have been slow: give a longer --timeout"
        return judging.withholds(slow, n, code="slow", tables=tables)
    if hard + late >= FEWEST:
        ruled_out = ("the gateway alone: the same sessions' first turns, before L1 was full, all ended well",)
        return judging.says(Status.FAIL, said, n, code="requests-fail", tables=tables, ruled_out=ruled_out)
    return judging.undecided(f"{said}; none of it, or too little, speaks of the tier", n, tables=tables)


def _slowest(result: Result) -> float:
    """Seconds that the slowest good answer took."""
    place = {name: i for i, name in enumerate(result["columns"])}
    return max((row[place["total"]] for row in result["requests"] if row[place["error"]] is None), default=0.0)


@_judged_by_tier("L2-06", needs_metered=False)
def amplification_is_known(tier: Result, judging: Judging) -> Verdict:
    """L2-06."""
    tables, n = _tables(tier), _n(tier)
    if tier["store_bytes"] is None:
        if not tier["loaded"]:
            # A counter may not exist before its first use.
            return judging.undecided("no bytes are counted, and nothing was loaded that should be", n, tables=tables)
        said = "the engine counts tokens from its second tier, but no bytes stored or loaded"
        return judging.says(Status.FAIL, said, n, code="no-bytes", tables=tables)
    if not tier["amplification"]:
        return judging.undecided("nothing was loaded: every byte stored was in vain (see L2-02)", n, tables=tables)
    saved = _saved(tier)
    return judging.passes(f"{tier['amplification']:.1f} bytes stored per byte loaded{saved}", n, tables=tables)


@_judged_by_tier("L2-07")
def loads_are_faster(tier: Result, judging: Judging) -> Verdict:
    """L2-07."""
    tables, n = _tables(tier), _n(tier)
    cold, loaded = tier["ttft_cold"], tier["ttft_loaded"]
    if cold is None or loaded is None:
        return judging.undecided("too few answers loaded from L2, or too few first tokens seen", n, tables=tables)
    if (tier["share_loaded"] or 0.0) < LEAST_SHARE * min(1.0, tier["kept_warm"]):
        return judging.undecided("too little was loaded to time it (see L2-01)", n, tables=tables)
    said = f"first token after {1000 * loaded:.0f} ms when loaded, {1000 * cold:.0f} ms when computed (medians)"
    if loaded <= FASTER * cold:
        return judging.passes(said, n, tables=tables)
    if loaded >= SLOWER * cold:
        return judging.says(Status.FAIL, said, n, code="loads-slow", tables=tables)
    return judging.undecided(f"{said}: within noise", n, tables=tables)


def _no_tier(judging: Judging) -> Verdict:
    return judging.says(Status.NOT_APPLICABLE, "the engine's metrics show no second tier", 0)


def _if_roomy(
    judging: Judging, tier: Mapping[str, Any], said: str, code: str, *, recipe: Sequence[str] = ()
) -> Verdict:
    """A failure, where L2 is known to be large enough to have kept what was asked again."""
    tables, n = _tables(tier), _n(tier)
    if tier["roomy"] is None:
        doubt = f"{said}; a tier too small would look the same: give --l2-tokens"
        return judging.withholds(doubt, n, code=code, tables=tables)
    if not tier["roomy"]:
        return judging.undecided(f"{said}; L2 is too small to have kept it", n, tables=tables)
    if len(tier["by_request"]) < FEWEST:
        return judging.undecided(f"{said}; only {len(tier['by_request'])} sessions came back", n, tables=tables)
    ruled_out = (
        "want of room: L2 holds more than was sent before the return",
        "others: the engine was this run's alone",
    )
    return judging.says(Status.FAIL, said, n, code=code, tables=tables, ruled_out=(*ruled_out, *recipe))


def _tables(tier: Mapping[str, Any]) -> tuple[Table, ...]:
    rows = tuple((s, kind, prompt, could, cached) for s, kind, prompt, could, cached in tier["by_request"])
    return (Table("sessions that came back", ("session", "request", "prompt", "sent before", "cached"), rows),)


def _n(tier: Mapping[str, Any]) -> int:
    return len(tier["by_request"])


def _tokens(value: float | None) -> str:
    return "an unknown number" if value is None else f"{value:,.0f}"


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.0%}"


def _factor(result: Mapping[str, Any]) -> str:
    pool = result["pool_tokens"]
    return f"{result['total']['prompt'] / pool:.1f}" if pool else "several"


def _saved(tier: Mapping[str, Any]) -> str:
    cold, loaded = tier["ttft_cold"], tier["ttft_loaded"]
    return (
        "" if cold is None or loaded is None else f"; a load saves {1000 * (cold - loaded):.0f} ms to the first token"
    )
