"""What the judgements of translation probes share: could the probe be seen, and how a finding is written down."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.diagnosis.divergence import text_change
from conformance.diagnosis.items import Item, Request
from conformance.diagnosis.literal import loads_or_none, value_difference
from conformance.diagnosis.prompt import Dialect
from conformance.judgements.requests_table import probes_table
from conformance.judgements.verdict import Judging, evidence
from conformance.masks import mask
from conformance.observe.observed import Observed
from conformance.observe.translation_probes import Translated
from conformance.report.wording import change_line
from conformance.verdicts import Change, Status, Table, Verdict

SHOWN = 120
"""Characters of a text in a report."""


def unseen(judging: Judging, *probes: Translated) -> Verdict | None:
    """Why a rule cannot be judged by these probes, as a verdict; None when all of them reached the recorder."""
    n = len(probes)
    judging.rests_on(probes_table(probes))
    for probe in probes:
        if probe.refused:
            return judging.undecided(f"the gateway refuses such a request: {probe.exchange.error}", n)
        if probe.got is None:
            return judging.undecided(
                f"the probe did not reach the recorder: {probe.exchange.error or 'answered without it'}", n
            )
    return None


def got(probe: Translated) -> Request:
    """The upstream request of a probe that `unseen` let through."""
    assert probe.got is not None
    return probe.got


def finding(
    judging: Judging,
    observed: Observed,
    probe: Translated,
    n: int,
    change: Change,
    *,
    code: str,
    says: str = "",
    tables: Sequence[Table] = (),
    ruled_out: Sequence[str] = (),
) -> Verdict:
    """A failure with the change that shows it and the request it was seen in."""
    return judging.says(
        Status.FAIL,
        f"{says}: {change_line(change)}" if says else change_line(change),
        n,
        code=code,
        change=change,
        tables=tables,
        ruled_out=ruled_out,
        excerpts=(evidence("probe", probe.exchange, observed),),
    )


def shown(text: str, observed: Observed) -> str:
    """The head of a text, masked where the suite did not send it."""
    return mask(text[:SHOWN], observed.own_text) or "(nothing)"


def gone(place: str, text: str, kind: str, *, instead: str = "(nothing)", field: str = "") -> Change:
    """A text of the suite's own that is not where it should be."""
    return Change(place, 0, text[:SHOWN], instead, kind, field)


def changed_text(place: str, before: str, after: str, observed: Observed, kind: str = "") -> Change:
    """The first difference between a text as it was and as it came."""
    return text_change(place, before, after, observed.own_text, kind)


def first_rendering_change(before: Request, after: Request, observed: Observed, kind: str = "") -> Change | None:
    """The first place where two upstream requests would be rendered differently; None when they would not.

    Tools are compared by name and value: their order, and that of their keys, is PFX-09's and CON-04's.
    """
    return _tools_change(before, after, kind) or _messages_change(before, after, observed, kind)


def _tools_change(before: Request, after: Request, kind: str) -> Change | None:
    others = {tool.name: tool for tool in after.tools}
    for i, tool in enumerate(before.tools):
        other = others.get(tool.name)
        if other is None:
            return Change(f"tool {i} ({tool.name})", 0, tool.name, "(nothing)", kind or "tool dropped")
        found = value_difference(loads_or_none(tool.text), loads_or_none(other.text))
        if found is not None:
            field = f"the value of `{found.path}`"
            return Change(f"tool {i} ({tool.name})", 0, found.sent[:SHOWN] or "(nothing)",
                          found.got[:SHOWN] or "(nothing)", kind or found.kind, field)  # fmt: skip
    names = {tool.name for tool in before.tools}
    added = next((tool.name for tool in after.tools if tool.name not in names), None)
    return None if added is None else Change("tools", 0, "(nothing)", added, kind or "tool added")


def _messages_change(before: Request, after: Request, observed: Observed, kind: str) -> Change | None:
    a, b = before.rendering, after.rendering
    for x, y in zip(a, b, strict=False):
        if x == y:
            continue
        place = f"message {x[1]} ({x[0]})"
        if x[0] != y[0] or x[1] != y[1]:
            was, now = (f"{part[0]}: {shown(part[2], observed)}" for part in (x, y))
            return Change(place, 0, was, now, kind or "content moved")
        return changed_text(place, x[2], y[2], observed, kind)
    if len(a) != len(b):
        longer = a if len(a) > len(b) else b
        last = longer[min(len(a), len(b))]
        sides = (shown(last[2], observed), "(nothing)") if longer is a else ("(nothing)", shown(last[2], observed))
        return Change(f"message {last[1]} ({last[0]})", 0, *sides, kind or "content added or dropped")
    return None


def varies_by_itself(judging: Judging, observed: Observed) -> Verdict | None:
    """Why pairs of requests that differ in one thing prove nothing here: their prompts vary with anything.

    One request sent twice must give one prompt, and one turn more must leave the earlier messages alone.
    """
    t = observed.translation
    if silent := unseen(judging, t.plain, t.again, t.later):
        return silent
    plain, again, later = got(t.plain), got(t.again), got(t.later)
    if first_rendering_change(plain, again, observed) is not None or plain.fields != again.fields:
        return judging.undecided(
            "one request sent twice already gives two prompts or bodies (see PFX-13 and PFX-14)", 2
        )
    earlier = Request(later.dialect, later.items[: len(plain.items)], later.tools)
    if first_rendering_change(plain, earlier, observed) is not None or plain.fields != later.fields:
        return judging.undecided("another turn already changes what stands before it (see PFX-01 and PFX-13)", 3)
    return None


def same_call(request: Request, at: int) -> Item | None:
    """The call at a position among all calls of a request."""
    calls = request.of("tool call")
    return calls[at] if at < len(calls) else None


def speaks_messages(request: Request) -> bool:
    return request.dialect is Dialect.MESSAGES
