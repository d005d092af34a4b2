"""STR rules: is the stream a valid event sequence that tells the whole truth?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from conformance.diagnosis.prompt import Dialect, parse_prompt
from conformance.judgements.requests_table import exchanges_table
from conformance.judgements.stop_reasons import differing_stops
from conformance.judgements.verdict import Judging, evidence
from conformance.observe.observations import Streams
from conformance.observe.observed import Observed
from conformance.observe.owed_usage import OWED, excuse
from conformance.observe.records import own_record
from conformance.verdicts import Status, Table, Vantage, Verdict
from conformance.wire.answers import object_of
from conformance.wire.exchange import Exchange, StreamEvent
from conformance.wire.jsontext import loads_or_none
from conformance.wire.messages import NO_STOP
from conformance.wire.upstream_usage import upstream_answer

_PROMPT_FIELDS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_FIELDS = (*_PROMPT_FIELDS, "output_tokens")
_TYPES = frozenset(
    ("message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
     "message_stop", "error")
)  # fmt: skip
"""Event types with a place in the order. Clients pass over others (Anthropic's versioning policy), pings among them."""


def valid_event_sequence(observed: Observed) -> Verdict:
    """STR-01: the order of events, and what the official SDK makes of the very same bytes.

    No two answers are compared: a model may say another thing, or nothing, each time.
    """
    judging = Judging("STR-01", observed.entry, Vantage.CLIENT)
    streams = observed.streams
    raw, sdk = streams.raw, streams.sdk
    if not 200 <= raw.status < 300:
        return judging.undecided(f"the streamed request failed: {raw.error}", 2)
    if unclear := _upstream_trouble(judging, streams):
        return unclear
    record = own_record(raw)
    sent = upstream_answer(record) if record is not None else None
    lost = sent is not None and bool(sent.text or sent.tool_calls)
    faults = sequence_faults(raw.events, empty=not lost) or _sdk_faults(streams)
    order = Table("events", ("event", "type"), tuple((e.name, _type(e)) for e in raw.events[:40]))
    if faults:
        return judging.says(
            Status.FAIL,
            "; ".join(faults[:3]),
            2,
            code="event-sequence",
            tables=(order,),
            excerpts=(evidence("stream", raw, observed),),
        )
    if not sdk.ok:
        return judging.withholds(f"one stream is in order, another broke off: {sdk.error}", 2, code="broken-once")
    others = (streams.cold, streams.plain, sdk)
    if sent is None and not _has_block(raw.events) and any(e.text or e.tool_calls for e in others):
        return judging.withholds(
            "the stream is in order but carries no content, where another answer to the same request does: the model "
            "may have ended at once; a recorder would tell",
            2,
            code="no-content",
            tables=(order,),
        )
    if differ := differing_stops(streams):
        said, known = differ
        if not known:
            return judging.withholds(
                f"{said}: gateway and engine are not told apart, a recorder would",
                2,
                code="stop-reason",
                tables=(order,),
            )
        return judging.says(
            Status.FAIL,
            f"{said}, where the upstream said the same both times",
            2,
            code="stop-reason",
            tables=(order,),
            excerpts=(evidence("stream", raw, observed), evidence("plain answer", streams.plain, observed)),
        )
    strangers = sum(_type(e) not in _TYPES and not isinstance(e.data, Mapping) for e in raw.events)
    note = f" ({strangers} that are none of Anthropic's, such as [DONE], which it passes over)" if strangers else ""
    return judging.passes(
        f"{len(raw.events)} events in order{note}; the SDK accumulates what they carry", 2, tables=(order,)
    )


def _upstream_trouble(judging: Judging, streams: Streams) -> Verdict | None:
    """Why a stream that breaks, or carries an error event, proves nothing: so it must where the upstream fails."""
    raw, sdk = streams.raw, streams.sdk
    if not (_broke_off(raw) or any(_type(event) == "error" for event in raw.events)):
        return None
    record = own_record(raw)
    if record is None:
        if _broke_off(sdk) or (sdk.error or "").startswith("error event"):
            return None
        return judging.withholds(
            f"one of two streams failed, which the upstream may have caused: {raw.error}", 2, code="broken-once"
        )
    answer = upstream_answer(record)
    if record.status == 200 and record.complete and answer.error is None:
        return None
    return judging.undecided(f"the upstream itself failed in the middle of the stream: {answer.error}", 2)


def _broke_off(exchange: Exchange) -> bool:
    return (exchange.error or "").startswith("the answer broke off")


def _sdk_faults(streams: Streams) -> list[str]:
    """What is wrong with the SDK's reading of a stream whose events are in order."""
    replayed, raw, sdk = streams.replayed, streams.raw, streams.sdk
    if replayed is None:
        return []
    if replayed.error is not None:
        return [f"the official SDK could not read it: {replayed.error}"]
    # The order of calls and the values of their arguments; their spelling is the SDK's own.
    if replayed.text != raw.text or _calls(replayed.tool_calls) != _calls(raw.tool_calls):
        return ["the SDK accumulates from these bytes another answer than their events carry"]
    if not sdk.ok and 200 <= sdk.status < 300 and (sdk.error == NO_STOP or (sdk.error or "").startswith("sdk: ")):
        return [f"streamed again, the official SDK could not read it: {sdk.error}"]
    return []


def _calls(calls: Sequence[tuple[str, str]]) -> list[tuple[str, Any]]:
    return [(name, loads_or_none(arguments.encode())) for name, arguments in calls]


def _has_block(events: Sequence[StreamEvent]) -> bool:
    return any(_type(event) == "content_block_start" for event in events)


def sequence_faults(events: Sequence[StreamEvent], *, empty: bool = False) -> list[str]:
    """What is wrong with the order of a Messages stream's events; empty when nothing is.

    `empty` allows a message without any content block.
    """
    # The official SDK passes over events without a name of Anthropic's, `data: [DONE]` among them.
    types = [t for e in events if (t := _type(e)) in _TYPES]
    if not types:
        return ["the stream carries no event"]
    if "error" in types:
        return ["the stream carries an error event"]
    faults = []
    if types[0] != "message_start":
        faults.append(f"the first event is {types[0]}, not message_start")
    elif missing := [f for f in ("input_tokens", "output_tokens") if not _is_count(_start_usage(events).get(f))]:
        faults.append(f"message_start's usage has no integer {' and '.join(missing)}")
    if types[-1] != "message_stop":
        faults.append(f"the last event is {types[-1]}, not message_stop")
    if "message_delta" not in types:
        faults.append("no message_delta with stop_reason and usage")
    return faults + [f for f in block_faults(events) if not (empty and f == NO_BLOCK)]


NO_BLOCK = "no content block"
"""The fault of a stream without any content."""


def block_faults(events: Sequence[StreamEvent]) -> list[str]:
    """What is wrong with the content blocks of a stream.

    Blocks are told apart by their index: the official SDK reads one that closes behind its successors as it was meant.
    """
    opened: dict[int, None] = {}
    started: list[int] = []
    faults = []
    for event in events:
        kind = _type(event)
        if not kind.startswith("content_block_"):
            if kind == "message_delta":
                faults += [f"content block {index} is still open at message_delta" for index in opened]
                opened = {}
            continue
        index = event.data.get("index") if isinstance(event.data, Mapping) else None
        if not isinstance(index, int):
            return [*faults, f"{kind} without an integer index"]
        if kind == "content_block_start":
            if index in started:
                faults.append(f"content block {index} starts twice")
            started.append(index)
            opened[index] = None
        elif index not in opened:
            faults.append(f"{kind} for block {index}, which is not open")
        elif kind == "content_block_stop":
            del opened[index]
    if not started:
        faults.append(NO_BLOCK)
    return faults


def no_estimate_at_start(observed: Observed) -> Verdict:
    """STR-02: no count of message_start is above the final one."""
    judging = Judging("STR-02", observed.entry, Vantage.CLIENT)
    raw = observed.streams.raw
    if not raw.ok:
        return judging.undecided(f"the stream could not be read: {raw.error} (see STR-01)", 1)
    start, final = _start_usage(raw.events), _final_usage(raw.events)
    rows = tuple((f, _cell(start.get(f)), _cell(final.get(f))) for f in _FIELDS)
    table = Table("usage at the start and at the end", ("field", "message_start", "final"), rows)
    if not any(_is_count(start.get(f)) for f in _PROMPT_FIELDS):
        return judging.undecided("message_start carries no usage (see STR-01)", 1, tables=(table,))
    # What is no count, or a negative one, is no estimate either: other rules speak of it.
    high = [f for f in _FIELDS if _is_count(start.get(f)) and _is_count(final.get(f)) and start[f] > final[f] >= 0]
    if high:
        return judging.says(
            Status.FAIL,
            f"message_start says {high[0]} = {start.get(high[0])}, the end says {final.get(high[0])}: an estimate",
            1,
            code="start-above-final",
            tables=(table,),
            excerpts=(evidence("stream", raw, observed),),
        )
    if not any(_count(final.get(f)) for f in _PROMPT_FIELDS):
        return judging.undecided("the stream ends without any prompt tokens (see STR-03)", 1, tables=(table,))
    return judging.passes("no count of message_start is above the final one", 1, tables=(table,))


def last_delta_tells_all(observed: Observed) -> Verdict:
    """STR-03: with the last value of each field, the stream reports what the plain answer reports."""
    judging = Judging("STR-03", observed.entry, Vantage.CLIENT)
    streams, rules = observed.streams, observed.thresholds.usage
    raw, plain = streams.raw, streams.plain
    if not raw.ok or not plain.ok:
        return judging.undecided(f"no pair of answers to compare: {raw.error or plain.error}", 2)
    deltas = [
        u
        for e in raw.events
        if _type(e) == "message_delta" and isinstance(u := object_of(e.data).get("usage"), Mapping)
    ]
    start, final = _start_usage(raw.events), _final_usage(raw.events)
    rows = tuple(
        (f, _cell(start.get(f)), *(_cell(d.get(f)) for d in deltas[-2:]), _cell(plain.usage.raw.get(f)))
        for f in _FIELDS
    )
    names = (
        ("message_delta",)
        if len(deltas) == 1
        else ("message_delta, last but one", "message_delta, last")[: len(deltas)]
    )
    table = Table("one warm request, streamed and plain", ("field", "message_start", *names, "plain answer"), rows)
    excerpts = (evidence("stream", raw, observed),)
    if not deltas:
        return judging.says(
            Status.FAIL, "no message_delta carries usage", 2, code="no-usage", tables=(table,), excerpts=excerpts
        )
    for field in _FIELDS:
        seen = [_count(d[field]) for d in deltas if _is_count(d.get(field))]
        if any(b < a for a, b in pairwise(seen)):
            return judging.says(
                Status.FAIL,
                f"{field} falls from one message_delta to the next ({seen}): increments, not totals",
                2,
                code="not-cumulative",
                tables=(table,),
                excerpts=excerpts,
            )
    total, truth = sum(_count(final.get(f)) for f in _PROMPT_FIELDS), plain.usage.prompt
    if truth is None:
        return judging.undecided("the plain answer reports no prompt tokens", 2, tables=(table,))
    if not total and (why := excuse(raw, lambda: observed.engine_counts_streams)):
        code = "upstream-owes" if why == OWED else "engine-not-ruled-out"
        return judging.withholds(f"the stream ends without prompt tokens: {why}", 2, code=code, tables=(table,))
    if abs(total - truth) > rules.total_slack(truth):
        told = f"with {total:,}" if any(final.get(f) is not None for f in _PROMPT_FIELDS) else "without any"
        return judging.says(
            Status.FAIL,
            f"the stream ends {told} prompt tokens, the plain answer says {truth:,}",
            2,
            code="end-incomplete",
            tables=(table,),
            excerpts=excerpts,
        )
    output, whole = _count(final.get("output_tokens")), plain.usage.output
    if streams.repeat_themselves and whole is not None and abs(output - whole) > rules.output_slack(whole):
        return judging.says(
            Status.FAIL,
            f"the stream ends with {output or 'no'} output tokens, the plain answer with the same text says {whole}",
            2,
            code="end-incomplete",
            tables=(table,),
            excerpts=excerpts,
        )
    if not observed.qualification.counted["message"]:
        return judging.undecided("the total does not grow with the message, so that both agree proves nothing", 2)
    return judging.passes(f"the last values are the plain answer's {truth:,} prompt tokens", 2, tables=(table,))


def asks_upstream_for_usage(observed: Observed) -> Verdict:
    """STR-04: upstream streams ask for usage; a chat client who did not ask is not sent the extra chunk."""
    judging = Judging("STR-04", observed.entry, Vantage.UPSTREAM)
    streams = observed.streams
    asked = [("a stream", streams.raw)]
    unasked = [("a stream, usage not asked for", streams.unasked)] if streams.unasked is not None else []
    judging.rests_on(exchanges_table([*asked, *unasked]))
    record = own_record(streams.raw)
    if record is None:
        return judging.undecided("the stream did not reach the recorder", 1)
    prompt = parse_prompt(record.path, record.json)
    if prompt is not None and prompt.dialect is Dialect.MESSAGES:
        return judging.says(
            Status.NOT_APPLICABLE, "the upstream speaks Anthropic Messages: its streams always carry usage", 1
        )
    options = record.json.get("stream_options") if isinstance(record.json, dict) else None
    if not isinstance(record.json, dict) or record.json.get("stream") is not True:
        return judging.undecided("the gateway does not stream from the upstream: nothing to ask for", 1)
    if not (isinstance(options, dict) and options.get("include_usage") is True):
        return judging.says(
            Status.FAIL,
            f"the upstream stream is asked {_with_options(options)}: it will not report usage",
            1,
            code="usage-not-asked",
            excerpts=(evidence("stream", streams.raw, observed),),
        )
    if streams.unasked is None:
        return judging.passes("the upstream is asked for usage", 1)
    return _not_leaked(observed, judging)


def _with_options(options: object) -> str:
    return "without stream_options" if options is None else f"with stream_options = {json.dumps(options)}"


def _not_leaked(observed: Observed, judging: Judging) -> Verdict:
    unasked = observed.streams.unasked
    assert unasked is not None
    if not unasked.ok:
        return judging.undecided(f"the stream without stream_options failed: {unasked.error}", 2)
    if any(_only_usage(e.data) for e in unasked.events):
        return judging.says(
            Status.FAIL,
            "a client who did not ask for usage is sent the extra chunk that carries nothing else",
            2,
            code="usage-chunk-leaked",
            excerpts=(evidence("stream, usage not asked for", unasked, observed),),
        )
    return judging.passes("the upstream is asked for usage; a client who did not ask is not sent it", 2)


def _only_usage(chunk: Any) -> bool:
    """True for a chunk with usage and no news: OpenAI's has no choices, LiteLLM's one with an empty delta."""
    if not isinstance(chunk, Mapping) or not chunk.get("usage"):
        return False
    return not any(
        choice.get("finish_reason") or (isinstance(delta := choice.get("delta"), Mapping) and any(delta.values()))
        for choice in chunk.get("choices") or ()
        if isinstance(choice, Mapping)
    )


def _type(event: StreamEvent) -> str:
    kind = event.data.get("type") if isinstance(event.data, Mapping) else None
    return kind if isinstance(kind, str) else event.name


def _start_usage(events: Sequence[StreamEvent]) -> Mapping[str, Any]:
    for event in events:
        if _type(event) == "message_start" and isinstance(message := object_of(event.data).get("message"), Mapping):
            usage = message.get("usage")
            return usage if isinstance(usage, Mapping) else {}
    return {}


def _final_usage(events: Sequence[StreamEvent]) -> Mapping[str, Any]:
    """Each field's last non-null value, as the official accumulator has it."""
    final = dict(_start_usage(events))
    for event in events:
        if _type(event) == "message_delta" and isinstance(usage := object_of(event.data).get("usage"), Mapping):
            final.update({k: v for k, v in usage.items() if v is not None})
    return final


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _cell(value: Any) -> str | int | float | None:
    return value if value is None or isinstance(value, (str, int, float)) else str(value)
