"""What an `evict` run says of the engine's second tier: facts and findings, from samples and metrics deltas."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from load.record import Record
from load.samples import Sample
from load.shapes import KEEP, ONWARD, RETURN, WARM_UP

QUIET: Final = 0.05
"""Share of the engine's prompt tokens that may be others' before deltas of its counters say nothing of this run."""

MISSED: Final = 0.05
"""Share of this run's prompt tokens that the metrics may lack: above it, they are one engine's of several."""

WARM: Final = 0.5
"""Share of a prompt, sent again while nothing pressed, that must come from cache before its absence later means
anything: where it misses even then, the prompt changes on the way or reaches another engine."""

ENOUGH_L2: Final = 2.0
"""L2 must hold this many times what was sent before the return, so that an empty answer is not for want of room."""


@dataclass(frozen=True, slots=True)
class SecondTier:
    """Everything measured about the second tier. Tokens unless named otherwise; None = not known.

    What was asked again, evicted and loaded is counted over the exact repeats. `quiet`: nobody else used the engine;
    `whole`: the metrics count all that this run sent; `kept_warm`: the share of the same requests that came from
    either tier before pressure, or amid it where they were kept warm, whichever is less. `reason` says why nothing can
    be concluded, or is empty.
    """

    present: bool
    quiet: bool | None
    whole: bool | None
    kept_warm: float | None
    reason: str
    asked_again: int
    evicted: int | None
    l1_hits: int | None
    loaded: int | None
    loaded_onward: int | None
    load_bytes: float | None
    store_bytes: float | None
    lookups: float | None
    preemptions: float | None
    l2_tokens: int | None
    roomy: bool | None
    exact_rate: float | None
    onward_rate: float | None
    warm_rate: float | None
    recalled: tuple[int, int]
    same_answers: tuple[int, int]
    ttft_cold: float | None
    ttft_warm: float | None
    ttft_loaded: float | None
    recalled_loaded: tuple[int, int]
    by_request: tuple[tuple[int, str, int, int, int], ...]

    @property
    def share_loaded(self) -> float | None:
        """Loaded over what was evicted and asked again; None where either is not known, or nothing was evicted."""
        return self.loaded / self.evicted if self.loaded is not None and self.evicted else None

    @property
    def write_only(self) -> bool:
        """Stores without a single load, although evicted prefixes were asked for again."""
        silent = not self.load_bytes and not self.loaded and not self.loaded_onward
        return bool(self.present and self.store_bytes and self.evicted and silent)

    @property
    def amplification(self) -> float | None:
        """Bytes stored per byte loaded; None where nothing was loaded."""
        return self.store_bytes / self.load_bytes if self.store_bytes is not None and self.load_bytes else None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        own = {name: getattr(self, name) for name in self.__slots__}
        return own | {
            "share_loaded": self.share_loaded,
            "write_only": self.write_only,
            "amplification": self.amplification,
        }


def second_tier(record: Record) -> SecondTier | None:
    """The findings, or None for a run that did not evict and come back."""
    if record.plan.shape != "evict":
        return None
    rows = [s for s in record.samples.ordered if s.error is None]
    exact = [s for s in rows if s.phase == RETURN]
    back = [*exact, *(s for s in rows if s.phase == ONWARD)]
    counted = record.counted
    delta = counted.get(RETURN, {})
    total = record.last.since(record.first) if record.last is not None and record.first is not None else {}
    asked = sum(_reusable(s, rows) for s in exact)
    l1 = _whole(delta.get("l1_hits"))
    returning = {spec.number for spec in record.plan.sessions if spec.role == "returning"}
    sent_before = sum(s.prompt or 0 for s in rows if s.phase in ("fill", "press") and s.kind == "turn")
    l2_tokens = record.options.l2_tokens
    present = record.last is not None and record.last.has_l2
    quiet, whole = _alone(total, rows)
    kept = [_kept(counted.get(name, {}), [s for s in rows if s.phase == name]) for name in (WARM_UP, KEEP)]
    kept_warm = None if None in kept else min(share for share in kept if share is not None)
    warm = [s for s in rows if s.phase == "fill" and s.session in returning and _turn_number(s, rows) > 1]
    cold = [s for s in rows if s.phase in ("fill", "press") and _turn_number(s, rows) == 1]
    loaded_rows = [s for s in back if (s.cached or 0) >= 0.5 * (s.prompt or 1)]
    return SecondTier(
        present=present,
        quiet=quiet,
        whole=whole,
        kept_warm=kept_warm,
        reason=_reason(record, exact, present=present, quiet=quiet, whole=whole, kept_warm=kept_warm),
        asked_again=asked,
        evicted=max(0, asked - l1) if l1 is not None else None,
        l1_hits=l1,
        loaded=_whole(delta.get("l2_hits")),
        loaded_onward=_whole(counted.get(ONWARD, {}).get("l2_hits")),
        load_bytes=delta.get("load_bytes"),
        store_bytes=total.get("store_bytes"),
        lookups=total.get("lookups"),
        preemptions=total.get("preemptions"),
        l2_tokens=l2_tokens,
        roomy=l2_tokens >= ENOUGH_L2 * asked and l2_tokens >= sent_before if l2_tokens is not None else None,
        exact_rate=_rate(exact),
        onward_rate=_rate([s for s in back if s.phase == ONWARD]),
        warm_rate=_rate(warm),
        recalled=(sum(s.recalled is True for s in rows), sum(s.recalled is not None for s in rows)),
        same_answers=_same_answers(rows),
        ttft_cold=_ttft(cold),
        ttft_warm=_ttft(warm),
        ttft_loaded=_ttft(loaded_rows),
        recalled_loaded=_recalled_loaded(rows, loaded_rows),
        by_request=tuple((s.session, s.kind, s.prompt or 0, _reusable(s, rows), s.cached or 0) for s in back),
    )


def _reusable(sample: Sample, rows: list[Sample]) -> int:
    """Tokens of a returning prompt that were sent before: all of an exact repeat, the last turn's of a follow-up."""
    earlier = [s for s in rows if s.session == sample.session and s.phase == "fill" and s.at < sample.at]
    return min(sample.prompt or 0, max((s.prompt or 0 for s in earlier), default=0))


