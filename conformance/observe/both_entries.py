"""One text on both entries of a target, and straight to the engine where it can be asked."""

from __future__ import annotations

from collections.abc import Callable

from conformance.observe.lab import WireLab
from conformance.observe.observations import DialectPair
from conformance.observe.observed import Observed
from conformance.sessions import dual_text_request
from conformance.verdicts import Entry
from conformance.wire.exchange import Exchange

DUAL_BYTES = 5_000
"""Text of the request that is sent to both entries."""


def both_entries(observed: Callable[[Entry], Observed], salt: str, direct: WireLab | None) -> DialectPair:
    """One text-only conversation on both entries, each sent until it can be warm; `direct` gets its chat form."""
    model = observed(Entry.CHAT).lab.wire.model
    messages, chat = dual_text_request(salt, DUAL_BYTES, model=model)
    answers = (_warm(observed(Entry.MESSAGES), messages), _warm(observed(Entry.CHAT), chat))
    return DialectPair(*answers, direct=direct.send_body(chat, via="sdk") if direct is not None else None)


def _warm(observed: Observed, body: dict[str, object]) -> Exchange:
    for _ in range(observed.qualification.warm_send - 1):
        observed.lab.send_body(body, via="sdk")
    return observed.lab.send_body(body, via="sdk")
