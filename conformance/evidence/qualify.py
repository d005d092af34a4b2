"""Qualification: is there a cache to judge by, how coarse are its counts, and does the target count what it is sent?

Fresh prompts of different sizes, each sent again at once. Nothing is accused here; the judgements read it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from math import gcd

from conformance.evidence.conversation import Conversation, Extra, Lab, Sent
from conformance.evidence.thresholds import QualifyThresholds
from conformance.verdicts import Table


class CacheState(StrEnum):
    """What exact repeats say of the cache behind the target."""

    HITS = "exact repeats hit"
    NOT_REPORTED = "no answer carries cached tokens"
    UNKNOWN = "unknown: no request and its exact repeat were both answered"
    OFF = "off: exact repeats reach the engine unchanged and never hit"
    CHANGED = "no exact repeat ever hit: repeats reach the engine as other prompts than the first"
    NONE_SEEN = "no exact repeat ever hit: engine cache off, or something in every prompt changes"
    UNRELIABLE = "too few exact repeats hit: requests are routed over replicas, or the cache is too small"
    VARYING = "too few exact repeats hit: those that miss reach the engine as other prompts than the first"
    PARTIAL = "exact repeats hit only in part: something inside every prompt changes, or the cache keeps only a part"
    RESPONSE_CACHE = "repeats are answered by a response cache, not by the engine"


NEVER_HIT = frozenset({CacheState.OFF, CacheState.CHANGED, CacheState.NONE_SEEN})
"""States of a cache that answered no exact repeat; upstream bytes, where they are known, tell why."""

SECTIONS = ("system", "tools", "message")
"""The sections of a prompt that qualification lengthens one at a time."""


@dataclass(frozen=True)
class Probe:
    """One fresh prompt: its first send, its repeats, and the section that was longer than in the base probe."""

    longer: str  # "" for the base probe
    added_bytes: int
    content_bytes: int
    first: Sent
    repeats: tuple[Sent, ...]


@dataclass(frozen=True)
class Qualification:
    """What the probes showed. Token counts unless said otherwise."""

    probes: tuple[Probe, ...]
    state: CacheState
    warm_send: int  # which send of a prompt is the first that hits: 2, or 3 for engines that admit on the second
    scale: float  # base size that was needed before repeats hit
    preamble_bound: float  # no prompt can share more than this with a prompt of another salt
    floor: int  # largest cached count of a prompt nobody sent before
    tokens_per_byte: float
    counted: dict[str, bool]  # section -> the total grew when only that section grew
    section_tokens: dict[str, int]  # section -> tokens its extra bytes added

    @property
    def table(self) -> Table:
        rows = tuple(
            (
                p.longer or "base",
                p.first.prompt,
                p.first.cached,
                *(p.repeats[i].cached if i < len(p.repeats) else None for i in (0, 1)),
            )
            for p in self.probes
        )
        return Table(
            "fresh prompts and their exact repeats",
            ("longer section", "prompt tokens", "cached, first", "cached, repeat", "cached, 3rd"),
            rows,
        )

    @property
    def all_counted(self) -> bool:
        return all(self.counted.values())


def granularity(counts: Iterable[int]) -> int | None:
    """The measured step of cached counts: gcd of the non-zero ones; None when all are zero.

    Few counts can only make it too large, which widens every tolerance: never an accusation.
    """
    step = 0
    for count in counts:
        step = gcd(step, count)
    return step or None


def is_hit(sent: Sent, preamble_bound: float) -> bool:
    """True when more came from cache than the preamble that all prompts share."""
    return sent.valid and (sent.cached or 0) > preamble_bound


def qualify(lab: Lab, thresholds: QualifyThresholds, *, probes: int, scales: tuple[float, ...]) -> Qualification:
    """Send `probes` fresh prompts (at least 4) and their repeats, at the first of `scales` where repeats hit."""
    result = _at_scale(lab, thresholds, probes, scales[0])
    for scale in scales[1:]:
        if result.state is not CacheState.NONE_SEEN or not result.counted["message"]:
            break
        larger = _at_scale(lab, thresholds, probes, scale)
        if larger.state is not CacheState.NONE_SEEN:
            return larger
    return result


def _at_scale(lab: Lab, thresholds: QualifyThresholds, n: int, scale: float) -> Qualification:
    # Offsets are odd and unlike, so that counts at different lengths do not share a factor by accident.
    extras = (
        Extra(),
        Extra(system=1833),
        Extra(tools=2111),
        Extra(message=2377),
        Extra(system=901, message=1403),
        Extra(tools=607, system=2203),
    )[:n]
    return _read(tuple(_probe(lab.conversation(scale=scale, extra=e), e) for e in extras), thresholds, scale)


def _probe(conversation: Conversation, extra: Extra) -> Probe:
    first = conversation.send()
    repeats = [conversation.send()]
    # Engines that admit a block on its second sight hit on the third send only.
    if (repeats[0].cached or 0) <= (first.cached or 0):
        repeats.append(conversation.send())
    return Probe(extra.section, extra.total, conversation.content_bytes, first, tuple(repeats))


def _read(probes: tuple[Probe, ...], thresholds: QualifyThresholds, scale: float) -> Qualification:
    base = probes[0]
    totals = [p.first.prompt for p in probes if p.first.prompt is not None]
    counted: dict[str, bool] = {}
    section_tokens: dict[str, int] = {}
    for section in SECTIONS:
        probe = next((p for p in probes if p.longer == section), None)
        if probe is None or probe.first.prompt is None or base.first.prompt is None:
            counted[section] = False
            continue
        section_tokens[section] = probe.first.prompt - base.first.prompt
        counted[section] = section_tokens[section] >= probe.added_bytes * thresholds.tokens_per_byte_low
    rates = [section_tokens[p.longer] / p.added_bytes for p in probes if p.longer in section_tokens]
    # Whatever stands before the first salt is what the total has beyond our own text, counted at its lowest rate.
    lowest = min(rates, default=0.0) * thresholds.preamble_rate_share
    bound = max(0.0, (base.first.prompt or 0) - base.content_bytes * max(lowest, 0.0))
    rate = 0.25
    if len(totals) == len(probes) and len(probes) > 1:
        added = sum(p.added_bytes for p in probes[1:])
        gained = sum((p.first.prompt or 0) - (base.first.prompt or 0) for p in probes[1:])
        if added and gained > 0:
            rate = min(max(gained / added, 0.12), 0.6)
    firsts = [p.first.cached or 0 for p in probes if p.first.valid]
    return Qualification(
        probes=probes,
        state=_state(probes, bound, thresholds),
        warm_send=_warm_send(probes, bound),
        scale=scale,
        preamble_bound=bound,
        floor=max(firsts, default=0),
        tokens_per_byte=rate,
        counted=counted,
        section_tokens=section_tokens,
    )


def _hits(probes: tuple[Probe, ...], bound: float) -> list[bool]:
    return [any(is_hit(r, bound) for r in p.repeats) for p in probes]


def _warm_send(probes: tuple[Probe, ...], bound: float) -> int:
    at_once = sum(is_hit(p.repeats[0], bound) for p in probes)
    third = sum(len(p.repeats) > 1 and is_hit(p.repeats[1], bound) for p in probes)
    return 3 if third > at_once else 2


def _state(probes: tuple[Probe, ...], bound: float, thresholds: QualifyThresholds) -> CacheState:
    sent = [s for p in probes for s in (p.first, *p.repeats)]
    ids = [(p.first.answer_id, r.answer_id) for p in probes for r in p.repeats]
    cached_answers = bool(ids) and all(first is not None and first == again for first, again in ids)
    if not any(p.first.valid and any(r.valid for r in p.repeats) for p in probes):
        return CacheState.RESPONSE_CACHE if cached_answers else CacheState.UNKNOWN
    if all(s.cached is None for s in sent):
        return CacheState.NOT_REPORTED
    if cached_answers:
        return CacheState.RESPONSE_CACHE
    hits = _hits(probes, bound)
    if not any(hits):
        return CacheState.NONE_SEEN
    if sum(hits) < thresholds.repeat_hit_share * len(hits):
        return CacheState.UNRELIABLE
    return CacheState.HITS
