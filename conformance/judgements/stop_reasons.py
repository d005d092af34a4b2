"""How finished answers say that they ended: by scripts whose ending is known, and by one request in all its forms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from conformance.observe import stream_scripts as scripts
from conformance.observe.observations import Streams
from conformance.observe.records import own_record
from conformance.observe.scripted import Played, ScriptedUpstream
from conformance.observe.usage_scripts import CASES_BY_NAME
from conformance.observe.usage_values import PLAIN_CONTROL, STREAM_CONTROL
from conformance.verdicts import Entry, Table
from conformance.wire.chat import NO_FINISH
from conformance.wire.exchange import Exchange
from conformance.wire.upstream_usage import upstream_answer

_IN_MESSAGES: dict[str, tuple[str, ...]] = {
    "tool_calls": ("tool_use",),
    # The scripted answer is shorter than max_tokens: a gateway may conclude that the window was full.
    "length": ("max_tokens", "model_context_window_exceeded"),
    "stop": ("end_turn",),
}
_WORDS = {"tool_calls": "tool calls", "length": "answers cut at their token limit", "stop": "finished answers"}


@dataclass(frozen=True)
class Stop:
    """One finished scripted answer. `meant` is the upstream's ending in OpenAI's word."""

    played: Played
    meant: str

    @property
    def exchange(self) -> Exchange:
        return self.played.exchange

    @property
    def arrived(self) -> bool:
        """True where the client got an answer that ended; a chat stream without a finish_reason is one."""
        reached = self.played.reached and 200 <= self.exchange.status < 300
        return reached and (self.exchange.error is None or self.exchange.error == NO_FINISH)

    @property
    def wanted(self) -> tuple[str, ...]:
        """The stop reasons of the client's dialect that say what the upstream meant."""
        return (self.meant,) if self.exchange.entry is Entry.CHAT else _IN_MESSAGES[self.meant]

    @property
    def right(self) -> bool:
        return self.exchange.stop_reason in self.wanted

    @property
    def told(self) -> str:
        """The stop reason the client was given, in words."""
        return self.exchange.stop_reason or "no stop reason"


def wrong_stops(stops: Iterable[Stop]) -> str:
    """What is wrong with answers that do not end as the upstream said, in words; "" where nothing is."""
    found = []
    wrong = [s for s in stops if not s.right]
    for meant in dict.fromkeys(s.meant for s in wrong):
        ones = [s for s in wrong if s.meant == meant]
        told = dict.fromkeys(s.told for s in ones)
        ends = " and in ".join(f"{end} {'/'.join(_form(s) for s in ones if s.told == end)}" for end in told)
        found.append(f"{_WORDS[meant]} end in {ends}, not {ones[0].wanted[0]}")
    return "; ".join(found)


def _form(stop: Stop) -> str:
    return "streamed" if stop.exchange.streamed else "plain"


def play_stops(scripted: ScriptedUpstream) -> list[Stop]:
    """Tool calls, a full token limit and a plain end, each plain and streamed; no usage of them is judged."""
    calls = scripts.BLOCKS[scripts.CALLS_STREAMED]
    found = [
        Stop(scripted.play(scripts.CALLS_STREAMED, calls, stream=True, tools=True), "tool_calls"),
        Stop(scripted.play("calls-plain", scripts.CALLS_PLAIN, stream=False, tools=True), "tool_calls"),
    ]
    for name, make in scripts.LENGTH.items():
        found.append(Stop(scripted.play(name, make, stream=name == "length-streamed"), "length"))
    sane = (CASES_BY_NAME[name] for name in (STREAM_CONTROL, PLAIN_CONTROL))
    return found + [Stop(scripted.usage(case), "stop") for case in sane]


def stops_table(stops: Iterable[Stop]) -> Table:
    """What each answer's end was, and what the client was told."""
    rows = tuple((s.played.name, _form(s), s.meant, s.exchange.stop_reason) for s in stops)
    return Table("how finished answers ended", ("the upstream", "asked", "finish_reason", "the client's"), rows)


def differing_stops(streams: Streams) -> tuple[str, bool] | None:
    """How the plain and the streamed answer to one request say that they ended, where they differ, and whether the
    upstream is known to have said one thing; None where they agree or cannot be compared.

    Only answers of the same text and calls compare: a model may answer a second time in another way.
    """
    plain, raw = streams.plain, streams.raw
    if not (plain.ok and raw.ok and streams.repeat_themselves) or len(plain.tool_calls) != len(raw.tool_calls):
        return None
    if plain.stop_reason == raw.stop_reason:
        return None
    records = [own_record(exchange) for exchange in (plain, raw)]
    seen = [upstream_answer(record).stop_reason for record in records if record is not None]
    if len(seen) == len(records) and len(set(seen)) > 1:
        return None  # the upstream itself ended them differently
    words = [exchange.stop_reason or "no stop reason" for exchange in (plain, raw)]
    said = f"one and the same answer ends in {words[0]} plain and in {words[1]} streamed"
    return said, len(seen) == len(records) and seen[0] is not None
