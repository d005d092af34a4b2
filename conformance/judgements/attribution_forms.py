"""PFX-03 to PFX-05: the attribution text is kept out in every form, nothing else is, and not towards Claude."""

from __future__ import annotations

import re
from dataclasses import replace

from conformance.diagnosis.divergence import ATTRIBUTION, first_difference, text_change
from conformance.diagnosis.explain import survival
from conformance.diagnosis.items import Request
from conformance.diagnosis.prompt import UpstreamPrompt, parse_prompt
from conformance.judgements.requests_table import probes_table
from conformance.judgements.translated import finding, gone, got, shown, speaks_messages, unseen
from conformance.judgements.verdict import Judging
from conformance.observe.observed import Observed
from conformance.observe.probe_texts import QUOTED_IN, attribution
from conformance.observe.translation_probes import AttributionForm, Translated
from conformance.verdicts import Change, Entry, Status, Table, Vantage, Verdict

_PAIR = re.compile(r"\bcc\w*=[^;\s]*")
"""One pair of the attribution text, wherever it ends up."""


def every_form_is_kept_out(observed: Observed) -> Verdict:
    """PFX-03: two requests that differ only in the attribution text's values have one prompt, whatever form it has."""
    judging = Judging("PFX-03", observed.entry, Vantage.UPSTREAM)
    forms = observed.translation.forms
    n = 2 * len(forms)
    seen = [form for form in forms if form.first.got is not None and form.second.got is not None]
    if any(speaks_messages(got(form.first)) for form in seen):
        return judging.says(
            Status.NOT_APPLICABLE, "the upstream speaks Anthropic Messages: there the text may mean something", n
        )
    left = [(form, change) for form in seen if (change := _left(form, observed)) is not None]
    rows = tuple((form.name, _word(form, [f for f, _ in left])) for form in forms)
    table = Table("the attribution text by form", ("form", "what becomes of it"), rows)
    if left:
        form, change = left[0]
        prompts = _prompt(form.first), _prompt(form.second)
        return finding(
            judging, observed, form.second, n, change,
            code="form-forwarded",
            says=f"{len(left)} of {len(forms)} forms reach the upstream prompt and vary there ({form.name})",
            tables=(table, survival(*prompts, form.second.exchange.usage.prompt, observed.lab.tokens_per_byte)),
            ruled_out=("everything else, because both requests are the same but for the values in that text",),
        )  # fmt: skip
    arrived = [form for form in seen if _kept(form)]
    if len(arrived) < len(forms):
        missing = next(form for form in forms if form not in arrived)
        if (silent := unseen(judging, missing.first, missing.second)) is not None:
            return silent
        return judging.undecided(
            f"the system text beside it does not arrive ({missing.name}; see PFX-04 and CON-01)", n, tables=(table,)
        )
    return judging.passes(
        f"none of {len(forms)} forms varies the prompt, and the text beside it arrives", n, tables=(table,)
    )


def _word(form: AttributionForm, left: list[AttributionForm]) -> str:
    if form in left:
        return "varies in the prompt"
    if form.first.got is None or form.second.got is None:
        return "not seen upstream"
    return "kept out" if _kept(form) else "gone, and the text beside it too"


def _kept(form: AttributionForm) -> bool:
    return all(_carries(probe, form.kept) for probe in (form.first, form.second))


def _carries(probe: Translated, text: str) -> bool:
    return probe.got is not None and probe.got.find(text) is not None


def _prompt(probe: Translated) -> UpstreamPrompt:
    assert probe.record is not None
    prompt = parse_prompt(probe.record.path, probe.record.json)
    assert prompt is not None
    return prompt


def _left(form: AttributionForm, observed: Observed) -> Change | None:
    """What of the attribution text still varies upstream, in the client's own terms; None when nothing does."""
    texts = [_system(got(probe)) for probe in (form.first, form.second)]
    # Only the text's own pairs are compared: a gateway that adds something varying itself is PFX-13's.
    if _PAIR.findall(texts[0]) == _PAIR.findall(texts[1]):
        return None
    change = text_change("system text", texts[0], texts[1], observed.own_text, "attribution block")
    sent = form.first.sent.items[0]
    start = texts[0].find(sent.text)
    if start < 0:
        return change
    at = change.offset - start
    part = sent.place if form.first.sent.items[1].kind == "system" else "system"
    span = (change.span[0] - start, change.span[1] - start) if change.span else None
    return replace(change, part=part, offset=at, span=span)


def _system(request: Request) -> str:
    return "\n".join(item.text for item in request.of("system"))


