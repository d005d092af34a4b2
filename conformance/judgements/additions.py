"""PFX-13: a gateway adds nothing that varies - within a conversation, or from one to the next."""

from __future__ import annotations

from dataclasses import dataclass

from conformance.diagnosis.clock import names_the_day, names_the_minute, stamps
from conformance.diagnosis.content import content_differences
from conformance.diagnosis.divergence import text_change
from conformance.diagnosis.explain import explain
from conformance.diagnosis.prompt import UpstreamPrompt, parse_prompt
from conformance.judgements.identical import CACHE_FIELDS
from conformance.judgements.requests_table import turns_table
from conformance.judgements.verdict import Judging, evidence, upstream_prompts
from conformance.masks import mask
from conformance.observe.observed import Observed
from conformance.observe.records import own_record
from conformance.report.wording import change_line
from conformance.verdicts import Change, Status, Vantage, Verdict
from conformance.wire.exchange import Exchange

_AROUND = 40
"""Characters shown around a time."""


@dataclass(frozen=True)
class Addition:
    """A text beyond the client's own, the request it stands in, and which conversation that belongs to."""

    text: str
    exchange: Exchange
    prompt: UpstreamPrompt
    conversation: int


def nothing_varying_is_added(observed: Observed) -> Verdict:
    """PFX-13 by upstream bytes: what the gateway adds to a prompt is one text, in every turn of every conversation."""
    judging = Judging("PFX-13", observed.entry, Vantage.UPSTREAM)
    turns = [s.exchange for s in observed.arms.plain.new_turns if s.exchange is not None]
    groups = [turns, list(observed.identical)]
    prompts = [upstream_prompts(group) for group in groups]
    n = sum(map(len, prompts))
    judging.rests_on(turns_table(turns))
    if any(len(group) < 2 for group in prompts):
        return judging.undecided(f"only {n} of {sum(map(len, groups))} requests reached the recorder", n)
    seen: dict[str, Addition] = {}
    stamped: dict[tuple[str, str], list[Exchange]] = {}
    for i, group in enumerate(prompts):
        for exchange, prompt in group:
            added = _added(observed, exchange, prompt)
            # A key of its own for each conversation is what such a field is for; within one it must not vary.
            added |= {f"{name}/{i}": value for name, value in _cache_fields(exchange).items()}
            for place, text in (added | _changed_tools(observed, exchange, prompt)).items():
                stamped.setdefault((place, text), []).append(exchange)
            for place, text in added.items():
                addition = Addition(text, exchange, prompt, conversation=i)
                known = seen.setdefault(place, addition)
                if known.text != text:
                    return _varies(judging, observed, place, known, addition, n)
    if told := _tells_the_time(judging, observed, stamped, n):
        return told
    texts = sum(place.partition("/")[0] not in CACHE_FIELDS for place in seen)
    note = f"; constant additions in {texts} places (see CON-01)" if texts else ""
    return judging.passes(f"nothing that varies is added in {n} requests of two conversations{note}", n)


def _added(observed: Observed, exchange: Exchange, prompt: UpstreamPrompt) -> dict[str, str]:
    """What stands upstream beyond the client's own, by place; nothing where a text of the client's is missing.

    Where a text was re-written its rest looks like an addition and is none.
    """
    client = parse_prompt(observed.entry.path, exchange.request, join=False)
    assert client is not None, "the suite's own request has messages"
    differences = content_differences(client, prompt)
    if any(d.code == "text-dropped" for d in differences):
        return {}
    return {d.where: d.text for d in differences if d.code == "text-added"}


def _changed_tools(observed: Observed, exchange: Exchange, prompt: UpstreamPrompt) -> dict[str, str]:
    """What looks like a time in tool definitions that arrive changed, unless the client sent it, by place."""
    client = parse_prompt(observed.entry.path, exchange.request, join=False)
    assert client is not None, "the suite's own request has messages"
    changed = [d for d in content_differences(client, prompt) if d.code == "schema-changed"]
    new = {d.where: " ".join(s for s in stamps(d.got) if s not in d.sent) for d in changed}
    return {place: text for place, text in new.items() if text}


def _tells_the_time(
    judging: Judging, observed: Observed, stamped: dict[tuple[str, str], list[Exchange]], n: int
) -> Verdict | None:
    """The verdict on additions that did not vary while they were watched, and would later: times and dates.

    Proven where a text that is not the client's names the very minute of all of its requests.
    """
    doubtful: tuple[str, str] | None = None
    for (place, text), exchanges in stamped.items():
        where = place.partition("/")[0]
        where = f"the field {where}" if where in CACHE_FIELDS else where
        ends = (exchanges[0], exchanges[-1])
        now = [names_the_minute(text, e.sent_at, e.seconds) for e in ends]
        if now[0] is not None and now[0] == now[1]:
            at = text.find(now[0])
            head = "…" if at > _AROUND else ""
            before = head + mask(text[max(0, at - _AROUND) : at + len(now[0]) + _AROUND], observed.own_text)
            return judging.says(
                Status.FAIL,
                f"the gateway adds the time of day: {where} has a text of its own that names the minute of "
                "its requests",
                n,
                code="clock",
                change=Change(where, at, before, "(another text a minute later)", "clock"),
                ruled_out=("the client, because the time is in none of its requests",),
                excerpts=(evidence("a request with the time", exchanges[-1], observed),),
            )
        if stamps(text) or names_the_day(text, exchanges[0].sent_at):
            doubtful = doubtful or (where, mask(text[:_AROUND], observed.own_text))
    if doubtful is None:
        return None
    times = [e.sent_at for exchanges in stamped.values() for e in exchanges]
    return judging.undecided(
        f"the gateway adds a text to {doubtful[0]} that has the form of a date or time ({doubtful[1]}); in the "
        f"{max(times) - min(times):.0f} s it was watched it did not change, which says nothing of the next "
        "minute or day",
        n,
    )


def _cache_fields(exchange: Exchange) -> dict[str, str]:
    """The gateway's own values of fields that decide what may be shared."""
    record = own_record(exchange)
    body = record.json if record is not None else None
    if not isinstance(body, dict):
        return {}
    return {name: str(body[name]) for name in CACHE_FIELDS if name in body and name not in exchange.request}


def _varies(
    judging: Judging,
    observed: Observed,
    place: str,
    one: Addition,
    two: Addition,
    n: int,
) -> Verdict:
    if place.partition("/")[0] in CACHE_FIELDS:
        place = f"the field {place.partition('/')[0]}"
    change = text_change(place, one.text, two.text, observed.own_text)
    same = one.conversation == two.conversation
    between = "from request to request of one conversation" if same else "from one conversation to the next"
    explained = (
        explain((one.exchange, one.prompt), (two.exchange, two.prompt), observed.own_text, observed.lab.tokens_per_byte)
        if same
        else None
    )
    if explained is not None and explained.change.kind == change.kind:
        change = _richer(change, explained.change)
    return judging.says(
        Status.FAIL,
        f"the gateway adds a text of its own that varies {between}: {change_line(change)}",
        n,
        code="varying-addition",
        change=change,
        tables=(explained.survival,) if explained else (),
        ruled_out=("the client, because the added text is in none of its requests",),
        excerpts=(evidence("a request with the addition", two.exchange, observed),),
    )


def _richer(change: Change, explained: Change) -> Change:
    return explained if explained.span is not None else change
