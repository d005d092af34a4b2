"""PIN rules: are cached counts measured, and do they move with the prompt?"""

from __future__ import annotations

from collections.abc import Sequence

from conformance.diagnosis.explain import explain
from conformance.evidence.conversation import Sent
from conformance.evidence.hotpair import Arm
from conformance.evidence.pinned import Pinned, find_pinned, long_enough, one_constant
from conformance.judgements.sections import pinned_section
from conformance.judgements.verdict import (
    NOT_TOLD_APART,
    Judging,
    cache_evidence_missing,
    cached_not_reported,
    confirming,
    evidence,
    evidence_of,
    upstream_prompts,
    usage_upstream,
)
from conformance.observe.observed import Observed
from conformance.verdicts import Change, Status, Table, Vantage, Verdict

_LEAST_OF_A_FORM = 3


def not_pinned(observed: Observed) -> Verdict:
    """PIN-01: new turns' counts are not one constant while the prompt and its exact repeats grow."""
    judging = Judging("PIN-01", observed.entry, Vantage.CLIENT)
    arms = observed.arms
    if missing := cache_evidence_missing(observed, judging):
        return missing
    arm, granule, rules = arms.pinned, observed.granule, observed.thresholds.pinned
    n = len(arm.sends)
    tables: tuple[Table, ...] = (arm.table(),)
    prompts = [s.prompt for s in arm.new_turns[1:] if s.prompt is not None]
    if not observed.turns_counted:
        return judging.undecided(
            f"turns grew by about {arm.growth} tokens, the reported totals do not: older turns do not reach the model, "
            "or are not counted",
            n,
            tables=tables,
        )
    if not long_enough(prompts, granule, rules):
        return judging.undecided(
            f"counts move in steps of {granule} tokens, turns grew by {arm.growth}: needs a larger --budget",
            n,
            tables=tables,
        )
    pinned = _pinned(observed, arm)
    if pinned is None:
        counts = [s.cached or 0 for s in arm.new_turns if s.valid]
        if not _arm_grew(arm, rules.growth_granules * granule):
            # A loss down to the floor is no plateau above it, and still no reason to be green.
            forms = "streamed and plain new turns do not grow alike; " if _grew_in_one_form(observed, arm) else ""
            return judging.undecided(
                f"{forms}new turns report {min(counts, default=0):,} to {max(counts, default=0):,} cached tokens, "
                f"their exact repeats up to {max((s.cached or 0 for s in arm.repeats), default=0):,}: not pinned above "
                f"the template floor of {observed.qualification.floor:,}, but not growing either (see PFX-01, PFX-02)",
                n,
                tables=tables,
            )
        return judging.passes(
            f"cached counts grew from {min(counts):,} to {max(counts):,} tokens over {len(counts)} turns",
            n,
            tables=tables,
        )
    change = _upstream_change(arm, observed)
    ruled_out = ["eviction and idle time: exact repeats of the same turns, sent in between, grew with the prompt"]
    found = (
        f"pinned at exactly {pinned.count:,} cached tokens in {pinned.turns} turns while prompts grew from "
        f"{pinned.first_prompt:,} to {pinned.last_prompt:,}; {pinned_section(observed, arm, pinned.count)}"
    )
    if change is None:  # nothing but counts accuses: look again under fresh salts before saying so
        if _pinned(observed, observed.confirmation.pinned) is None:
            return judging.undecided(
                f"pinned at {pinned.count:,} once, but not again under fresh salts", n, tables=tables
            )
        guilty, why, more = _told_apart(observed, arm)
        n += len(observed.confirmation.pinned.sends)
        tables = (*tables, *confirming([observed.confirmation.pinned.table()]), *more)
        if not guilty:
            return judging.withholds(f"{found}; {why}", n, code=_open("pinned", observed), tables=tables)
        ruled_out.append(why)
    plateau = [s for s in arm.new_turns[1:] if s.valid and pinned.first_prompt <= (s.prompt or 0) <= pinned.last_prompt]
    return judging.says(
        Status.FAIL, found, n, code="pinned", tables=tables, change=change, ruled_out=ruled_out,
        excerpts=evidence_of(observed, ("first pinned turn", plateau[0]), ("last pinned turn", plateau[-1])),
    )  # fmt: skip


