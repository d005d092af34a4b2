"""One request sent again and again as it is, and one request in all its forms."""

from __future__ import annotations

from conformance.observe.lab import WireLab
from conformance.observe.observations import Streams
from conformance.observe.plan import IDENTICAL_REQUESTS
from conformance.verdicts import Entry
from conformance.wire.exchange import Exchange


def identical_requests(lab: WireLab) -> tuple[Exchange, ...]:
    """Byte-identical short requests, sent raw one after the other."""
    session = lab.session()
    body = session.body()
    text = f"{session.salt} Answer briefly."
    if lab.entry is Entry.MESSAGES:
        body["system"] = text
    else:
        body["messages"] = [{"role": "system", "content": text}, {"role": "user", "content": "What is a prefix?"}]
    return tuple(lab.send_body(body, headers=session.headers()) for _ in range(IDENTICAL_REQUESTS))


def all_forms(lab: WireLab, *, scale: float, warm_send: int) -> Streams:
    """One request plain and streamed, by each kind of client; `warm_send` is the plain send that should hit."""
    session = lab.session(scale=scale)
    session.grow(600)
    cold = lab.send(session)
    for _ in range(warm_send - 2):
        lab.send(session)
    plain = lab.send(session)
    if lab.entry is Entry.MESSAGES:
        raw = lab.send(session, stream=True, via="raw")
        again = lab.send(session, stream=True)
        return Streams(cold, plain, raw, again, None, lab.wire.replay(raw.response_body))
    asked = {**session.body(), "stream_options": {"include_usage": True}}
    return Streams(
        cold,
        plain,
        raw=lab.send_body(asked, stream=True, headers=session.headers()),
        sdk=lab.send_body(asked, stream=True, via="sdk", headers=session.headers()),
        unasked=lab.send(session, stream=True, via="raw"),
    )
