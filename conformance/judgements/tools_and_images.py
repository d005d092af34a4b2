"""PFX-16 and PFX-17: deferred tools stay out of the static list; images arrive byte for byte."""

from __future__ import annotations

from dataclasses import replace

from conformance.judgements.translated import finding, got, speaks_messages, unseen
from conformance.judgements.verdict import Judging
from conformance.observe.observed import Observed
from conformance.verdicts import Change, Vantage, Verdict

_CONSTANT = (
    "No cached token, for the list is the same in every turn: its definitions' own tokens in each prompt, which the "
    "client deferred to save, and a model that is offered tools it was not meant to see yet."
)


def deferred_tools_stay_out(observed: Observed) -> Verdict:
    """PFX-16: a tool marked `defer_loading` is not in the list, and one that appears later moves no other."""
    judging = Judging("PFX-16", observed.entry, Vantage.UPSTREAM)
    before, after = observed.translation.deferred
    if silent := unseen(judging, before, after):
        return silent
    native = speaks_messages(got(before))
    static = [tool.name for tool in before.sent.tools if not tool.deferred]
    known = {tool.name for tool in after.sent.tools}  # what the gateway adds itself is CON-01's
    lists = [[t.name for t in got(p).tools if t.name in known and not (native and t.deferred)] for p in (before, after)]
    if [name for name in lists[0] if name in static] != static:
        return judging.undecided("the static tools do not arrive as sent (see CON-01 and CON-04)", 2)
    if [name for name in lists[1] if name in lists[0]] != lists[0]:
        return judging.undecided("the tools' order varies from request to request (see PFX-09)", 2)
    if any(lists[1][i : i + 1] != [name] for i, name in enumerate(lists[0])):
        change = Change("tools", 0, ", ".join(lists[0]), ", ".join(lists[1]), "tool inserted")
        return finding(
            judging, observed, after, 2, change,
            code="deferred-moves-others",
            says="a deferred tool appears in front of others",
            ruled_out=("re-ordering, because the tools both lists have come in one order",),
        )  # fmt: skip
    if lists[0] != static:
        change = Change("tools", 0, ", ".join(static), ", ".join(lists[0]), "deferred tool in the static list")
        found = finding(
            judging, observed, before, 2, change,
            code="deferred-in-list",
            says="tools marked defer_loading stand in the static list",
        )  # fmt: skip
        return replace(found, cost=_CONSTANT)
    tail = "" if lists[1] == lists[0] else "; a found tool is appended to the list, behind the others"
    return judging.passes(f"the static list has {len(static)} tools and no deferred one{tail}", 2)


def images_arrive_unchanged(observed: Observed) -> Verdict:
    """PFX-17: the pictures A, A, B arrive with the bytes they were sent with."""
    judging = Judging("PFX-17", observed.entry, Vantage.UPSTREAM)
    probe = observed.translation.images
    if silent := unseen(judging, probe):
        return silent
    sent = [item.text for item in probe.sent.of("image")]
    arrived = [item.text for item in got(probe).of("image")]
    if len(arrived) < len(sent):
        return judging.undecided("not every image arrives as an image (see CON-02)", 1)
    if any(not text.startswith("sha256:") for text in arrived):
        return judging.undecided("an image arrives as an address, whose bytes the recorder does not see", 1)
    if sorted(sent) == sorted(arrived):
        return judging.passes(f"{len(sent)} images arrive byte for byte", 1)
    at = next(i for i, text in enumerate(arrived) if text not in sent)
    alike = "the two equal pictures still are equal" if arrived[0] == arrived[1] else "two equal pictures differ now"
    place = got(probe).of("image")[at].place
    change = Change(place, 0, sent[min(at, len(sent) - 1)][:40], arrived[at][:40], "image bytes changed")
    return finding(
        judging, observed, probe, 1, change, code="image-changed", says=f"an image arrives with other bytes ({alike})"
    )
