"""Which section of the prompt a pinned count ends in, from the lengths of the sections in tokens."""

from __future__ import annotations

from conformance.evidence.hotpair import Arm
from conformance.observe.lab import WireConversation
from conformance.observe.observed import Observed

_HEAD_TOKENS = 48
"""An attribution block's constant head (name, version, entrypoint) is about 32 tokens in DeepSeek's vocabulary."""


def pinned_section(observed: Observed, arm: Arm, count: int) -> str:
    """One phrase: the interval the constant stands for and the section it ends in, by measured section lengths.

    Qualification lengthened one section at a time, which gives each section's tokens per byte without a tokenizer.
    The boundaries are those of a template that renders tools first; one that renders the system text first has no
    shared section in front of a block that opens the system text, so nothing can be pinned above its floor there.
    """
    interval = f"the shared prefix ends in [{count:,}, {count + observed.granule:,})"
    conversation = arm.conversation
    if not isinstance(conversation, WireConversation) or arm.first is None or arm.first.prompt is None:
        return interval
    session, q = conversation.session, observed.qualification
    added = {p.longer: p.added_bytes for p in q.probes if p.longer in q.section_tokens}
    rate = {name: q.section_tokens[name] / added[name] for name in added if added[name]}
    if not {"tools", "system", "message"} <= set(rate):
        return interval
    tools = session.sizes.tools_bytes * rate["tools"]
    system = session.sizes.instructions * rate["system"]
    message = sum(session.sizes.first_message) * rate["message"]
    total = arm.first.prompt - ((arm.first.cached or 0) if observed.cached_counted_twice else 0)
    preamble = max(0.0, total - tools - system - message)
    ends = (
        (preamble, "at the head of the prompt, before any section"),
        (preamble + tools, "at the head of the system text, just behind the tools"),
        (preamble + tools + system, "at the head of the messages, behind tools and system text"),
    )
    middle = count + observed.granule / 2
    at, name = min(ends, key=lambda end: abs(end[0] + _HEAD_TOKENS / 2 - middle))
    if not count <= round(at) < count + observed.granule:  # an estimate that contradicts the interval helps nobody
        return f"{interval}: {name}"
    return f"{interval}: {name} (by the sections' lengths about {at:,.0f} tokens in)"