def _open(code: str, observed: Observed) -> str:
    """The code of a finding that leaves its family open: a recorder has cleared the gateway of it, counts have not."""
    return "" if observed.sees_upstream else code


def _told_apart(observed: Observed, arm: Arm) -> tuple[bool, str, tuple[Table, ...]]:
    """Whether a count that is pinned twice is the gateway's doing, how that is known, and what shows it."""
    if observed.sees_upstream:
        if told_by_upstream(arm.new_turns):
            return False, "the upstream prompts begin each other, and the upstream itself reports these counts", ()
        return True, "the engine: its own counts are others than the reported ones", ()
    growth, again = observed.thresholds.pinned.growth_granules * observed.granule, observed.confirmation
    if again.attribution is not None and _arm_grew(again.plain, growth):
        return True, "the engine: the session that differs only by the attribution block grew", (again.plain.table(),)
    direct = observed.direct
    if direct is None:
        return False, NOT_TOLD_APART, ()
    if _arm_grew(direct, growth):
        return True, "the engine: the same session, sent straight to it, grew", (direct.table(),)
    return False, "sent straight to the engine it does not grow either: not the gateway's doing", (direct.table(),)


def _pinned(observed: Observed, arm: Arm) -> Pinned | None:
    floor = max(observed.qualification.floor, 0)
    return find_pinned(arm.new_turns[1:], arm.repeats, floor, observed.granule, observed.thresholds.pinned)


def _forms(arm: Arm) -> list[list[Sent]]:
    """The new turns after the first, streamed ones apart from plain ones; a form of fewer than three is none."""
    turns = [s for s in arm.new_turns[1:] if s.valid]
    streamed = [s for s in turns if s.exchange is not None and s.exchange.streamed]
    plain = [s for s in turns if s not in streamed]
    return [form for form in (streamed, plain) if len(form) >= _LEAST_OF_A_FORM] or [turns]


def _arm_grew(arm: Arm, tokens: float) -> bool:
    """True when the counts of new turns span at least `tokens` in every form they were sent in."""
    return all(_grew(turns, tokens) for turns in _forms(arm))


def _grew(turns: list[Sent], tokens: float) -> bool:
    """True when the counts of turns span at least `tokens`: what a pass must have seen."""
    counts = [s.cached or 0 for s in turns]
    return bool(counts) and max(counts) - min(counts) >= tokens


def _grew_in_one_form(observed: Observed, arm: Arm) -> bool:
    tokens = observed.thresholds.pinned.growth_granules * observed.granule
    return len({_grew(turns, tokens) for turns in _forms(arm)}) > 1


def _upstream_change(arm: Arm, observed: Observed) -> Change | None:
    """What changes between the last two turns' upstream prompts, in the client's terms."""
    prompts = upstream_prompts([s.exchange for s in arm.new_turns if s.exchange is not None])
    if len(prompts) < 2:
        return None
    explained = explain(prompts[-2], prompts[-1], observed.own_text, observed.lab.tokens_per_byte)
    return explained.change if explained is not None else None


