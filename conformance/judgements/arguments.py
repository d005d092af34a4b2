"""PFX-10 and CON-04: what becomes of tool-call arguments and schemas - their values, and the order of their keys."""

from __future__ import annotations

from conformance.diagnosis.literal import (
    Difference,
    loads_or_none,
    order_difference,
    spelling_difference,
    value_difference,
)
from conformance.judgements.translated import finding, got, same_call, shown, unseen
from conformance.judgements.verdict import Judging, upstream_prompts
from conformance.observe.observed import Observed
from conformance.observe.translation_probes import Translated
from conformance.verdicts import Change, Vantage, Verdict


def values_stay(observed: Observed) -> Verdict:
    """PFX-10: arguments keep their values, and are written the same way every time."""
    judging = Judging("PFX-10", observed.entry, Vantage.UPSTREAM)
    t = observed.translation
    probes = (t.plain, t.again, t.later)
    if silent := unseen(judging, *probes):
        return silent
    calls = t.plain.sent.of("tool call")
    if any([c.name for c in got(probe).of("tool call")][: len(calls)] != [c.name for c in calls] for probe in probes):
        return judging.undecided("the tool calls do not arrive as calls, in their order (see CON-01, CON-02)", 3)
    respelled: Difference | None = None
    for at, call in enumerate(calls):
        arrived = [same_call(got(probe), at) for probe in probes]
        if arrived[0] is None or arrived[0].name != call.name:
            return judging.undecided("the tool calls do not arrive as calls, in their order (see CON-02)", 3)
        sent, first = loads_or_none(call.text), loads_or_none(arrived[0].text)
        found = value_difference(sent, first)
        if found is not None:
            change = Change(
                arrived[0].place, 0, found.sent[:120], found.got[:120], found.kind, f"the value of `{found.path}`"
            )
            return finding(
                judging, observed, t.plain, 3, change,
                code="arguments-changed",
                says="a tool call's arguments arrive with another value",
                ruled_out=("spelling and key order, because the values themselves differ",),
            )  # fmt: skip
        for probe, again in zip(probes[1:], arrived[1:], strict=True):
            if again is None or again.text != arrived[0].text:
                text = again.text if again is not None else "(nothing)"
                which = "sent again" if probe is t.again else "one turn later"
                change = Change(
                    arrived[0].place, 0, shown(arrived[0].text, observed), shown(text, observed), "arguments re-spelled"
                )
                return finding(
                    judging, observed, probe, 3, change,
                    code="arguments-vary",
                    says=f"the same arguments are written differently {which}",
                    ruled_out=("the values, because they are the same in both",),
                )  # fmt: skip
        respelled = respelled or spelling_difference(sent, first)
    if not calls:
        return judging.undecided("no tool call was sent", 3)
    note = ""
    if respelled is not None:
        how = f"`{respelled.path}` {respelled.sent[:40]} as {respelled.got[:40]} ({respelled.kind})"
        note = f"; re-spelled alike each time: {how}"
    return judging.passes(f"the arguments of {len(calls)} calls keep their values in 3 requests{note}", 3)


def key_order_is_kept(observed: Observed) -> Verdict:
    """CON-04: tools, the keys of their schemas and the keys of arguments come in the order the client sent."""
    judging = Judging("CON-04", observed.entry, Vantage.UPSTREAM)
    probe, again = observed.translation.plain, observed.translation.again
    if silent := unseen(judging, probe, again):
        return silent
    if _tools_vary(observed, probe, again):
        return judging.undecided("the tools' order varies from request to request (see PFX-09)", 2)
    sent, arrived = probe.sent.tools, got(probe).tools
    names = [tool.name for tool in sent], [tool.name for tool in arrived if tool.name in {t.name for t in sent}]
    if len(names[1]) < 2:
        return judging.undecided("fewer than two of the tools arrive (see CON-01)", 2)
    if [name for name in names[0] if name in names[1]] != names[1]:
        change = Change("tools", 0, ", ".join(names[0]), ", ".join(names[1]), _sorted(names[1], "tools"))
        return finding(judging, observed, probe, 2, change, code="tools-sorted")
    found = None
    by_name = {tool.name: tool for tool in arrived}
    for tool in sent:
        if tool.name in by_name and (found := order_difference(tool.schema, by_name[tool.name].schema)):
            place = f"the schema of tool {tool.name}"
            break
    else:
        for at, call in enumerate(probe.sent.of("tool call")):
            other = same_call(got(probe), at)
            if other is not None and (found := order_difference(loads_or_none(call.text), loads_or_none(other.text))):
                place = other.place
                break
    if found is None:
        return judging.passes(
            f"{len(sent)} tools, their schemas' keys and the arguments' keys come in the client's order", 2
        )
    keys = loads_or_none(found.got)
    kind = _sorted(keys, "keys") if isinstance(keys, list) else found.kind
    change = Change(place, 0, found.sent[:120], found.got[:120], kind, f"the keys of `{found.path}`")
    return finding(
        judging, observed, probe, 2, change,
        code="keys-reordered",
        ruled_out=("chance, because a second request has the same order",),
    )  # fmt: skip


def _tools_vary(observed: Observed, *probes: Translated) -> bool:
    turns = [s.exchange for s in observed.arms.plain.new_turns if s.exchange is not None]
    sections = [[tool.text for tool in prompt.tools] for _, prompt in upstream_prompts(turns)]
    twice = [[tool.text for tool in got(probe).tools] for probe in probes]
    return any(section != group[0] for group in (sections, twice) for section in group)


def _sorted(names: list[str], what: str) -> str:
    return f"{what} sorted" if names == sorted(names) else f"{what} re-ordered"
