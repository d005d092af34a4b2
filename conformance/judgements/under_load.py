"""The rules that only load can decide, as judgements over the load generator's results.

Nothing is concluded from one delta of a counter that others may have moved: the result says whether the engine was this
run's alone, whether L1 really lost what was asked again, and whether L2 was large enough to have kept it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from conformance.judgements.verdict import Judging
from conformance.observe.under_load import LoadRun
from conformance.verdicts import Entry, Status, Table, Vantage, Verdict


class Loaded(Protocol):
    """One entry under load: all these judgements need of what was observed."""

    entry: Entry

    def load_run(self, shape: str, /) -> LoadRun: ...


LEAST_SHARE = 0.5
"""Of what was evicted and asked again, that L2 must give back (rules.md, L2-01)."""

LEAST_EVICTED = 2_000
"""Tokens; less may be a granule's rounding."""

FEWEST = 3
SLOWER = 1.5
"""A load is slow when its first token takes this many times the cold one's; in between is noise."""

DROPS = 0.2
CHANCES = 12
SLOWEST_PREFILL = 500_000
"""Tokens a second; no engine's neighbours prefill faster, so none can have evicted a prompt sooner than that allows."""


def loads_at_least_half(observed: Loaded) -> Verdict:
    """L2-01."""
    judging = Judging("L2-01", observed.entry, Vantage.LOAD)
    tier, verdict = _tier(observed, judging)
    if tier is None or verdict is not None:
        return verdict or judging.undecided("no result")
    tables, n, share = _tables(tier), _n(tier), tier["share_loaded"]
    said = f"{_tokens(tier['loaded'])} of {_tokens(tier['evicted'])} tokens evicted and asked again came from L2"
    if share is None:
        return judging.undecided("the metrics do not say how much came from L2", n, tables=tables)
    if share >= LEAST_SHARE:
        if tier["load_bytes"] is None or tier["store_bytes"] is None:
            return judging.undecided(f"{said}, and the metrics show no bytes to confirm it", n, tables=tables)
        if not tier["load_bytes"]:
            return judging.undecided(f"{said}, but no bytes were loaded: the two disagree", n, tables=tables)
        return judging.passes(f"{said}, {tier['load_bytes']:,.0f} bytes", n, tables=tables)
    return _if_roomy(judging, tier, said, "loads-too-little")


def is_not_write_only(observed: Loaded) -> Verdict:
    """L2-02."""
    judging = Judging("L2-02", observed.entry, Vantage.LOAD)
    tier, verdict = _tier(observed, judging)
    if tier is None or verdict is not None:
        return verdict or judging.undecided("no result")
    tables, n = _tables(tier), _n(tier)
    if tier["load_bytes"] or tier["loaded"]:
        return judging.passes(f"{_tokens(tier['loaded'])} tokens were read back after eviction", n, tables=tables)
    if not tier["store_bytes"]:
        return judging.undecided("nothing was stored, so nothing can be said of reading it back", n, tables=tables)
    evicted = _tokens(tier["evicted"])
    said = f"{tier['store_bytes']:,.0f} bytes stored, none loaded of {evicted} tokens evicted and asked again"
    recipe = tuple(str(line) for line in (observed.load_run("evict").result or {}).get("recipe", ()))
    return _if_roomy(judging, tier, said, "write-only", recipe=recipe)


def answers_stay_the_same(observed: Loaded) -> Verdict:
    """L2-03."""
    judging = Judging("L2-03", observed.entry, Vantage.LOAD)
    tier, verdict = _tier(observed, judging)
    if tier is None or verdict is not None:
        return verdict or judging.undecided("no result")
    tables, n = _tables(tier), _n(tier)
    if not tier["loaded"]:
        return judging.undecided("nothing was loaded from L2, so no answer rests on it", n, tables=tables)
    same, steady = tier["same_answers"]
    kept, known = tier["recalled_loaded"]
    said = f"{same} of {steady} repeats answered as before and {kept} of {known} facts were recalled after a load"
    wrong, lost = steady - same, known - kept
    if wrong >= 2 or lost >= 2:
        ruled_out = ("the model's own moods: the same requests answered alike, and recalled, before eviction",)
        return judging.says(Status.FAIL, said, n, code="answers-differ", tables=tables, ruled_out=ruled_out)
    if wrong or lost or not (steady >= 2 or known >= 2):
        why = "one deviates" if wrong or lost else "too few answers can be compared"
        return judging.undecided(f"{said}: {why}", n, tables=tables)
    return judging.passes(said, n, tables=tables)


