"""The report's own tables, from what was measured, beside the report's figures and the cache model's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from load.day.arm import Arm
from load.day.inputs import Inputs
from load.day.model import ArmCounts
from load.tables import table

REPORT: Final = {
    "claude": ("/v1/messages -> llm-prime (Claude Code)", 451, 48.11, 6.87, 14.29),
    "reasonix": ("/v1/chat/completions, model named (Reasonix)", 444, 56.69, 47.44, 83.67),
    "opencode": ("/v1/chat/completions -> llm-prime", 7, 1.32, 0.19, 14.31),
}
"""The report's rows of 2026-08-17: name, requests, prompt and cached tokens in millions, hit rate in percent."""

PINNED: Final = 17_920
REPORT_OFF: Final = {"0": 28, "256": 40, f"exactly {PINNED:,}": 383, "other": 0}
REPORT_ON: Final = {"0": 5, "256": 4, "below 64 k": 3, "64 to 128 k": 14, "above 128 k": 28}
REPORT_ON_RATE: Final = 83.09
BUDGET_MS: Final = 200.0


@dataclass(frozen=True, slots=True)
class Warm:
    """Warm turns of the Claude Code row: how many, and how many equal the last prompt rounded down to a block."""

    turns: int
    exact: int
    examples: tuple[tuple[int, int, int], ...]


def rows_table(arm: Arm, model: ArmCounts | None) -> str:
    """The three rows: measured, predicted by the model, reported."""
    lines = []
    for who, (name, requests, prompt, cached, rate) in REPORT.items():
        counted = arm.counts(who)
        total, hit = sum(p for p, _ in counted), sum(c for _, c in counted)
        lines.append((
            name, f"{len(counted):,}", f"{total / 1e6:.2f} M", f"{hit / 1e6:.2f} M", _percent(hit, total),
            f"{100 * model.rate(who):.2f} %" if model is not None else "-",
            f"{requests}", f"{prompt:.2f} M", f"{cached:.2f} M", f"{rate:.2f} %",
        ))  # fmt: skip
    head = ("entry", "requests", "prompt", "cached", "hit rate", "model's", "report:", "prompt", "cached", "hit rate")
    return table(head, lines)


def distribution_off(counted: Sequence[tuple[int, int]]) -> dict[str, int]:
    """How often each of the report's values occurred."""
    values = Counter(cached for _, cached in counted)
    pinned = values[PINNED]
    return {"0": values[0], "256": values[256], f"exactly {PINNED:,}": pinned,
            "other": len(counted) - values[0] - values[256] - pinned}  # fmt: skip


def distribution_on(counted: Sequence[tuple[int, int]]) -> dict[str, int]:
    """The report's bins after the remedy."""
    found = dict.fromkeys(REPORT_ON, 0)
    for _, cached in counted:
        if cached in (0, 256):
            found[str(cached)] += 1
        else:
            found["below 64 k" if cached < 64_000 else "64 to 128 k" if cached <= 128_000 else "above 128 k"] += 1
    return found


def distribution_table(arm: Arm, model: ArmCounts | None) -> str:
    """Cached tokens of the Claude Code row, in the report's bins."""
    bins = distribution_on if arm.strip else distribution_off
    reported = REPORT_ON if arm.strip else REPORT_OFF
    measured = bins(arm.counts("claude"))
    predicted = bins(model.rows["claude"]) if model is not None else {}
    days = " (54 requests)" if arm.strip else ""
    lines = [(name, f"{count:,}", f"{predicted[name]:,}" if predicted else "-", f"{reported[name]:,}")
             for name, count in measured.items()]  # fmt: skip
    if arm.strip:
        pinned = sum(cached == PINNED for _, cached in arm.counts("claude"))
        lines.append((f"pinned at {PINNED:,}", f"{pinned:,}", "-", "0"))
    return table(("cached tokens", "requests", "model's", f"report{days}"), lines)


def warm_turns(arm: Arm) -> Warm:
    """Turns of the Claude Code conversation that hit at least half of the one before.

    Compaction requests and what follows them share less by nature, and are left out.
    """
    size = arm.inputs.block_size
    pairs = []
    last: tuple[str, int] | None = None
    for sample, (prompt, cached) in zip(arm.rows("claude"), arm.counts("claude"), strict=True):
        if sample.kind == "side":
            continue
        if last is not None and last[0] == "turn" and sample.kind == "turn" and cached > last[1] / 2:
            pairs.append((last[1], prompt, cached))
        last = (sample.kind, prompt)
    exact = [pair for pair in pairs if pair[2] == pair[0] // size * size]
    return Warm(len(pairs), len(exact), tuple(exact[:3]))


def cold_starts(arm: Arm, who: str) -> int:
    """Requests that found no more than the template floor."""
    return sum(cached <= arm.inputs.block_size for _, cached in arm.counts(who))


def cost_line(arm: Arm) -> str:
    """CPU per request by process, against the budget."""
    count = max(1, len(arm.samples))
    each = {name: 1000 * seconds / count for name, seconds in arm.cpu.items()}
    tokens = sum(p for p, _ in arm.truth)
    said = ", ".join(f"{name} {value:.1f}" for name, value in each.items())
    total = sum(each.values())
    within = "within" if total <= BUDGET_MS else "over"
    return (
        f"{len(arm.samples):,} requests, {tokens / 1e6:.1f} M prompt tokens in {arm.seconds:.0f} s; "
        f"CPU per request: {said} ms, {total:.1f} ms in all, {within} the budget of {BUDGET_MS:.0f}"
    )


def arm_text(arm: Arm, model: ArmCounts | None) -> str:
    """One arm, as a terminal shows it."""
    count = len(arm.counts("claude"))
    cold = cold_starts(arm, "claude")
    parts = [
        f"arm {arm.name}: attribution text {'stripped' if arm.strip else 'sent on'}, "
        f"L2 of {arm.inputs.l2_tokens:,} tokens",
        rows_table(arm, model),
        distribution_table(arm, model),
        f"whole-prompt cold starts on /v1/messages: {cold} of {count} ({_percent(cold, count)}); "
        f"on /v1/chat/completions: {cold_starts(arm, 'reasonix')} of {len(arm.counts('reasonix'))}",
    ]
    if arm.strip:
        warm = warm_turns(arm)
        shown = "; ".join(f"{a:,} then {b:,} -> {c:,}" for a, b, c in warm.examples)
        measured = sum(c for _, c in arm.counts("claude")) / max(1, sum(p for p, _ in arm.counts("claude")))
        parts.append(
            f"hit rate {100 * measured:.2f} % beside the report's {REPORT_ON_RATE} % (another day, 54 requests)"
        )
        parts.append(f"warm turns equal to floor(last prompt / {arm.inputs.block_size}) x {arm.inputs.block_size}: "
                     f"{warm.exact} of {warm.turns} ({shown})")  # fmt: skip
    parts.append(cost_line(arm))
    return "\n\n".join(parts)


def inputs_line(inputs: Inputs) -> str:
    """What was put in."""
    return (
        f"inputs: pool {inputs.pool_tokens:,} tokens, {inputs.neighbours} neighbours of {inputs.neighbour_low // 1000}-"
        f"{inputs.neighbour_high // 1000} kB, one every {inputs.neighbour_every:g} s; "
        f"stints of about {inputs.stint_turns:g} turns, pauses of {inputs.pause:g} s, "
        f"{inputs.long_share:.0%} of {inputs.long_pause:g} s; seed {inputs.seed}"
    )


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "-"
