"""PFX-14: is one client body one upstream body, and where two of them differ, does that cost anything?"""

from __future__ import annotations

from conformance.diagnosis.divergence import prefix_change, text_change
from conformance.diagnosis.literal import difference, loads_or_none
from conformance.diagnosis.prompt import parse_prompt
from conformance.judgements.requests_table import numbered
from conformance.judgements.verdict import Judging, evidence
from conformance.observe.observed import Observed
from conformance.observe.records import own_record
from conformance.report.wording import change_line
from conformance.verdicts import Change, Status, Table, Vantage, Verdict
from conformance.wire.exchange import UpstreamRecord

CACHE_FIELDS = ("cache_salt", "prompt_cache_key", "mm_processor_kwargs")
"""Members beside the prompt that decide what a request may share with others."""

_NO_TOKENS = "No cached token here, for the prompt is the same; "
_OUTSIDE = f"{_NO_TOKENS}but a body that varies by itself cannot be replayed or compared, and hides the next fault."


def identical_requests_give_identical_bodies(observed: Observed) -> Verdict:
    """PFX-14: one client body, sent again and again, is one upstream body."""
    judging = Judging("PFX-14", observed.entry, Vantage.UPSTREAM)
    exchanges = observed.identical
    records = [record for e in exchanges if (record := own_record(e)) is not None]
    bodies = [record.body for record in records]
    if len(bodies) < len(exchanges) // 2:
        return judging.undecided(
            f"only {len(bodies)} of {len(exchanges)} identical requests reached the recorder (a response cache?)",
            len(exchanges),
        )
    names = numbered("body", bodies)
    rows = tuple((i, len(body), name) for i, (body, name) in enumerate(zip(bodies, names, strict=True), 1))
    table = Table("upstream bodies", ("request", "bytes", "which body"), rows)
    if len(set(bodies)) == 1:
        return judging.passes(f"{len(bodies)} identical requests, one upstream body", len(bodies), tables=(table,))
    at = next(i for i in range(1, len(bodies)) if bodies[i] != bodies[0])
    change, where, cost = body_change(records[0], records[at], observed)
    return judging.says(
        Status.FAIL,
        f"{len(bodies)} identical requests were sent upstream as {len(set(bodies))} different bodies{where}",
        len(bodies),
        code="bodies-vary",
        tables=(table,),
        change=change,
        excerpts=(evidence(f"identical request {at + 1}", exchanges[at], observed),),
        cost=cost,
    )


def body_change(one: UpstreamRecord, two: UpstreamRecord, observed: Observed) -> tuple[Change, str, str]:
    """The first difference of two bodies; where it is, and what it costs, in words, where it is not in the prompt."""
    change = _bytes_change(one.body, two.body, observed)
    prompts = [parse_prompt(record.path, record.json) for record in (one, two)]
    if prompts[0] is None or prompts[1] is None:
        return change, "", ""
    if prompts[0] != prompts[1]:
        own = observed.own_text
        told = prefix_change(prompts[0], prompts[1], own) or prefix_change(prompts[1], prompts[0], own)
        return (told, f": {change_line(told)}", "") if told is not None else (change, "", "")
    found = difference(loads_or_none(one.body), loads_or_none(two.body))
    if found is None or found.same_value:
        return change, ": the prompt and all values are the same, their spelling or order differs", _OUTSIDE
    member = found.path.partition(".")[0].partition("[")[0]
    if member in CACHE_FIELDS:
        return change, f": the prompt is the same, what differs is `{found.path}`", ""
    if member in ("messages", "tools", "system"):
        return change, f": the prompt's texts are the same, what differs is `{found.path}`", _OUTSIDE
    return change, f": the prompt is the same, what differs is outside it, in `{found.path}`", _OUTSIDE


def _bytes_change(before: bytes, after: bytes, observed: Observed) -> Change:
    return text_change(
        "upstream body", before.decode("utf-8", "replace"), after.decode("utf-8", "replace"), observed.own_text
    )
