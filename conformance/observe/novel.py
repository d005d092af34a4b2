"""Prompts at which made-up counts give themselves away: wholly new ones, and ones longer than any true count."""

from __future__ import annotations

from conformance.evidence.conversation import Extra, Sent
from conformance.evidence.qualify import Qualification
from conformance.observe.lab import WireLab
from conformance.sessions import dual_text_request
from conformance.verdicts import Entry

_PROMPTS = 4
_LEAST_BYTES = 2_000


def novel_prompts(lab: WireLab, n_bytes: int) -> tuple[Sent, ...]:
    """The first sends of a few prompts of about `n_bytes` of which nobody sent a line before.

    Not even a cache that finds text again at any place can know them. Each is repeated before the next one is sent.
    """
    found = []
    for _ in range(_PROMPTS):
        salt = lab.salts.fresh()
        messages, chat = dual_text_request(salt, max(n_bytes, _LEAST_BYTES), seed=f"novel/{salt}")
        body = messages if lab.entry is Entry.MESSAGES else chat
        found.append(lab.read(lab.send_body(body, via="sdk")))
        lab.send_body(body, via="sdk")
    return tuple(found)


def longer_prompts(lab: WireLab, qualification: Qualification, *, largest: int) -> tuple[Sent, ...]:
    """Exact repeats of prompts whose tools, or system text, are longer by more than `largest` tokens.

    Whatever section a true count ends in, one of these moves it; and both prompts are longer than twice that count, so
    that even if it were one granule, a warm repeat would show two.
    """
    base = qualification.probes[0].first.prompt or 0
    extra = round(max(1.4 * largest, 2.4 * largest - base) / lab.tokens_per_byte)
    found = []
    for longer in (Extra(tools=extra), Extra(system=extra)):
        conversation = lab.conversation(extra=longer, scale=qualification.scale)
        for _ in range(qualification.warm_send - 1):
            conversation.send()
        found.append(conversation.send())
    return tuple(found)
