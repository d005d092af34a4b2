"""PFX rules by cached counts alone: hot pairs, their controls, and exact repeats."""

from __future__ import annotations

from conformance.evidence.hotpair import Arm, Count, Loss, count_again, count_fresh, count_new
from conformance.evidence.qualify import CacheState, is_hit
from conformance.judgements.verdict import Judging, cache_evidence_missing, confirming, no_attribution
from conformance.observe.observed import Arms, Observed, ToolArms
from conformance.verdicts import Status, Table, Vantage, Verdict

NOT_TOLD_APART = "gateway or engine not told apart: give --upstream-listen, or --engine for a direct arm"


def prefix_kept(observed: Observed) -> Verdict:
    """PFX-01 by cached counts: new turns keep what their hot repeat had; controls show what goes cold by itself."""
    judging = Judging("PFX-01", observed.entry, Vantage.CLIENT)
    if missing := _pairs_missing(observed, judging):
        return missing
    arms = observed.arms
    if missing := cache_evidence_missing(observed, judging):
        return missing
    loss, reason, n, tables = _plain_loss(observed, arms)
    if loss is Loss.KEPT:
        return judging.passes(reason, n, tables=tables)
    if loss is not Loss.LOST:
        return judging.undecided(reason, n, tables=tables)
    again, second, more, more_tables = _plain_loss(observed, observed.confirmation)
    if again is not Loss.LOST:
        return judging.undecided(
            f"{reason}; not confirmed: {second}", n + more, tables=(*tables, *confirming(more_tables))
        )
    n, tables = n + more, (*tables, *confirming(more_tables))
    ruled_out = ["eviction, routing and bursts: the same repeats, sent once more in between, stayed warm"]
    whose = NOT_TOLD_APART
    if (direct := observed.direct) is not None:
        straight = count_new(
            direct, observed.qualification.preamble_bound, observed.granule, observed.thresholds.hot_pair
        ).says(observed.thresholds.hot_pair)
        n, tables = n + len(direct.sends), (*tables, direct.table())
        if straight is Loss.LOST:
            return judging.undecided(
                f"{reason}; sent straight to the engine they lose it too: not the gateway's doing", n, tables=tables
            )
        if straight is Loss.KEPT:
            whose = "Sent straight to the engine they keep it: it is the gateway"
            ruled_out.append("the engine: the direct arm keeps its prefix")
    return judging.says(
        Status.FAIL,
        f"{reason}; confirmed under fresh salts: {second}. {whose}",
        n,
        code="prefix-lost",
        tables=tables,
        ruled_out=ruled_out,
    )


def attribution_kept_out(observed: Observed) -> Verdict:
    """PFX-02 by cached counts: the session with the block keeps its prefix as well as the one without."""
    judging = Judging("PFX-02", observed.entry, Vantage.CLIENT)
    if missing := no_attribution(observed, judging):
        return missing
    if missing := _pairs_missing(observed, judging):
        return missing
    arms = observed.arms
    if missing := cache_evidence_missing(observed, judging):
        return missing
    loss, reason, n, tables = _attribution_loss(observed, arms)
    if loss is Loss.KEPT:
        return judging.passes(f"{reason} (vLLM 0.32 and later drop the block themselves)", n, tables=tables)
    if loss is not Loss.LOST:
        return judging.undecided(reason, n, tables=tables)
    again, second, more, more_tables = _attribution_loss(observed, observed.confirmation)
    if again is not Loss.LOST:
        return judging.undecided(
            f"{reason}; not confirmed: {second}", n + more, tables=(*tables, *confirming(more_tables))
        )
    return judging.says(
        Status.FAIL,
        f"{reason}; confirmed under fresh salts: {second}",
        n + more,
        code="attribution-loses-prefix",
        tables=(*tables, *confirming(more_tables)),
        ruled_out=("eviction, routing and bursts: the session without the block, sent in turns with it, stayed warm",),
    )


def _pairs_missing(observed: Observed, judging: Judging) -> Verdict | None:
    if not observed.plan.controls:
        return judging.not_run("needs a recorder (--upstream-listen) or --budget standard for hot pairs")
    hot = observed.thresholds.hot_pair
    if hot.growth_granules * observed.granule > observed.plan.max_growth:
        return judging.undecided(
            f"cached counts move in steps of {observed.granule} tokens: pairs need --budget full to show a loss"
        )
    return None


