"""Why no exact repeat hits, or too few: bytes tell an engine without a cache from a gateway that changes prompts."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.diagnosis.prompt import parse_prompt
from conformance.evidence.conversation import Sent
from conformance.evidence.qualify import CacheState, Probe, is_hit


def why_none_hit(probes: Sequence[Probe]) -> CacheState:
    """The state that the probes' upstream bodies prove; `NONE_SEEN` where they prove nothing."""
    bodies = [
        [s.exchange.upstream[-1] for s in (p.first, *p.repeats) if s.exchange is not None and s.exchange.upstream]
        for p in probes
    ]
    pairs = [records for records in bodies if len(records) > 1]
    if pairs and all(len({record.body for record in records}) == 1 for records in pairs):
        return CacheState.OFF
    prompts = [[parse_prompt(record.path, record.json) for record in records] for records in pairs]
    if prompts and all(any(prompt != first for prompt in rest) for first, *rest in prompts):
        return CacheState.CHANGED
    return CacheState.NONE_SEEN


def why_few_hit(pairs: Sequence[tuple[Sent, Sent]], bound: float) -> CacheState:
    """The state that first sends and their repeats prove; `UNRELIABLE` where one that missed may be unchanged."""
    missed = [(first, again) for first, again in pairs if again.valid and not is_hit(again, bound)]
    for first, again in missed:
        records = [s.exchange.upstream[-1] for s in (first, again) if s.exchange is not None and s.exchange.upstream]
        prompts = [parse_prompt(record.path, record.json) for record in records]
        if len(prompts) < 2 or None in prompts or prompts[0] == prompts[1]:
            return CacheState.UNRELIABLE
    return CacheState.VARYING if missed else CacheState.UNRELIABLE
