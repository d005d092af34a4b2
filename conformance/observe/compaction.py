"""What a client that compacts sees of its context, next to how large the context really is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from conformance.evidence.conversation import Sent
from conformance.observe.lab import WireConversation, WireLab
from conformance.observe.owed_usage import OWED, owes_usage
from conformance.observe.records import own_record
from conformance.sessions import Session
from conformance.sessions.compaction import ContextMeter, window_for
from conformance.wire.exchange import Exchange
from conformance.wire.upstream_usage import upstream_usage

PROMPT_FIELDS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")

GROWTH_TURNS = 2.5
"""Turns after the first until the declared window is full, when counts are right: between the third and the fourth."""

MOST_TURNS = 6
"""A client that has not compacted by then would have had to twice over."""

GROWTH_BYTES = 900


@dataclass(frozen=True)
class Reading:
    """One answer: how large its prompt was, and what the client made of the answer's counts. All in tokens.

    `size` is the upstream's count where a recorder saw it, else what the same turn counts under a salt nobody sent:
    cold, and in the same form. `cached` is how much of it came from a cache. `full`: the client compacts before its
    next turn. `warm`: at least half of what prompts do not share anyway came from the cache. `untold`: why nothing can
    be made of the answer's counts; empty where they are the target's own statement.
    """

    what: str
    streamed: bool
    size: int
    cached: int
    context: int
    exchange: Exchange
    full: bool
    warm: bool
    untold: str = ""


NO_COUNTS = "the answers carry no prompt tokens (see STR-03, STR-06 and USE-09)"
"""A client then counts for itself: what it makes of the missing counts is its own affair."""

ALL_ZERO = "the streams count 0 prompt tokens, which the engine may do as well as the gateway: a recorder would tell"


@dataclass(frozen=True)
class Compaction:
    """A streamed session played until its client compacts, its turns once more cold, and what comes behind it.

    `threshold` in tokens is what the client compacts at. `after` is empty where it never came to that; it holds a
    second turn where the first already looks full again. `failed` holds an answer without which nothing can be said,
    `why` what is wrong with it.
    """

    threshold: int
    readings: tuple[Reading, ...]
    cold: tuple[Reading, ...]
    after: tuple[Reading, ...] = ()
    failed: tuple[Exchange, ...] = ()
    why: str = ""


class _NoReadingError(Exception):
    """An answer failed, or its counts are none."""

    def __init__(self, exchange: Exchange, why: str) -> None:
        super().__init__(why)
        self.exchange = exchange
        self.why = why


def play_until_compaction(lab: WireLab, *, scale: float, warm_send: int, floor: int) -> Compaction:
    """Stream a growing session through a client with a small window: about seven requests.

    Where no recorder counts, every turn is sent once more under a fresh salt, to say how large it is. `floor` is what
    every prompt shares with any other.
    """
    player = _Player(lab, floor)
    try:
        return player.play(scale, warm_send)
    except _NoReadingError as problem:
        return Compaction(player.threshold, (), (), failed=(problem.exchange,), why=problem.why)


class _Player:
    def __init__(self, lab: WireLab, floor: int) -> None:
        self.lab = lab
        self.floor = floor
        self.threshold = 0
        self.cold: list[Reading] = []

    def play(self, scale: float, warm_send: int) -> Compaction:
        lab = self.lab
        session = lab.session(scale=scale, compacts=True)
        lab.track(WireConversation(session, lab))
        first = self.stream(session)
        size = _upstream_size(first) or self.own_size(session, first)
        meter = ContextMeter(window_for(round(size + GROWTH_TURNS * GROWTH_BYTES * lab.tokens_per_byte)))
        self.threshold = meter.threshold
        readings = [_reading("turn 1", first, size, meter, self.floor)]
        while not meter.full and len(readings) < MOST_TURNS:
            session.grow(GROWTH_BYTES)
            for _ in range(warm_send - 2):
                self.stream(session)
            readings.append(self.turn(f"turn {len(readings) + 1}", session, meter))
        if lab.sees_upstream:
            self.twin(session, meter)
        after = tuple(self.after(session, meter))
        return Compaction(meter.threshold, tuple(readings), tuple(self.cold), after)

    def after(self, session: Session, meter: ContextMeter) -> list[Reading]:
        """The turn behind the compaction; one more where the client would compact again at once: it may be a hiccup."""
        if not meter.full:
            return []
        self.lab.send_body(session.compaction_body(), stream=True, headers=session.headers())
        session.compact()
        found = [self.turn("after compacting", session, meter)]
        if found[0].full:
            session.grow(GROWTH_BYTES)
            found.append(self.turn("the turn after that", session, meter))
        return found

    def turn(self, what: str, session: Session, meter: ContextMeter) -> Reading:
        exchange = self.stream(session)
        known = _upstream_size(exchange) or self.twin(session, meter)
        return _reading(what, exchange, known, meter, self.floor)

    def stream(self, session: Session) -> Exchange:
        exchange = self.lab.send(session, stream=True, via="raw")
        if not exchange.ok:
            raise _NoReadingError(exchange, f"a streamed turn failed: {exchange.error}")
        if not countable(exchange):
            raise _NoReadingError(exchange, "an answer's counts are no counts: negative, or no integers")
        return exchange

    def twin(self, session: Session, meter: ContextMeter) -> int:
        """Send the present turn under a fresh salt; its size, by the upstream or by its own counts."""
        other = session.with_salt(self.lab.salts.fresh())
        exchange = self.stream(other)
        size = _upstream_size(exchange) or self.own_size(other, exchange)
        turn = f"turn {session.turn}, cold"
        self.cold.append(_reading(turn, exchange, size, ContextMeter(meter.window), self.floor))
        return size

    def own_size(self, session: Session, cold: Exchange) -> int:
        """What a cold stream counts in the end; where that is nothing, what the same turn counts plain."""
        total = cold.usage.prompt
        if not total:
            plain = self.lab.send(session.with_salt(self.lab.salts.fresh()))
            total = plain.usage.prompt if plain.ok and countable(plain) else None
        if not total:
            raise _NoReadingError(cold, "neither the streamed nor the plain answer counts a prompt")
        return total


def countable(exchange: Exchange) -> bool:
    """False for an answer whose counts no client can add up: what it makes of them is its own affair."""
    parts = [exchange.usage.raw]
    if exchange.start_usage is not None:
        parts.append(exchange.start_usage.raw)
    values = [raw.get(name) for raw in parts for name in PROMPT_FIELDS]
    return all(value is None or (type(value) is int and value >= 0) for value in values)


def plain_readings(sends: Iterable[Sent], floor: int) -> list[Reading]:
    """What the client makes of plain answers whose size an upstream's count tells."""
    found = []
    for sent in sends:
        if sent.exchange is not None and sent.exchange.ok and countable(sent.exchange):
            size = _upstream_size(sent.exchange)
            if size:
                found.append(_reading("plain", sent.exchange, size, ContextMeter(size), floor))
    return found


