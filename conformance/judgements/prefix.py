"""PFX rules by upstream bytes: is the prompt's prefix kept from turn to turn?"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from conformance.diagnosis.divergence import ATTRIBUTION, ends_in_white_space, prefix_change, tools_change
from conformance.diagnosis.explain import explain
from conformance.diagnosis.prompt import Dialect, UpstreamPrompt
from conformance.errors import SendingStopped
from conformance.evidence.conversation import Sent
from conformance.evidence.hotpair import Arm
from conformance.judgements.requests_table import numbered
from conformance.judgements.verdict import Judging, evidence, no_attribution, upstream_prompts
from conformance.observe.observed import Observed
from conformance.report.wording import change_line
from conformance.verdicts import Change, Status, Table, Vantage, Verdict
from conformance.wire.exchange import Exchange


def _exchanges(sends: list[Sent]) -> list[Exchange]:
    return [s.exchange for s in sends if s.exchange is not None]


def _turns(arm: Arm, prompts: list[tuple[Exchange, UpstreamPrompt]], changes: dict[int, Change]) -> Table:
    rows = tuple(
        (i + 1, exchange.usage.prompt, exchange.usage.cached, changes[i].part if i in changes else "prefix of the next")
        for i, (exchange, _) in enumerate(prompts)
    )
    return Table(f"turns, {arm.name}", ("turn", "prompt", "cached", "first change towards the next turn"), rows)


def prefix_kept(observed: Observed) -> Verdict:
    """PFX-01 by upstream bytes: each turn's rendered prompt begins the next one's."""
    judging = Judging("PFX-01", observed.entry, Vantage.UPSTREAM)
    arm = observed.arms.plain
    prompts = upstream_prompts(_exchanges(arm.new_turns))
    if len(prompts) < 3:
        return judging.undecided(
            f"only {len(prompts)} of {len(arm.new_turns)} turns reached the recorder", len(prompts)
        )
    if not all(prompt.parts for _, prompt in prompts):
        return judging.undecided("the upstream requests carry no text at all (see CON-01)", len(prompts))
    changes: dict[int, Change] = {}
    ends = 0
    for i in range(len(prompts) - 1):
        if ends_in_white_space(prompts[i][1], prompts[i + 1][1]):
            ends += 1
            continue
        change = prefix_change(prompts[i][1], prompts[i + 1][1], observed.own_text)
        if change is not None:
            changes[i] = change
    table = _turns(arm, prompts, changes)
    streams = upstream_prompts(_streamed_twice(observed))
    if not changes and len(streams) == 2 and not ends_in_white_space(streams[0][1], streams[1][1]):
        change = prefix_change(streams[0][1], streams[1][1], observed.own_text)
        if change is not None:
            return judging.says(
                Status.FAIL,
                f"one request, streamed twice, is sent upstream as two prompts: {change.kind} in {change.part}, "
                f"character {change.offset}",
                len(prompts) + 2,
                code="prefix-changed",
                tables=(table,),
                change=change,
                ruled_out=("plain requests: their turns are prefixes of each other",),
                excerpts=(evidence("streamed again", streams[1][0], observed),),
            )
    if not changes:
        note = f"; {ends} end in white space that the next turn has not: it costs no more than the end" if ends else ""
        return judging.passes(
            f"each of {len(prompts)} turns is a prefix of the next{note}", len(prompts), tables=(table,)
        )
    first = min(changes)
    explained = explain(prompts[first], prompts[first + 1], observed.own_text, observed.lab.tokens_per_byte)
    assert explained is not None, "these two turns differ"
    return judging.says(
        Status.FAIL,
        f"turn {first + 1} is no prefix of turn {first + 2}: {change_line(explained.change)} "
        f"({len(changes)} of {len(prompts) - 1} turns)",
        len(prompts),
        code="prefix-changed",
        tables=(table, explained.survival),
        change=explained.change,
        ruled_out=explained.ruled_out,
        excerpts=(evidence(f"turn {first + 2}", prompts[first + 1][0], observed),),
    )


def _streamed_twice(observed: Observed) -> list[Exchange]:
    """The two streams of one request; none where the run may not send any more."""
    try:
        return [observed.streams.raw, observed.streams.sdk]
    except SendingStopped:
        return []


def attribution_kept_out(observed: Observed) -> Verdict:
    """PFX-02 by upstream bytes: the block is in no prompt, or at least does not vary."""
    judging = Judging("PFX-02", observed.entry, Vantage.UPSTREAM)
    if missing := no_attribution(observed, judging):
        return missing
    arm = observed.arms.pinned
    prompts = upstream_prompts(_exchanges(arm.new_turns))
    n = len(prompts)
    if n < 3:
        return judging.undecided(f"only {n} of {len(arm.new_turns)} turns reached the recorder", n)
    if all(prompt.dialect is Dialect.MESSAGES for _, prompt in prompts):
        return judging.says(
            Status.NOT_APPLICABLE, "the upstream speaks Anthropic Messages: there the block may mean something", n
        )
    blocks = [_attribution_text(prompt) for _, prompt in prompts]
    if len(set(blocks)) == 1 and (left := _left_over(observed, prompts)) is not None:
        at, rest = left
        return judging.says(
            Status.FAIL,
            "the attribution block does not stand in the upstream prompts as it was sent, but something of it does and "
            f"changes from turn to turn: {rest.kind} in {rest.part}, character {rest.offset}",
            n,
            code="attribution-forwarded",
            tables=(arm.table(),),
            change=rest,
            ruled_out=_plain_kept(observed),
            excerpts=(evidence(f"turn {at + 2}", prompts[at + 1][0], observed),),
        )
    if not any(blocks):
        if not any(part.kind == "system" for _, prompt in prompts for part in prompt.parts):
            return judging.undecided("no system text reached the upstream at all (see CON-01)", n)
        return judging.passes(f"the block is in none of {n} upstream prompts", n, tables=(arm.table(),))
    if len(set(blocks)) == 1:
        return judging.passes(
            f"the block reaches the upstream, but the same in all {n} turns", n, tables=(arm.table(),)
        )
    at = next(i for i in range(n - 1) if blocks[i] != blocks[i + 1])
    explained = explain(prompts[at], prompts[at + 1], observed.own_text, observed.lab.tokens_per_byte)
    seen = sum(block is not None for block in blocks)
    cost, survival = attribution_cost(observed), (explained.survival,) if explained else ()
    return judging.says(
        Status.FAIL,
        f"the attribution block stands in {seen} of {n} upstream prompts and changes from turn to turn"
        + (f": {change_line(explained.change)}" if explained else ""),
        n,
        code="attribution-forwarded",
        cost=cost,
        # Where the engine drops the block, what survives it is everything: the table would tell of another engine.
        tables=(arm.table(), *(() if cost else survival)),
        change=explained.change if explained else None,
        ruled_out=(*_plain_kept(observed), *(explained.ruled_out if explained else ())),
        excerpts=(evidence(f"turn {at + 2}", prompts[at + 1][0], observed),),
    )


def attribution_cost(observed: Observed) -> str:
    """What a forwarded block costs behind an engine that drops it; empty behind any other."""
    engine = observed.engine.vllm
    if engine is None or not engine.strips_attribution:
        return ""
    return (
        f"Nothing behind this engine: vLLM {engine.name} drops the block itself before it renders the prompt. Behind a "
        "vLLM below 0.32, or another engine, nothing after the block is ever reused."
    )


def _plain_kept(observed: Observed) -> tuple[str, ...]:
    prompts = [prompt for _, prompt in upstream_prompts(_exchanges(observed.arms.plain.new_turns))]
    if len(prompts) < 2 or any(
        prefix_change(a, b, observed.own_text) for a, b in pairwise(prompts) if not ends_in_white_space(a, b)
    ):
        return ()
    return ("everything else: the session that differs only by that block, sent in turns with this, kept its prefix",)


def _left_over(observed: Observed, prompts: list[tuple[Exchange, UpstreamPrompt]]) -> tuple[int, Change] | None:
    """The first turn whose system text changes towards the next one, where the session without the block keeps its own.

    Only as many turns are compared as the other session has.
    """
    if not _plain_kept(observed):
        return None
    systems = [
        replace(prompt, tools=(), parts=tuple(part for part in prompt.parts if part.kind == "system"))
        for _, prompt in prompts[: len(observed.arms.plain.new_turns)]
    ]
    for at, (earlier, later) in enumerate(pairwise(systems)):
        if change := prefix_change(earlier, later, observed.own_text):
            return at, change
    return None


def _attribution_text(prompt: UpstreamPrompt) -> str | None:
    for part in prompt.parts:
        at = part.text.find(ATTRIBUTION)
        if at >= 0:
            return part.text[at : at + 160].partition("\n")[0]
    return None


def tools_keep_their_order(observed: Observed) -> Verdict:
    """PFX-09 by upstream bytes: one session's tool section is the same on every request."""
    judging = Judging("PFX-09", observed.entry, Vantage.UPSTREAM)
    arms = [arm for arm in (observed.arms.plain, observed.arms.attribution) if arm is not None]
    n = 0
    for exchanges in (*(_exchanges(arm.new_turns) for arm in arms), _streamed_twice(observed)):
        prompts = upstream_prompts(exchanges)
        n += len(prompts)
        names = numbered("section", (tuple(tool.text for tool in p.tools) for _, p in prompts))
        rows = tuple((_place(e, i), len(p.tools), names[i]) for i, (e, p) in enumerate(prompts))
        table = Table("tool sections as they arrive", ("request", "tools", "which section"), rows)
        if any(len(prompt.tools) < 2 for _, prompt in prompts):
            return judging.undecided("fewer than two tools reached the upstream (see CON-01)", n)
        for i in range(len(prompts) - 1):
            change = tools_change(prompts[i][1].tools, prompts[i + 1][1].tools, observed.own_text)
            if change is None or change.kind not in ("tools re-ordered", "keys re-ordered"):
                continue
            return judging.says(
                Status.FAIL,
                f"{change.kind} between {_place(prompts[i][0], i)} and {_place(prompts[i + 1][0], i + 1)} of one "
                f"session ({change.part})",
                n,
                code="tools-reordered",
                change=change,
                tables=(table,),
                ruled_out=("the client: it sent the same tool section, byte for byte, on every turn",),
                excerpts=(evidence(f"turn {i + 2}", prompts[i + 1][0], observed),),
            )
    if n < 4:
        return judging.undecided(f"only {n} requests with tools reached the recorder", n)
    return judging.passes(f"tools and their keys arrive in one order in all {n} requests", n, tables=(table,))


def _place(exchange: Exchange, i: int) -> str:
    return f"{'stream' if exchange.streamed else 'turn'} {i + 1}"
