"""Why no exact repeat hits: bytes tell an engine whose cache is off from a gateway that changes every prompt."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.diagnosis.prompt import parse_prompt
from conformance.evidence.qualify import CacheState, Probe


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