def _turn_number(sample: Sample, rows: list[Sample]) -> int:
    return sum(s.session == sample.session and s.at <= sample.at for s in rows)


def _same_answers(rows: list[Sample]) -> tuple[int, int]:
    """Of the exact repeats whose answer was the same twice before eviction: same again after it, and all of them."""
    same = steady = 0
    for again in rows:
        if again.phase != RETURN or not again.answer:
            continue
        before = [s.answer for s in rows if s.session == again.session and s.at < again.at and s.answer][-2:]
        if len(before) == 2 and before[0] == before[1]:
            steady += 1
            same += before[0] == again.answer
    return same, steady


def _recalled_loaded(rows: list[Sample], loaded: list[Sample]) -> tuple[int, int]:
    """Of the sessions that recalled their fact before eviction and loaded after it: recalled again, and all."""
    knew = {s.session for s in rows if s.phase == "fill" and s.recalled}
    back = [s for s in loaded if s.session in knew and s.recalled is not None]
    return sum(s.recalled is True for s in back), len(back)


def _alone(total: dict[str, float | None], rows: list[Sample]) -> tuple[bool | None, bool | None]:
    """Whether the engine served nobody else, and whether it served all of this run."""
    engine, own = total.get("prompt_tokens"), sum(s.prompt or 0 for s in rows)
    if engine is None or not own:
        return None, None
    return engine <= own * (1 + QUIET) + 2_000, engine >= own * (1 - MISSED) - 2_000


def _kept(delta: dict[str, float | None], rows: list[Sample]) -> float | None:
    prompt, l1, l2 = sum(s.prompt or 0 for s in rows), delta.get("l1_hits"), delta.get("l2_hits")
    return (l1 + (l2 or 0.0)) / prompt if l1 is not None and prompt else None


def _reason(
    record: Record,
    exact: list[Sample],
    *,
    present: bool,
    quiet: bool | None,
    whole: bool | None,
    kept_warm: float | None,
) -> str:
    if record.options.engine is None:
        return "needs the engine's metrics: --engine URL"
    if not exact:
        return "no evicted session came back"
    if not present:
        return "the engine's metrics show no second tier"
    if record.first is not None and record.last is not None and record.first.started != record.last.started:
        return "the engine was started anew during the run: its counters say nothing of before"
    if quiet is None:
        return "the engine's metrics do not tell whether others used it too"
    if not quiet:
        return "others use this engine too: its counters' deltas are not this run's alone"
    if not whole:
        return "the engine's metrics count only part of what was sent: there are other engines, or totals are too large"
    if kept_warm is None:
        return "the engine's metrics do not tell whether the same request hits while it is warm"
    if kept_warm < WARM:
        return (
            f"of the same requests sent again while they were warm only {kept_warm:.0%} came from cache: the prompt "
            "changes on the way (PFX-01, PFX-13), or goes to several engines (AFF-01)"
        )
    return ""


def _rate(rows: list[Sample]) -> float | None:
    prompt = sum(s.prompt or 0 for s in rows if s.cached is not None)
    return sum(s.cached or 0 for s in rows) / prompt if prompt else None


def _ttft(rows: list[Sample]) -> float | None:
    times = [s.ttft for s in rows if s.ttft is not None]
    return median(times) if len(times) >= 2 else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
