"""Prompts all of whose text is new: not even a cache that finds text again at any place can know them."""

from __future__ import annotations

from conformance.evidence.conversation import Sent
from conformance.observe.lab import WireLab
from conformance.sessions import dual_text_request
from conformance.verdicts import Entry

_PROMPTS = 4
_LEAST_BYTES = 2_000


def novel_prompts(lab: WireLab, n_bytes: int) -> tuple[Sent, ...]:
    """The first sends of a few such prompts of about `n_bytes`. Each is repeated before the next one is sent."""
    found = []
    for _ in range(_PROMPTS):
        salt = lab.salts.fresh()
        messages, chat = dual_text_request(salt, max(n_bytes, _LEAST_BYTES), seed=f"novel/{salt}")
        body = messages if lab.entry is Entry.MESSAGES else chat
        found.append(lab.read(lab.send_body(body, via="sdk")))
        lab.send_body(body, via="sdk")
    return tuple(found)