def fresh_prompts_report_no_hit(observed: Observed) -> Verdict:
    """PIN-02: a prompt under a fresh salt cannot share more than what stands before its first salt."""
    judging = Judging("PIN-02", observed.entry, Vantage.CLIENT)
    qualification = observed.qualification
    rules = observed.thresholds.qualify
    fresh = [p.first for p in qualification.probes]
    if not any(s.valid for s in fresh):
        return cache_evidence_missing(observed, judging) or judging.undecided("no probe was answered")
    if all(s.cached is None for p in qualification.probes for s in (p.first, *p.repeats)):
        return judging.not_run(cached_not_reported(observed))
    if not qualification.all_counted:  # then the bound below means nothing
        return cache_evidence_missing(observed, judging) or judging.undecided("the total does not count every section")
    # A true count never exceeds what is shared, whatever its step; the margin is for the bound's own estimate.
    limit = qualification.preamble_bound * (1 + rules.invented_share) + rules.invented_tokens
    high = [s for s in fresh if s.valid and (s.cached or 0) > limit]
    if len(high) >= 2 and not _shared_length(high, rules.shared_spread, rules.shared_share):
        return _invented(observed, judging, high, limit)
    if high:
        return judging.undecided(
            f"{len(high)} of {len(fresh)} fresh prompts report a hit above what prompts seem to share",
            len(fresh),
            tables=(qualification.table,),
        )
    if missing := cache_evidence_missing(observed, judging):
        return missing
    return judging.passes(
        f"{len(fresh)} prompts nobody sent before: at most {qualification.floor:,} cached (template floor)",
        len(fresh),
        tables=(qualification.table,),
    )


def _invented(observed: Observed, judging: Judging, high: list[Sent], limit: float) -> Verdict:
    """Hits of fresh prompts: invented, or found by an engine that knows texts again wherever they stand."""
    n, tables = len(observed.qualification.probes), (observed.qualification.table,)
    worst = max(high, key=lambda s: s.cached or 0)
    found = (
        f"{len(high)} of {n} prompts nobody sent before report hits: {worst.cached:,} of {worst.prompt:,} tokens, "
        f"where at most {limit:.0f} can be shared"
    )
    if observed.sees_upstream:
        if told_by_upstream(high):
            return judging.undecided(
                f"{found}; the upstream itself reports them: not the gateway's doing (an engine may reuse text "
                "wherever it stands)",
                n,
                tables=tables,
            )
        why = "the engine: it reports other counts for the same requests"
    else:
        novel = [s for s in observed.novel if s.valid]
        n += 2 * len(novel)
        again = sum((s.cached or 0) > limit for s in novel)
        if not again:  # no honest count of such a prompt can be above that limit, in any cache
            return judging.withholds(
                f"{found}; {again} of {len(novel)} prompts without one known line do: the engine may reuse text "
                "wherever it stands",
                n, code="invented-hits", tables=tables,
            )  # fmt: skip
        why = f"reuse of text at other places: {again} of {len(novel)} prompts without one known line report hits too"
    return judging.says(
        Status.FAIL,
        found,
        n,
        code="invented-hits",
        tables=tables,
        ruled_out=(
            "a shared beginning: each prompt has its own salt at the head of its tools, system text and message",
            why,
        ),
        excerpts=evidence_of(observed, ("a prompt nobody sent before", worst)),
    )


def _shared_length(high: list[Sent], spread: float, share: float) -> bool:
    """True when the counts may yet be one shared text: alike, and a small part of each prompt.

    The bound rests on the reported totals; where those are wrong, a true template floor can stand above it.
    """
    counts = [s.cached or 0 for s in high]
    alike = max(counts) - min(counts) <= spread * max(counts)
    return alike and all((s.cached or 0) <= share * (s.prompt or 0) for s in high)