def next_turns_load(observed: Loaded) -> Verdict:
    """L2-04."""
    judging = Judging("L2-04", observed.entry, Vantage.LOAD)
    tier, verdict = _tier(observed, judging)
    if tier is None or verdict is not None:
        return verdict or judging.undecided("no result")
    tables = _tables(tier)
    onward = [row for row in tier["by_request"] if row[1] == "turn"]
    served = [row for row in onward if row[4] >= LEAST_SHARE * row[3]]
    said = f"{len(served)} of {len(onward)} next turns after eviction found at least half of what they could"
    if len(onward) < 2:
        return judging.undecided(
            f"only {len(onward)} sessions came back with their next turn", len(onward), tables=tables
        )
    if len(served) == len(onward):
        return judging.passes(said, len(onward), tables=tables)
    if (tier["warm_rate"] or 0.0) < LEAST_SHARE:
        reason = f"{said}, but next turns hardly hit when warm either ({_share(tier['warm_rate'])}): see PFX-01"
        return judging.undecided(reason, len(onward), tables=tables)
    if len(served) > len(onward) / 4:
        return judging.undecided(f"{said}: neither all nor few", len(onward), tables=tables)
    return _if_roomy(judging, tier, said, "next-turn-misses")


def requests_end(observed: Loaded) -> Verdict:
    """L2-05."""
    judging = Judging("L2-05", observed.entry, Vantage.LOAD)
    run = observed.load_run("evict")
    if verdict := _unusable(run, judging):
        return verdict
    result = run.result or {}
    if (result["tiers"]["last"] or result["tiers"]["first"] or {}).get("l2_queries") is None:
        return _no_tier(result, judging)
    phases, total = result["by_phase"], result["total"]
    table = Table("requests by phase", ("phase", "requests", "failed"),
                  tuple((name, t["requests"], t["errors"]) for name, t in phases.items()))  # fmt: skip
    n, failed = total["requests"], total["errors"]
    early = phases.get("fill", {}).get("errors", 0)
    if not failed and result["stopped"] is None:
        return judging.passes(
            f"all {n} requests ended, with L1 filled {_factor(result)} times over", n, tables=(table,)
        )
    kinds = ", ".join(f"{text} ({count})" for text, count in list(result["errors"].items())[:3])
    hard = sum(c for text, c in result["errors"].items() if not text.startswith(("status 4", "the run ended")))
    said = f"{failed} of {n} requests did not end well: {kinds or result['stopped']}"
    if hard >= FEWEST and not early:
        ruled_out = ("the gateway alone: the same sessions' first turns, before L1 was full, all ended well",)
        return judging.says(Status.FAIL, said, n, code="requests-fail", tables=(table,), ruled_out=ruled_out)
    return judging.undecided(
        f"{said}; {'failures began before pressure' if early else 'too few to tell'}", n, tables=(table,)
    )


def amplification_is_known(observed: Loaded) -> Verdict:
    """L2-06."""
    judging = Judging("L2-06", observed.entry, Vantage.LOAD)
    tier, verdict = _tier(observed, judging, needs_metered=False)
    if tier is None or verdict is not None:
        return verdict or judging.undecided("no result")
    tables, n = _tables(tier), _n(tier)
    if tier["store_bytes"] is None:
        said = "the engine counts lookups of its second tier, but no bytes stored or loaded"
        return judging.says(Status.FAIL, said, n, code="no-bytes", tables=tables)
    if not tier["amplification"]:
        return judging.undecided("nothing was loaded: every byte stored was in vain (see L2-02)", n, tables=tables)
    saved = _saved(tier)
    return judging.passes(f"{tier['amplification']:.1f} bytes stored per byte loaded{saved}", n, tables=tables)


