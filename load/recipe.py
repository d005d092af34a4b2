"""The cause recipe for a tier that is written and never read: what a run shows of each step, and what to try next."""

from __future__ import annotations

from load.second_tier import SecondTier


def cause_recipe(tier: SecondTier) -> list[str]:
    """One line a step, in the order of cost; a step this run decides says what was seen."""
    steps = [_stores(tier), _asked(tier), _pressed(tier)]
    exact, onward = tier.exact_rate, tier.onward_rate
    if tier.loaded:
        steps.append("loads happen: what is missing is a share of them (see L2-01, L2-04)")
    elif exact is not None and onward is not None:
        steps.append(
            f"exact repeats hit {exact:.1%} and next turns {onward:.1%} after eviction: both miss, so neither "
            "re-rendering nor prompt-only offload explains it; sweep the length modulo the chunk. Always 0: a KV "
            "group vetoes every lookup (a sliding window with window mod chunk = 1, a draft group's sparse chunks)"
        )
    steps += [
        "send a repeat with speculative decoding off: if loads appear, the draft group vetoes",
        "try --prefix-cache-retention-interval = block size: it stores every window's tail, not only the last one",
        "look for BlockRemoved events of medium CPU for the prefix: then L2 evicted it too (capacity, no veto)",
        "no remedy: --kv-offloading-size, which is another door to the same connector",
        "if nothing helps, take the tier out: L1 does not suffer, and its memory and the link are free again",
    ]
    return [f"{number}. {step}" for number, step in enumerate(steps)]


def _stores(tier: SecondTier) -> str:
    if tier.store_bytes:
        return f"stores: {tier.store_bytes:,.0f} bytes were written, so the connector is there and copies"
    return "stores: none; look at allocation failures, skipped stores and prompts shorter than one chunk"


def _asked(tier: SecondTier) -> str:
    if tier.lookups is None:
        return "lookups: not shown by these metrics"
    if tier.lookups:
        return (
            f"lookups: {tier.lookups:,.0f} were made, so the tier is asked: all missed, by a veto or for want of room"
        )
    return "lookups: none, the tier is never asked: check kv_role and the connector's scheduler side"


def _pressed(tier: SecondTier) -> str:
    if tier.evicted is None:
        return "pressure: L1's hits are not known"
    if tier.evicted:
        return (
            f"pressure: of {tier.asked_again:,} tokens asked again L1 still had {tier.l1_hits:,}; "
            f"{tier.evicted:,} were evicted and could have been loaded"
        )
    return "pressure: L1 still held everything: press harder (--factor) or reset it"
