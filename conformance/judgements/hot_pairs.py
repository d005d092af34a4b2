"""PFX rules by cached counts alone: hot pairs, their controls, and exact repeats."""

from __future__ import annotations

from dataclasses import replace

from conformance.evidence.hotpair import Arm, Count, Loss, count_again, count_fresh, count_new
from conformance.evidence.qualify import NEVER_HIT, CacheState, is_hit
from conformance.judgements.verdict import (
    NOT_TOLD_APART,
    Judging,
    cache_evidence_missing,
    confirming,
    evidence_of,
    no_attribution,
)
from conformance.observe.observations import Arms, ToolArms
from conformance.observe.observed import Observed
from conformance.verdicts import Excerpt, Status, Table, Vantage, Verdict

_UNKNOWN_ENGINE = (
    "whether it is forwarded is not seen: vLLM 0.32 and later drop the block themselves, and without --engine it is "
    "not known what answers"
)


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
    found = f"{reason}; confirmed under fresh salts: {second}"
    whose, straight = NOT_TOLD_APART, Loss.MIXED
    if (direct := observed.direct) is not None:
        n, tables = n + len(direct.sends), (*tables, direct.table())
        hot = observed.thresholds.hot_pair
        straight = count_new(direct, observed.qualification.preamble_bound, observed.granule, hot).says(hot)
        whose = "Sent straight to the engine they neither keep nor lose it: gateway or engine not told apart"
    if straight is Loss.LOST:
        whose = "Sent straight to the engine they lose it too: not the gateway's doing"
    if straight is not Loss.KEPT:
        return judging.withholds(f"{found}. {whose}", n, code="prefix-lost", tables=tables, ruled_out=ruled_out)
    return judging.says(
        Status.FAIL,
        f"{found}. Sent straight to the engine they keep it: it is the gateway",
        n,
        code="prefix-lost",
        tables=tables,
        ruled_out=[*ruled_out, "the engine: the direct arm keeps its prefix"],
        excerpts=_coldest(observed, arms.plain),
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
        engine = observed.engine.vllm
        if engine is not None and engine.strips_attribution:
            return judging.undecided(
                f"{reason}; but vLLM {engine.name} drops the block itself before it renders the prompt, so that counts "
                "cannot tell whether the gateway forwards it: needs a recorder (--upstream-listen)",
                n,
                tables=tables,
            )
        known = f"vLLM {engine.name} does not drop the block itself" if engine is not None else _UNKNOWN_ENGINE
        return judging.passes(f"{reason} ({known})", n, tables=tables)
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
        excerpts=_coldest(observed, arms.attribution) if arms.attribution is not None else (),
    )


def _coldest(observed: Observed, arm: Arm) -> tuple[Excerpt, ...]:
    """The hot repeat and the new turn of the pair that lost most."""
    pairs = [(p.repeat, p.new) for p in arm.pairs if p.repeat is not None and p.repeat.valid and p.new.valid]
    repeat, new = max(pairs, key=lambda pair: (pair[0].cached or 0) - (pair[1].cached or 0))
    return evidence_of(observed, ("a turn, sent again", repeat), ("the turn after it", new))


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
    if forms := _lost_by_form(observed, arms.plain):
        reason += f" ({forms})"
    n, tables = len(arms.plain.sends), (arms.plain.table(),)
    if fresh.says(hot) is not Loss.LOST:
        return Loss.MIXED, f"{reason}; prompts under another salt do not fall to the floor", n, tables
    verdict = new.says(hot)
    if verdict is Loss.LOST and again.says(hot) is not Loss.KEPT:
        verdict = Loss.MIXED
    return verdict, reason, n, tables


def _lost_by_form(observed: Observed, arm: Arm) -> str:
    """How many streamed and plain new turns lost their prefix, where some did and both forms were sent."""
    told, lost = [], 0
    for form, streamed in (("streamed", True), ("plain", False)):
        pairs = [p for p in arm.pairs if p.new.exchange is not None and p.new.exchange.streamed is streamed]
        count = count_new(
            replace(arm, pairs=pairs), observed.qualification.preamble_bound, observed.granule,
            observed.thresholds.hot_pair,
        )  # fmt: skip
        lost += count.lost
        if count.valid:
            told.append(f"{form}: {count.lost} of {count.valid}")
    return ", ".join(told) if lost and len(told) == 2 else ""


def _attribution_loss(observed: Observed, arms: Arms) -> tuple[Loss, str, int, tuple[Table, ...]]:
    hot = observed.thresholds.hot_pair
    assert arms.attribution is not None
    treated, _, _ = _counts(observed, arms.attribution)
    control, again, fresh = _counts(observed, arms.plain)
    reason = (
        f"{treated.lost} of {treated.valid} new turns with the attribution block lost the prefix, "
        f"{control.lost} of {control.valid} without it"
    )
    if forms := _lost_by_form(observed, arms.attribution):
        reason += f" ({forms})"
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
    if observed.cache_state not in {*NEVER_HIT, CacheState.UNRELIABLE, CacheState.PARTIAL}:
        return missing
    loss, reason, n = _tools_loss(observed, observed.tool_arms)
    if loss is not Loss.LOST:
        return judging.undecided(f"{missing.reason} ({reason})", n, tables=missing.tables)
    again, second, more = _tools_loss(observed, observed.tool_confirmation)
    if again is not Loss.LOST:
        return judging.undecided(f"{reason}; not confirmed: {second}", n + more, tables=missing.tables)
    found = f"{reason}: the tool section varies from request to request; confirmed under fresh salts: {second}"
    ruled_out = ["eviction and routing: sessions without tools, sent in turns with these, stayed warm"]
    n += more
    direct = observed.direct
    straight = [observed.reaches_its_end(s) for s in direct.repeats if s.valid] if direct is not None else []
    if sum(straight) < observed.thresholds.qualify.repeat_hit_share * len(straight) or not straight:
        cold = len(straight) - sum(straight)
        whose = f"Sent straight to the engine {cold} of {len(straight)} are cold too" if straight else NOT_TOLD_APART
        return judging.withholds(f"{found}. {whose}", n, code="tools-vary", ruled_out=ruled_out)
    lost = next(pair for pair in observed.tool_arms.with_tools if not observed.reaches_its_end(pair[1]))
    return judging.says(
        Status.FAIL,
        f"{found}. Sent straight to the engine they are warm: it is the gateway",
        n + len(straight),
        code="tools-vary",
        ruled_out=[*ruled_out, "the engine: repeats with tools that are sent straight to it are warm to their end"],
        excerpts=evidence_of(observed, ("a session with tools", lost[0]), ("the same, sent again", lost[1])),
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
