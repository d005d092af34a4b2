"""A trace as a plan, as requests, and its ceilings: what caches of several sizes would have given it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

from load.lru import Cache
from load.options import LoadOptions
from load.plan import Phase, Plan, SessionSpec, Step, Track
from load.record import Record
from load.talk import CHAT, Outgoing, stream_members, with_members
from load.trace_text import block_text, own_text
from load.traces import Trace, TraceRequest, read_trace

HALVES: Final = ("first half", "second half")


def replay_plan(options: LoadOptions) -> Plan:
    """Two phases, the trace's halves by number of requests; a scope's requests stay with one worker."""
    assert options.trace is not None, "check() asks for it"
    trace = read_trace(options.trace, options.trace_requests)
    middle = len(trace.requests) // 2
    scopes: dict[str, int] = {}
    phases = []
    for name, part in zip(HALVES, (range(middle), range(middle, len(trace.requests))), strict=True):
        start = trace.requests[part.start].at if len(part) else 0.0
        tracks = []
        for number in part:
            request = trace.requests[number]
            session = scopes.setdefault(request.scope, len(scopes)) if request.scope else 0
            when = (request.at - start) * options.trace_scale
            tracks.append(Track(session, (Step("trace", count=number, bytes=4 * request.prompt, pause=when),)))
        phases.append(Phase(name, tuple(tracks), f"{len(tracks):,} requests of a {trace.kind} trace"))
    sessions = tuple(SessionSpec(number, "trace", 0) for number in scopes.values()) or (SessionSpec(0, "trace", 0),)
    notes = () if trace.block else ("this trace says nothing of prefixes: every prompt is its own",)
    return Plan("replay", sessions, tuple(phases), options.users, notes)


@dataclass
class TraceTalk:
    """Requests of a trace: one user message whose text has the trace's prefixes, and nothing before it."""

    trace: Trace
    run: str
    model: str
    answer_tokens: int

    def requests(self, step: Step) -> Iterator[Outgoing]:
        """The one request of a step."""
        request = self.trace.requests[step.count]
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": text_of(request, self.run, step.count)}],
            "max_tokens": self.answer_tokens,
        }
        encoded = with_members(orjson.dumps(body), stream_members(CHAT))
        yield Outgoing(step.count, "main", "trace", CHAT, encoded, {}, 0, True, client=self.trace.kind)


def text_of(request: TraceRequest, run: str, number: int) -> str:
    """The prompt: its blocks, the last one cut where the prompt ends inside it, then what is its own."""
    parts = []
    left = request.prompt
    for block in request.ids:
        take = min(left, request.block)
        text = block_text(run, request.scope, block, request.block)
        parts.append(text if take == request.block else text[: take * 4])
        left -= take
    if left > 0:
        parts.append(own_text(run, number, left))
    return "".join(parts)


def ceilings(record: Record) -> dict[str, Any]:
    """Hit rates of the whole trace and its second half, over full blocks: endless, L1 alone, L1 with L2, measured."""
    options = record.options
    assert options.trace is not None
    trace = read_trace(options.trace, options.trace_requests)
    block = trace.block
    if not block:
        return {}
    pool, l2 = record.pool_tokens, options.l2_tokens
    caches = {"endless": Cache(block)}
    if pool:
        caches["l1"] = Cache(block, pool // block)
    if pool and l2:
        caches["l1_and_l2"] = Cache(block, pool // block, l2 // block)
    sent = {sample.session for sample in record.samples.rows if sample.error is None}
    complete = len(sent) == len(trace.requests)
    middle = len(trace.requests) // 2
    sums = {name: [0, 0, 0, 0] for name in caches}
    for number, request in enumerate(trace.requests):
        keys = [(request.scope, block_id) for block_id in request.ids[: request.full]]
        for name, cache in caches.items():
            cached = cache.serve(keys, request.prompt, private=1, whole=True).cached
            half = 2 if number >= middle else 0
            sums[name][half] += cached
            sums[name][half + 1] += request.prompt
    rows = {name: _rates(*values) for name, values in sums.items()}
    first, second = (record.samples.total(phase=name) for name in HALVES)
    rows["measured"] = _rates(first.cached, first.rated, second.cached, second.rated)
    return {"kind": trace.kind, "block": block, "requests": len(trace.requests), "complete": complete, "rates": rows}


def _rates(hit1: int, all1: int, hit2: int, all2: int) -> dict[str, float | None]:
    total = all1 + all2
    return {"whole": (hit1 + hit2) / total if total else None, "second_half": hit2 / all2 if all2 else None}