def _counts(observed: Observed, arm: Arm) -> tuple[Count, Count, Count]:
    bound, granule, hot = observed.qualification.preamble_bound, observed.granule, observed.thresholds.hot_pair
    return (
        count_new(arm, bound, granule, hot),
        count_again(arm, bound, granule, hot),
        count_fresh(arm, bound, granule, hot),
    )


def _plain_loss(observed: Observed, arms: Arms) -> tuple[Loss, str, int, tuple[Table, ...]]:
    new, again, fresh = _counts(observed, arms.plain)
    hot = observed.thresholds.hot_pair
    reason = (
        f"{new.lost} of {new.valid} new turns lost the prefix their repeat had a moment before; "
        f"{again.lost} of {again.valid} repeats did"
    )
    n, tables = len(arms.plain.sends), (arms.plain.table(),)
    if fresh.says(hot) is not Loss.LOST:
        return Loss.MIXED, f"{reason}; prompts under another salt do not fall to the floor", n, tables
    verdict = new.says(hot)
    if verdict is Loss.LOST and again.says(hot) is not Loss.KEPT:
        verdict = Loss.MIXED
    return verdict, reason, n, tables


def _attribution_loss(observed: Observed, arms: Arms) -> tuple[Loss, str, int, tuple[Table, ...]]:
    hot = observed.thresholds.hot_pair
    assert arms.attribution is not None
    treated, _, _ = _counts(observed, arms.attribution)
    control, again, fresh = _counts(observed, arms.plain)
    reason = (
        f"{treated.lost} of {treated.valid} new turns with the attribution block lost the prefix, "
        f"{control.lost} of {control.valid} without it"
    )
    n = len(arms.attribution.sends) + len(arms.plain.sends)
    tables = (arms.attribution.table(), arms.plain.table())
    if fresh.says(hot) is not Loss.LOST:
        return Loss.MIXED, f"{reason}; prompts under another salt do not fall to the floor", n, tables
    verdict = treated.says(hot)
    if verdict is Loss.LOST and (control.says(hot) is not Loss.KEPT or again.says(hot) is not Loss.KEPT):
        verdict = Loss.MIXED
    return verdict, reason, n, tables


def tools_keep_their_order(observed: Observed) -> Verdict:
    """PFX-09 by cached counts: exact repeats hit with tools as they do without."""
    judging = Judging("PFX-09", observed.entry, Vantage.CLIENT)
    missing = cache_evidence_missing(observed, judging)
    if missing is None:
        repeats = [s for s in observed.hot_repeats if s.valid]
        whole = sum(observed.reaches_its_end(s) for s in repeats)
        return judging.passes(
            f"{whole} of {len(repeats)} exact repeats with a tool section were warm to their end", len(repeats)
        )
    if observed.cache_state not in (CacheState.NONE_SEEN, CacheState.UNRELIABLE, CacheState.PARTIAL):
        return missing
    loss, reason, n = _tools_loss(observed, observed.tool_arms)
    if loss is not Loss.LOST:
        return judging.undecided(f"{missing.reason} ({reason})", n, tables=missing.tables)
    again, second, more = _tools_loss(observed, observed.tool_confirmation)
    if again is not Loss.LOST:
        return judging.undecided(f"{reason}; not confirmed: {second}", n + more, tables=missing.tables)
    return judging.says(
        Status.FAIL,
        f"{reason}: the tool section varies from request to request; confirmed under fresh salts: {second}. "
        f"{NOT_TOLD_APART}",
        n + more,
        code="tools-vary",
        ruled_out=("eviction and routing: sessions without tools, sent in turns with these, stayed warm",),
    )


def _tools_loss(observed: Observed, arms: ToolArms) -> tuple[Loss, str, int]:
    bound, hot = observed.qualification.preamble_bound, observed.thresholds.hot_pair
    with_tools = Count(len(arms.with_tools), sum(not observed.reaches_its_end(r) for _, r in arms.with_tools))
    # Like is compared with like: a cache that keeps only the head of every prompt is no fault of the tools.
    whole = [is_hit(r, bound) and observed.reaches_its_end(r) for _, r in arms.without_tools]
    without = Count(len(whole), whole.count(False))
    reason = (
        f"{with_tools.lost} of {with_tools.valid} exact repeats with tools were cold behind the tools, "
        f"{without.lost} of {without.valid} without tools"
    )
    verdict = with_tools.says(hot)
    if verdict is Loss.LOST and without.says(hot) is not Loss.KEPT:
        verdict = Loss.MIXED
    return verdict, reason, 2 * (with_tools.valid + without.valid)