def only_that_is_removed(observed: Observed) -> Verdict:
    """PFX-04: the same text anywhere but at the head of the system arrives, and so does what stands behind it there."""
    judging = Judging("PFX-04", observed.entry, Vantage.UPSTREAM)
    probes = [observed.translation.plain]
    if silent := unseen(judging, *probes):
        return silent
    request = got(probes[0])
    away = [place for place in QUOTED_IN if not _around(request, place)]
    for place, text in QUOTED_IN.items():
        if request.find(text) is None and place not in away:
            left = _instead(request, place, observed)
            return finding(
                judging, observed, probes[0], 1,
                _quotation_gone(probes[0], text, left),
                code="quote-removed",
                says=f"the attribution text quoted in {place} is removed",
                ruled_out=("a dropped message, because the text around the quotation arrives",),
            )  # fmt: skip
    if away:
        return judging.undecided(f"the text around the quotation in {away[0]} does not arrive either (see CON-01)", 1)
    n = 1
    forms = observed.translation.forms if observed.entry is Entry.MESSAGES else ()
    judging.rests_on(probes_table([*probes, *(form.first for form in forms)]))
    for form in forms:
        n += 1
        if form.first.got is None or speaks_messages(form.first.got) or _carries(form.first, form.kept):
            continue
        return finding(
            judging, observed, form.first, n, gone("system", form.kept, "content dropped"),
            code="system-dropped",
            says=f"the system text goes with the attribution text ({form.name})",
            ruled_out=("the system prompt as such, because without that text at its head it arrives",),
        )  # fmt: skip
    return judging.passes(f"the text arrives in {', '.join(QUOTED_IN)}; the text behind it arrives too", n)


def _quotation_gone(probe: Translated, text: str, left: str) -> Change:
    """The change where the client's own request has the quotation."""
    found = probe.sent.find(text)
    assert found is not None, "the suite's own request has every quotation"
    at, offset = found
    change = gone(probe.sent.items[at].place, text, "content dropped", instead=left)
    return replace(change, offset=offset, span=(offset, offset + len(text) - 1))


def _instead(request: Request, place: str, observed: Observed) -> str:
    """What is left of the quotation in `place`, beside the words around it there."""
    around = request.find(_AROUND[place])
    assert around is not None
    item, start = request.items[around[0]], around[1]
    near = item.text[max(0, start - _NEAR) : start + _NEAR]
    at = near.find(ATTRIBUTION)
    return "(nothing)" if at < 0 else shown(near[at : at + 80], observed)


_AROUND = {
    "the middle of a system text": "You keep to the facts.",
    "a user message": "and three parts.",
    "an assistant message": "and call three tools.",
    "a tool result": "Result gamma, first half",
}
"""Words of the same text beside each quotation."""

_NEAR = 160
"""Characters on either side of those words in which the quotation stands."""


def _around(request: Request, place: str) -> bool:
    """True when the text around a quotation arrived."""
    return request.find(_AROUND[place]) is not None


def native_system_is_left_alone(observed: Observed) -> Verdict:
    """PFX-05: an upstream that speaks Messages gets the system blocks as they came."""
    judging = Judging("PFX-05", observed.entry, Vantage.UPSTREAM)
    probe = observed.translation.native
    if probe is None:
        return judging.not_run(
            "needs a channel whose upstream speaks Anthropic Messages, with the recorder in front of it"
        )
    if silent := unseen(judging, probe):
        return silent
    if not speaks_messages(got(probe)):
        return judging.not_run("needs a channel whose upstream speaks Anthropic Messages: this one is translated")
    sent = [item.text for item in probe.sent.of("system")]
    arrived = [item.text for item in got(probe).of("system")]
    if sent == arrived:
        return judging.passes(f"{len(sent)} system blocks arrive as they came, the attribution text among them", 1)
    at = next((i for i, (a, b) in enumerate(zip(sent, arrived, strict=False)) if a != b), min(len(sent), len(arrived)))
    header = attribution("0a1b2", "d8c")
    if "".join(sent) == "".join("".join(arrived).split("\n")) or "".join(sent) == "".join(arrived):
        kind = "system blocks merged"
    elif header not in "".join(arrived):
        kind = "attribution block removed"
    else:
        kind = "content changed"
    before, after = (texts[at] if at < len(texts) else "(nothing)" for texts in (sent, arrived))
    offset = first_difference(before, after) or 0
    return finding(
        judging, observed, probe, 1, Change(f"system[{at}]", offset, before[:160], after[:160], kind),
        code="native-system-changed",
        says=f"{len(sent)} system blocks were sent to a Messages upstream, {len(arrived)} arrive",
    )  # fmt: skip