def twice_sent(first: Sent, repeat: Sent, floor: int) -> list[Reading]:
    """The same of a prompt sent twice, whose size is what it counted when it was cold."""
    exchanges = (first.exchange, repeat.exchange)
    if not (first.valid and repeat.valid) or None in exchanges or not all(countable(e) for e in exchanges if e):
        return []
    size = first.prompt
    if not size:
        return []
    named = zip(("first send", "again"), exchanges, strict=True)
    return [_reading(what, e, size, ContextMeter(size), floor) for what, e in named if e is not None]


def _reading(what: str, exchange: Exchange, size: int, meter: ContextMeter, floor: int) -> Reading:
    start = exchange.start_usage.prompt if exchange.start_usage is not None else None
    meter.note(exchange.usage.prompt, start)
    record = own_record(exchange)
    usage = upstream_usage(record) if record is not None else exchange.usage
    cached = usage.cached or 0
    warm = 2 * (cached - floor) >= size - floor
    untold = _untold(exchange, seen=record is not None) if not meter.context else ""
    return Reading(what, exchange.streamed, size, cached, meter.context, exchange, meter.full, warm, untold)


def _untold(exchange: Exchange, *, seen: bool) -> str:
    """Why nothing can be made of an answer without counts; empty where the target has itself to blame for it."""
    if exchange.usage.prompt is None:
        return NO_COUNTS
    if not seen:
        return ALL_ZERO
    return OWED if owes_usage(exchange) else ""


def _upstream_size(exchange: Exchange) -> int | None:
    """The upstream's count of the prompt; None where nobody saw one above zero."""
    record = own_record(exchange)
    count = upstream_usage(record).prompt if record is not None else None
    return count if count and count > 0 else None