def loads_are_faster(observed: Loaded) -> Verdict:
    """L2-07."""
    judging = Judging("L2-07", observed.entry, Vantage.LOAD)
    tier, verdict = _tier(observed, judging)
    if tier is None or verdict is not None:
        return verdict or judging.undecided("no result")
    tables, n = _tables(tier), _n(tier)
    cold, loaded = tier["ttft_cold"], tier["ttft_loaded"]
    if cold is None or loaded is None:
        return judging.undecided("too few answers loaded from L2, or too few first tokens seen", n, tables=tables)
    said = f"first token after {1000 * loaded:.0f} ms when loaded, {1000 * cold:.0f} ms when computed (medians)"
    if loaded < cold:
        return judging.passes(said, n, tables=tables)
    if loaded >= SLOWER * cold:
        return judging.says(Status.FAIL, said, n, code="loads-slow", tables=tables)
    return judging.undecided(f"{said}: within noise", n, tables=tables)


def sessions_stay_on_one_replica(observed: Loaded) -> Verdict:
    """AFF-01."""
    judging = Judging("AFF-01", observed.entry, Vantage.LOAD)
    run = observed.load_run("repeats")
    if verdict := _unusable(run, judging):
        return verdict
    result = run.result or {}
    told = result["extra"].get("affinity")
    if told is None:
        return judging.undecided("no repeat reported its cached tokens", 0)
    n = told["sessions"] + told["repeats"]
    rows = tuple((number, f"{share:.0%}") for number, share in enumerate(told["by_send"], start=2))
    tables = (Table("sessions that hit, by send", ("send", "hit"), rows),)
    said = (
        f"{told['drops']} of {told['chances']} repeats missed right after the same request had hit; "
        f"{told['hit_rate']:.0%} of all {told['repeats']} repeats hit"
    )
    if told["hit_rate"] >= 0.95 and not told["drops"] and told["chances"] >= CHANCES:
        return judging.passes(said, n, tables=tables)
    spreads = told["chances"] >= CHANCES and told["drop_rate"] >= DROPS
    pool = result["pool_tokens"]
    if spreads and pool and pool > SLOWEST_PREFILL * told["slowest"]:
        ruled_out = (
            f"eviction: a pool of {pool:,} tokens cannot be overwritten in the {told['slowest']:.2f} s between a hit "
            "and its miss",
        )
        return judging.says(Status.FAIL, said, n, code="spread", tables=tables, ruled_out=ruled_out)
    if spreads:
        return judging.undecided(
            f"{said}: routing, or eviction by others; --pool-tokens N tells them apart", n, tables=tables
        )
    return judging.undecided(f"{said}: neither steady nor spread", n, tables=tables)


def _tier(
    observed: Loaded, judging: Judging, *, needs_metered: bool = True
) -> tuple[Mapping[str, Any] | None, Verdict | None]:
    """The second tier's facts, or the verdict that stands in for them."""
    run = observed.load_run("evict")
    if verdict := _unusable(run, judging):
        return None, verdict
    result = run.result or {}
    tier: Mapping[str, Any] | None = result["second_tier"]
    if tier is None:
        return None, judging.undecided("no session was evicted and came back", 0)
    if not tier["present"]:
        return None, _no_tier(result, judging)
    if tier["quiet"] is False:
        return None, judging.undecided("others use this engine too: needs a quiet engine", _n(tier))
    if not tier["evicted"] or tier["evicted"] < LEAST_EVICTED:
        return None, judging.undecided("L1 still held what was asked again: needs more pressure", _n(tier))
    if result["stopped"] is not None:
        return None, judging.undecided(f"the load run ended early: {result['stopped']}", _n(tier))
    if needs_metered and tier["loaded"] is None:
        return None, judging.undecided("the metrics show no external hits", _n(tier))
    return tier, None


def _unusable(run: LoadRun, judging: Judging) -> Verdict | None:
    if run.result is not None:
        return None
    return judging.undecided(f"no load result: {run.why_not}") if run.gone else judging.not_run(run.why_not)


def _no_tier(result: Mapping[str, Any], judging: Judging) -> Verdict:
    if result["options"]["engine"] is None:
        return judging.not_run("needs the engine's metrics: --engine URL")
    return judging.says(Status.NOT_APPLICABLE, "the engine's metrics show no second tier", 0)


def _if_roomy(
    judging: Judging, tier: Mapping[str, Any], said: str, code: str, *, recipe: Sequence[str] = ()
) -> Verdict:
    """A failure, where L2 is known to be large enough to have kept what was asked again."""
    tables, n = _tables(tier), _n(tier)
    if tier["roomy"] is None:
        return judging.undecided(f"{said}; a tier too small would look the same: give --l2-tokens", n, tables=tables)
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