def counts_move_with_the_prompt(observed: Observed) -> Verdict:
    """PIN-03: exact repeats of different lengths and tool sections do not all report one constant."""
    judging = Judging("PIN-03", observed.entry, Vantage.CLIENT)
    _ = observed.arms
    bound = observed.qualification.preamble_bound
    repeats = [s for s in observed.repeats if s.valid]
    tables = (_repeat_table(observed),)
    constant = one_constant(repeats, bound)
    if constant is not None and observed.qualification.all_counted:
        challenged = [s.cached for s in observed.challenge]
        n = len(repeats) + len(challenged)
        if all(cached == constant for cached in challenged):
            found = f"all {n} exact repeats report exactly {constant:,} cached tokens, whatever was sent"
            ruled_out = [
                f"a shared section of {constant:,} tokens: neither longer tools nor a longer system text moved it",
                f"coarse counts: repeats of prompts longer than {2 * constant:,} tokens report it too",
            ]
            guilty, why = _own_constant(observed, repeats, bound)
            if not guilty:
                return judging.withholds(f"{found}; {why}", n, code=_open("constant", observed), tables=tables)
            return judging.says(
                Status.FAIL, found, n, code="constant", tables=tables, ruled_out=[*ruled_out, why],
                excerpts=evidence_of(observed, *(("an exact repeat", s) for s in (repeats[0], repeats[-1]))),
            )  # fmt: skip
    if missing := cache_evidence_missing(observed, judging):
        return missing
    counts = {s.cached for s in repeats if s.cached}
    if len(counts) < 2:
        return judging.undecided(f"exact repeats reported {len(counts)} different counts", len(repeats), tables=tables)
    return judging.passes(
        f"{len(repeats)} exact repeats report {len(counts)} different counts, {min(counts):,} to {max(counts):,}",
        len(repeats),
        tables=tables,
    )


def no_more_cached_than_sent(observed: Observed) -> Verdict:
    """PIN-04: an answer's cached count is at most its prompt (vLLM always computes at least one token)."""
    judging = Judging("PIN-04", observed.entry, Vantage.CLIENT)
    _ = observed.arms, observed.streams  # growing turns, and every form of answer
    counted = [
        (e, e.usage.prompt, e.usage.cached)
        for e in observed.exchanges
        if e.ok and e.usage.prompt is not None and e.usage.cached is not None
    ]
    above = [(e, prompt, cached) for e, prompt, cached in counted if cached > prompt >= 0]
    if above:
        exchange, prompt, cached = above[0]
        return judging.says(
            Status.FAIL,
            f"{len(above)} of {len(counted)} answers report more cached tokens than the prompt has: "
            f"e.g. {cached:,} of {prompt:,}",
            len(counted),
            code="cached-above-prompt",
            tables=(Table("answers above their prompt", ("prompt", "cached"), tuple(row[1:] for row in above[:12])),),
            excerpts=(evidence("first such answer", exchange, observed),),
        )
    if missing := cache_evidence_missing(observed, judging):
        return missing
    ratios = sorted(((cached / prompt, prompt, cached) for _, prompt, cached in counted if prompt), reverse=True)
    table = Table("the warmest answers", ("prompt", "cached"), tuple(row[1:] for row in ratios[:12]))
    return judging.passes(
        f"at most {ratios[0][0]:.1%} of a prompt is reported as cached, over {len(counted)} answers",
        len(counted),
        tables=(table,),
    )


def _own_constant(observed: Observed, repeats: list[Sent], bound: float) -> tuple[bool, str]:
    """Whether one constant count is the gateway's own, and how that is known: a cache may keep only a prompt's head."""
    if observed.sees_upstream:
        if told_by_upstream(repeats):
            return False, "the upstream itself reports it: its cache may keep only the head of a prompt"
        return True, "the engine: it reports other counts for the same requests"
    direct = observed.direct
    if direct is None:
        return False, f"a cache that keeps only the head of a prompt looks the same: {NOT_TOLD_APART}"
    if len({s.cached for s in direct.repeats if s.valid and (s.cached or 0) > bound}) > 1:
        return True, "the engine: asked directly, its repeats report different counts"
    return False, "asked directly, the engine reports no other: not the gateway's doing"


def told_by_upstream(sends: Sequence[Sent]) -> bool:
    """True when the upstream reported the very cached counts that the client got, wherever a recorder saw them."""
    said = [(usage_upstream(s.exchange).cached, s.cached) for s in sends if s.valid and s.exchange is not None]
    known = [(upstream or 0) == (got or 0) for upstream, got in said if upstream is not None]
    return bool(known) and all(known)


def _repeat_table(observed: Observed) -> Table:
    rows = tuple((s.prompt, s.cached) for s in observed.repeats if s.valid)
    return Table("exact repeats", ("prompt", "cached"), rows)
