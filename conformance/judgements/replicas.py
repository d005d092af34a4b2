"""Whether a session stays on one replica, as a judgement over the load generator's `repeats` runs."""

from __future__ import annotations

from conformance.judgements.load_looks import judged_by_load, unusable
from conformance.judgements.verdict import Judging
from conformance.observe.under_load import LoadRun
from conformance.verdicts import Status, Table, Verdict

DROPS, FEWEST = 0.1, 6
"""Share of repeats after a hit that must miss, and how many. Random routing over two replicas drops about 15 %; what
touches whoever is under way, once, stays below."""

CHANCES = 12
SLOWEST_PREFILL = 500_000
"""Tokens a second; no engine's neighbours prefill faster, so none can have evicted a prompt sooner than that allows."""


@judged_by_load("AFF-01", "repeats")
def sessions_stay_on_one_replica(run: LoadRun, judging: Judging) -> Verdict:
    """AFF-01."""
    if verdict := unusable(run, judging):
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
    spreads = told["chances"] >= CHANCES and told["drop_rate"] >= DROPS and told["drops"] >= FEWEST
    if spreads and told["by_clock"] is not None:
        return judging.undecided(
            f"{said}: nearly all where one moment of each {told['by_clock']:g} s lies between hit and miss, as with a "
            "clock in the prompt (PFX-13) on one replica",
            n, tables=tables,
        )  # fmt: skip
    pool = result["pool_tokens"]
    if spreads and pool and pool > SLOWEST_PREFILL * told["slowest"]:
        ruled_out = (
            f"eviction: a pool of {pool:,} tokens cannot be overwritten in the {told['slowest']:.2f} s between a hit "
            "and its miss",
            "a clock in the prompt: no moment of a second or a minute lies between the hits and the misses alone",
        )
        return judging.says(Status.FAIL, said, n, code="spread", tables=tables, ruled_out=ruled_out)
    if spreads:
        return judging.undecided(
            f"{said}: routing, or eviction by others; --pool-tokens N tells them apart", n, tables=tables
        )
    return judging.undecided(f"{said}: neither steady nor spread", n, tables=tables)
