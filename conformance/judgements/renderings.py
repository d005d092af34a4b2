"""PFX-07, PFX-08, PFX-21: what must not change a prompt - a content's form, marks, an effort setting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.diagnosis.items import Request
from conformance.diagnosis.literal import loads_or_none
from conformance.judgements.translated import (
    changed_text,
    finding,
    first_rendering_change,
    gone,
    got,
    speaks_messages,
    unseen,
    varies_by_itself,
)
from conformance.judgements.verdict import Judging
from conformance.observe.observed import Observed
from conformance.observe.probe_texts import LONG_RESULT
from conformance.observe.translation_probes import Translated
from conformance.verdicts import Change, Vantage, Verdict

_EFFORT_FIELDS = (
    "reasoning_effort",
    "reasoning",
    "thinking",
    "output_config",
    "chat_template_kwargs",
    "enable_thinking",
)


def forms_render_alike(observed: Observed) -> Verdict:
    """PFX-07: a string and a list of one text block are the same text upstream."""
    judging = Judging("PFX-07", observed.entry, Vantage.UPSTREAM)
    if unclear := varies_by_itself(judging, observed):
        return unclear
    lists, strings = observed.translation.plain, observed.translation.strings
    if silent := unseen(judging, strings):
        return silent
    # The system text keeps its form through a session: only messages change theirs.
    one, two = (_messages_only(got(probe)) for probe in (lists, strings))
    change = first_rendering_change(one, two, observed, "string/list rendering")
    if change is None:
        texts = sum(item.kind not in ("tool call", "image") for item in two.items)
        return judging.passes(f"{texts} texts are rendered alike, sent as strings and as lists of one block", 3)
    return finding(
        judging, observed, strings, 3, change,
        code="form-changes-text",
        says="the same text, sent as a list of one block and as a string, becomes two texts",
        ruled_out=("chance, because the list form sent twice gives one prompt",),
    )  # fmt: skip


def _messages_only(request: Request) -> Request:
    return Request(request.dialect, tuple(item for item in request.items if item.kind != "system"), ())


def marks_do_not_leak(observed: Observed) -> Verdict:
    """PFX-08: cache marks and keys that are no text change neither the texts nor the tools' JSON."""
    judging = Judging("PFX-08", observed.entry, Vantage.UPSTREAM)
    if unclear := varies_by_itself(judging, observed):
        return unclear
    plain, marked = observed.translation.plain, observed.translation.marked
    if silent := unseen(judging, marked):
        return silent
    before, after = got(plain), got(marked)
    if before.dialect != after.dialect or marked.sent.dialect is after.dialect:
        # An upstream that speaks Messages has these keys; there only the texts are compared.
        before, after = (Request(r.dialect, r.items, ()) for r in (before, after))
    change = first_rendering_change(before, after, observed, "mark in the prompt")
    if change is not None:
        return finding(
            judging, observed, marked, 3, change,
            code="marks-leak",
            says="the prompt changes with the client's cache marks",
            ruled_out=("chance, because the request without marks, sent twice, gives one prompt",),
        )  # fmt: skip
    listed, _ = observed.translation.deferred
    change = _deferral_leak(listed)
    if change is not None:
        return finding(
            judging, observed, listed, 4, change, code="marks-leak", says="a tool's JSON carries the client's mark",
        )  # fmt: skip
    return judging.passes("the prompt is the same with marks and without", 3)


def _deferral_leak(probe: Translated) -> Change | None:
    """`defer_loading` inside a tool that an upstream without such a field is given; None where there is none."""
    if probe.got is None or probe.refused or speaks_messages(got(probe)):
        return None
    marked = {tool.name for tool in probe.sent.tools if tool.deferred}
    for i, tool in enumerate(got(probe).tools):
        path = _path_to("defer_loading", loads_or_none(tool.text)) if tool.name in marked else None
        if path is not None:
            place, field = f"tool {i} ({tool.name})", f"the value of `{path}`"
            return Change(place, 0, "(nothing)", "defer_loading", "mark in the prompt", field)
    return None


def _path_to(key: str, value: Any) -> str | None:
    """Where an object inside a JSON value has a member `key`, as `a.b.key`; None where none has."""
    if not isinstance(value, Mapping):
        return None
    if key in value:
        return key
    found = ((name, _path_to(key, member)) for name, member in value.items())
    return next((f"{name}.{path}" for name, path in found if path is not None), None)


def effort_is_mapped_constantly(observed: Observed) -> Verdict:
    """PFX-21: an effort setting leaves the messages alone, is mapped alike each time; old results stay whole."""
    judging = Judging("PFX-21", observed.entry, Vantage.UPSTREAM)
    low, high, later = observed.translation.thinking
    if silent := unseen(judging, low, high, later):
        return silent
    if cut := _cut_result(judging, observed, (low, high, later)):
        return cut
    if unclear := varies_by_itself(judging, observed):
        return unclear
    change = first_rendering_change(got(low), got(high), observed, "effort setting in the prompt")
    if change is not None:
        return finding(
            judging, observed, high, 3, change, code="effort-in-prompt", says="another effort gives another prompt",
        )  # fmt: skip
    fields = [_effort(got(probe).fields) for probe in (high, later)]
    if fields[0] != fields[1]:
        change = Change("body", 0, str(fields[0])[:120], str(fields[1])[:120], "effort mapped differently")
        return finding(
            judging, observed, later, 3, change, code="effort-varies", says="one effort is sent upstream in two ways",
        )  # fmt: skip
    return judging.passes(
        "an effort setting leaves the messages alone; a long tool result stays whole in later turns", 3
    )


def _effort(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fields[name] for name in _EFFORT_FIELDS if name in fields}


def _cut_result(judging: Judging, observed: Observed, probes: tuple[Translated, ...]) -> Verdict | None:
    for probe in probes:
        request = got(probe)
        if request.find(LONG_RESULT) is not None:
            continue
        head = next((item for item in request.items if LONG_RESULT[:40] in item.text), None)
        if head is None:
            change = gone("the long tool result", LONG_RESULT, "content dropped")
        else:
            change = changed_text(head.place, LONG_RESULT, head.text, observed, "content cut")
        return finding(
            judging, observed, probe, 3, change,
            code="result-truncated",
            says=f"a tool result of {len(LONG_RESULT):,} characters does not arrive whole",
        )  # fmt: skip
    return None
