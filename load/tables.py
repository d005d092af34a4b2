"""A run as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from load.gate import Held, dropped
from load.predicting import Prediction
from load.record import Record
from load.samples import Tally
from load.second_tier import SecondTier


def tables(
    record: Record, tier: SecondTier | None, predicted: list[Prediction], held: list[Held], recipe: list[str]
) -> str:
    """Everything a person wants to see at the end."""
    samples, total = record.samples, record.samples.total()
    parts = [
        f"{record.plan.shape}: {record.how_many} in {record.seconds:.1f} s, "
        f"{total.prompt:,} prompt tokens, {_cached(total)} cached, {total.errors:,} errors"
    ]
    if record.stopped is not None:
        parts.append(f"{'ended early' if record.early else 'ended as asked'}: {record.stopped}")
    if total.unfinished:
        overdue = f"; good ones took {samples.slowest:.1f} s at most: not judged" if samples.hung else ""
        parts.append(
            f"{total.unfinished:,} requests had no whole answer yet when the run ended, after waiting for "
            f"{samples.waited:.1f} s at most{overdue}"
        )
    if total.resent:
        parts.append(f"not judged: {dropped(total)}")
    if total.unreported:
        parts.append(
            f"{total.unreported:,} of {total.reported + total.unreported:,} answers reported no cached count: hit "
            "rates are those of the others (vLLM's --enable-prompt-tokens-details, which a gateway must pass on)"
        )
    rows = [_tally(f"phase {name}", samples.total(phase=name)) for name in samples.values(0)]
    rows += [_tally(f"entry {name}", samples.total(entry=name)) for name in samples.values(1)]
    rows += [_tally(f"client {name}", samples.total(client=name)) for name in samples.values(2)]
    parts.append(table(("", "requests", "errors", "prompt", "cached", "hit rate"), rows))
    if samples.errors:
        errors = sorted(samples.errors.items(), key=lambda item: -item[1])
        parts.append(table(("error", "requests"), [(text, f"{count:,}") for text, count in errors[:12]]))
    if predicted:
        rows = [(p.phase, f"{p.n:,}", *map(_share, (p.measured, p.endless, p.l1, p.with_l2))) for p in predicted]
        parts.append(
            "hit rates, measured and predicted by this tool's own cache model\n"
            + table(("phase", "requests", "measured", "endless cache", "L1 only", "L1 and L2"), rows)
        )
    if record.extra.get("replay"):
        parts.append(_replay(record.extra["replay"]))
    if "affinity" in record.extra:
        parts.append(_affinity(record.extra["affinity"]))
    if tier is not None:
        parts.append(_tier(tier))
    if record.cpu and total.requests:
        each = {name: 1000 * seconds / total.requests for name, seconds in record.cpu.items()}
        shown = ", ".join(f"{name} {value:.1f}" for name, value in each.items())
        parts.append(f"CPU per request: {shown} ms, {sum(each.values()):.1f} ms in all")
    if held:
        parts.append("gate\n" + "\n".join(f"  {h.line()}" for h in held))
    if recipe:
        parts.append("why a tier is written and never read\n" + "\n".join(f"  {line}" for line in recipe))
    return "\n\n".join(parts)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns of text, the first to the left, the others to the right."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    shown = []
    for line in lines:
        cells = [
            line[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)),
        ]
        shown.append("  " + "  ".join(cells).rstrip())
    return "\n".join(shown)


def _tally(name: str, tally: Tally) -> tuple[str, ...]:
    rate = _share(tally.hit_rate)
    return name, f"{tally.requests:,}", f"{tally.errors:,}", f"{tally.prompt:,}", _cached(tally), rate


def _cached(tally: Tally) -> str:
    return f"{tally.cached:,}" if tally.reported or not tally.unreported else "not reported"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2%}"


def _count(value: float | None) -> str:
    return "not known" if value is None else f"{value:,.0f}"


def _replay(told: dict[str, Any]) -> str:
    names = {"endless": "predicted, endless cache", "l1": "predicted, L1 only", "l1_and_l2": "predicted, L1 and L2"}
    rows = [(names.get(name, name), _share(r["whole"]), _share(r["second_half"])) for name, r in told["rates"].items()]
    said = f"{told['kind']} trace, blocks of {told['block']} tokens, hit rates over full blocks"
    part = "" if told["complete"] else "\nnot the whole trace was sent: the measured row is not comparable"
    return f"{said}\n{table(('', 'whole', 'second half'), rows)}{part}"


def _affinity(told: dict[str, Any]) -> str:
    sends = ", ".join(f"{share:.0%}" for share in told["by_send"])
    return (
        f"repeats of {told['sessions']} sessions: {told['hit_rate']:.1%} hit; by send, from the second: {sends}\n"
        f"  right after a hit {told['drops']} of {told['chances']} missed: "
        + ("requests of one session go to several replicas, or its blocks are lost at once"
           if told["drop_rate"] > 0.05 else "sessions stay where they are warm")
    )  # fmt: skip


def _tier(tier: SecondTier) -> str:
    lines = [
        ("asked again", f"{tier.asked_again:,} tokens"),
        ("of these evicted from L1", _count(tier.evicted)),
        ("loaded from L2", _count(tier.loaded)),
        ("bytes loaded, then stored in all", f"{_count(tier.load_bytes)}, {_count(tier.store_bytes)}"),
        ("hit rate of exact repeats, next turns", f"{_share(tier.exact_rate)}, {_share(tier.onward_rate)}"),
        ("first token cold, warm, loaded", ", ".join(
            "-" if t is None else f"{1000 * t:.0f} ms" for t in (tier.ttft_cold, tier.ttft_warm, tier.ttft_loaded))),
    ]  # fmt: skip
    if tier.reason:
        lines.append(("not judged", tier.reason))
    return "second tier\n" + "\n".join(f"  {name}: {value}" for name, value in lines)
