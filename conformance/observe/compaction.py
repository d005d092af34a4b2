"""What a client that compacts sees of its context, next to how large the context really is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from conformance.evidence.conversation import Sent
from conformance.observe.lab import WireConversation, WireLab
from conformance.sessions import Session
from conformance.sessions.compaction import ContextMeter, window_for
from conformance.wire.exchange import Exchange
from conformance.wire.upstream_usage import upstream_usage

GROWTH_TURNS = 2.5
"""Turns after the first until the declared window is full, when counts are right: between the third and the fourth."""

MOST_TURNS = 6
"""A client that has not compacted by then would have had to twice over."""

GROWTH_BYTES = 900


@dataclass(frozen=True)
class Reading:
    """One answer: how large its prompt was, and what the client made of the answer's counts. All in tokens.

    `size` is the upstream's count where a recorder saw it, else what the same prompt counts plain while it is cold.
    `cached` is how much of it came from a cache. `full`: the client compacts before its next turn.
    """

    what: str
    streamed: bool
    size: int
    cached: int
    context: int
    exchange: Exchange
    full: bool

    @property
    def warm(self) -> bool:
        return 2 * self.cached >= self.size


@dataclass(frozen=True)
class Compaction:
    """A streamed session played until its client compacts, its last turn once more cold, and the turn behind it.

    `threshold` in tokens is what the client compacts at. `after` is None where it never came to that. `failed` holds
    an answer without which nothing can be said.
    """

    threshold: int
    readings: tuple[Reading, ...]
    cold: Reading | None
    after: Reading | None
    failed: tuple[Exchange, ...] = ()


def play_until_compaction(lab: WireLab, *, scale: float, warm_send: int) -> Compaction:
    """Stream a growing session through a client with a small window: about seven requests.

    Where no recorder counts, plain requests beside it, cold, say how large the first and the last prompt are; what
    lies between grows evenly.
    """
    session = lab.session(scale=scale)
    lab.track(WireConversation(session, lab))
    first = lab.send(session, stream=True, via="raw")
    size = _size(lab, session, first)
    if not first.ok or size is None:
        return Compaction(0, (), None, None, (first,))
    meter = ContextMeter(window_for(round(size + GROWTH_TURNS * GROWTH_BYTES * lab.tokens_per_byte)))
    seen = [(first, *_noted(first, meter))]
    while not meter.full and len(seen) < MOST_TURNS:
        session.grow(GROWTH_BYTES)
        for _ in range(warm_send - 2):
            lab.send(session, stream=True, via="raw")
        exchange = lab.send(session, stream=True, via="raw")
        if not exchange.ok:
            return Compaction(meter.threshold, (), None, None, (exchange,))
        seen.append((exchange, *_noted(exchange, meter)))
    cold = _played("the last turn, cold", lab, session.with_salt(lab.salts.fresh()), ContextMeter(meter.window))
    if isinstance(cold, Exchange):
        return Compaction(meter.threshold, (), None, None, (cold,))
    step = (cold.size - size) / max(len(seen) - 1, 1)
    readings = tuple(
        _made(f"turn {i + 1}", exchange, _upstream_size(exchange) or size + round(i * step), context, full)
        for i, (exchange, context, full) in enumerate(seen)
    )
    if not meter.full:
        return Compaction(meter.threshold, readings, cold, None)
    lab.send_body(session.compaction_body(), stream=True, headers=session.headers())
    session.compact()
    after = _played("after compacting", lab, session, meter)
    failed = (after,) if isinstance(after, Exchange) else ()
    return Compaction(meter.threshold, readings, cold, None if isinstance(after, Exchange) else after, failed)


def plain_readings(sends: Iterable[Sent]) -> list[Reading]:
    """What the client makes of plain answers whose size an upstream's count tells."""
    found = []
    for sent in sends:
        if sent.exchange is not None and sent.exchange.ok:
            size = _upstream_size(sent.exchange)
            if size is not None:
                found.append(_reading("plain", sent.exchange, size, ContextMeter(size)))
    return found


def twice_sent(first: Sent, repeat: Sent) -> list[Reading]:
    """The same of a prompt sent twice, whose size is what it counted when it was cold."""
    if first.exchange is None or repeat.exchange is None or not (first.valid and repeat.valid) or not first.prompt:
        return []
    size = first.prompt
    return [
        _reading("first send", first.exchange, size, ContextMeter(size)),
        _reading("again", repeat.exchange, size, ContextMeter(size)),
    ]


def _played(what: str, lab: WireLab, session: Session, meter: ContextMeter) -> Reading | Exchange:
    """One streamed request as a reading; the bare exchange where it failed or nothing tells its size."""
    exchange = lab.send(session, stream=True, via="raw")
    size = _size(lab, session, exchange) if exchange.ok else None
    return exchange if size is None else _reading(what, exchange, size, meter)


def _reading(what: str, exchange: Exchange, size: int, meter: ContextMeter) -> Reading:
    return _made(what, exchange, size, *_noted(exchange, meter))


def _noted(exchange: Exchange, meter: ContextMeter) -> tuple[int, bool]:
    """The client's context after this answer, and whether it is full."""
    start = exchange.start_usage.prompt if exchange.start_usage is not None else None
    meter.note(exchange.usage.prompt, start)
    return meter.context, meter.full


def _made(what: str, exchange: Exchange, size: int, context: int, full: bool) -> Reading:
    usage = upstream_usage(exchange.upstream[-1]) if exchange.upstream else exchange.usage
    return Reading(what, exchange.streamed, size, usage.cached or 0, context, exchange, full)


def _size(lab: WireLab, session: Session, exchange: Exchange) -> int | None:
    """True size of the prompt just sent: the upstream's count, or the plain total of its like that nobody sent."""
    return _upstream_size(exchange) or lab.send(session.with_salt(lab.salts.fresh())).usage.prompt or None


def _upstream_size(exchange: Exchange) -> int | None:
    return upstream_usage(exchange.upstream[-1]).prompt or None if exchange.upstream else None
