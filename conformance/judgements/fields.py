"""CON-03, PFX-18, PFX-20: the members of a body beside its prompt - controls, cache and session keys, the model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from conformance.diagnosis.divergence import text_change
from conformance.judgements.translated import (
    finding,
    first_rendering_change,
    got,
    speaks_messages,
    unseen,
    varies_by_itself,
)
from conformance.judgements.verdict import Judging
from conformance.observe.observed import Observed
from conformance.observe.probe_bodies import CONTROLS, STOPS
from conformance.observe.probe_texts import SESSION_ID
from conformance.observe.translation_probes import Translated
from conformance.verdicts import Change, Entry, Status, Vantage, Verdict

_LIMITS = ("max_tokens", "max_completion_tokens")

_DEFAULTS: dict[str, tuple[Any, ...]] = {
    "temperature": (1,), "top_p": (1,), "top_k": (0, -1), "min_p": (0,), "n": (1,), "frequency_penalty": (0,),
    "presence_penalty": (0,), "repetition_penalty": (1,), "stop": ([],), "stop_sequences": ([],), "seed": (),
    "parallel_tool_calls": (True,), "tool_choice": ("auto",), "logit_bias": ({},),
}  # fmt: skip
"""Controls a gateway may not invent, and the values that say what leaving them out says (null always does)."""


def controls_are_mapped(observed: Observed) -> Verdict:
    """CON-03: what the client asked of the sampling arrives; what it did not ask is not asked.

    A gateway that refuses one of the probes is judged by the others, and passes only with all of them.
    """
    judging = Judging("CON-03", observed.entry, Vantage.UPSTREAM)
    t = observed.translation
    probes = (t.any_choice, *t.other_choices)
    silent = unseen(judging, *probes)
    problems: list[tuple[Translated, str, str, str, str]] = []
    for probe, name in zip(probes, ("any", "tool", "none", "left out"), strict=True):
        if probe.got is None:
            continue
        fields, native = got(probe).fields, speaks_messages(got(probe))
        if name == "any":
            request = probe.exchange.request
            asked = next((request[limit] for limit in _LIMITS if request.get(limit) is not None), None)
            problems += [(probe, *p) for p in _controls(fields, native, asked)]
            problems += [(probe, *p) for p in _top_k(probe, observed)]
        problems += [(probe, *p) for p in _choice(name, fields, native, bool(got(probe).tools))]
        if name == "left out":
            problems += [(probe, *p) for p in _invented(fields)]
    if not problems:
        words = (
            f"limits, sampling, stop sequences and tool choice arrive; none is invented{_without_top_k(t.any_choice)}"
        )
        return silent or judging.passes(words, len(probes))
    probe, name, sent, arrived, kind = problems[0]
    names = ", ".join(dict.fromkeys(problem[1] for problem in problems))
    return finding(
        judging, observed, probe, len(probes), Change(f"the field {name}", 0, sent, arrived, kind),
        code=f"control-{kind.split()[-1]}",
        says=f"{len(problems)} control fields are not as the client asked ({names})",
    )  # fmt: skip


Problem = tuple[str, str, str, str]


def _controls(fields: Mapping[str, Any], native: bool, asked: Any) -> Iterable[Problem]:
    limit = next((fields[name] for name in _LIMITS if fields.get(name) is not None), None)
    expected: dict[str, tuple[Any, Any]] = {"max_tokens": (asked, limit)}
    for name in ("temperature", "top_p"):
        expected[name] = (CONTROLS[name], fields.get(name))
    stop = fields.get("stop_sequences" if native else "stop")
    expected["stop"] = (STOPS, stop)
    for name, (sent, arrived) in expected.items():
        if arrived != sent:
            yield name, str(sent), _said(arrived), "field dropped" if arrived is None else "value changed"


def _top_k(probe: Translated, observed: Observed) -> Iterable[Problem]:
    """A Messages client's `top_k`: no parameter of OpenAI's, which refuses what it does not know, but one of vLLM's."""
    sent = probe.exchange.request.get("top_k")
    arrived = got(probe).fields.get("top_k")
    if sent is None or arrived == sent:
        return
    if arrived is not None:
        yield "top_k", str(sent), _said(arrived), "value changed"
    elif speaks_messages(got(probe)) or observed.engine.has_top_k:
        yield "top_k", str(sent), _said(arrived), "field dropped"


def _without_top_k(probe: Translated) -> str:
    """What a pass says of a `top_k` that does not arrive, where the engine is not known to take one."""
    sent = probe.exchange.request.get("top_k")
    if sent is None or probe.got is None or got(probe).fields.get("top_k") == sent:
        return ""
    return "; top_k does not: the engine is not known to take it on its chat endpoint, as vLLM does"


def _choice(name: str, fields: Mapping[str, Any], native: bool, has_tools: bool) -> Iterable[Problem]:
    arrived = fields.get("tool_choice")
    if native:
        wanted: tuple[Any, ...] = {
            "any": ({"type": "any", "disable_parallel_tool_use": True},), "none": ({"type": "none"},),
            "tool": ({"type": "tool", "name": "ask_owner"},), "left out": (None, {"type": "auto"}),
        }[name]  # fmt: skip
    else:
        wanted = {
            "any": ("required",), "none": ("none",), "left out": (None, "auto"),
            "tool": ({"type": "function", "function": {"name": "ask_owner"}},),
        }[name]  # fmt: skip
        if not has_tools:
            return  # chat upstreams refuse a choice among no tools; that they are gone is CON-01's
        if name == "any" and fields.get("parallel_tool_calls") is not False:
            yield "parallel_tool_calls", "False", _said(fields.get("parallel_tool_calls")), "field dropped"
    if arrived not in wanted:
        yield (
            "tool_choice",
            f"{name}, i.e. {wanted[0]}",
            _said(arrived),
            "field dropped" if arrived is None else "value changed",
        )


def _invented(fields: Mapping[str, Any]) -> Iterable[Problem]:
    for name, same in _DEFAULTS.items():
        value = fields.get(name)
        if value is None or name == "tool_choice":
            continue
        if value not in same:
            yield name, "(not sent)", _said(value), "value invented"


def _said(value: Any) -> str:
    return "(nothing)" if value is None else str(value)[:80]


def cache_keys_are_forwarded(observed: Observed) -> Verdict:
    """PFX-18: what tells an upstream's cache or router where a request belongs arrives, where its dialect has it."""
    judging = Judging("PFX-18", observed.entry, Vantage.UPSTREAM)
    probe = observed.translation.any_choice
    if silent := unseen(judging, probe):
        return silent
    missing: list[tuple[Translated, str, str]] = []
    if observed.entry is Entry.CHAT:
        # A gateway may write its own tenant in front of a key: what counts is that there is one.
        gone = (name for name in ("prompt_cache_key", "cache_salt") if got(probe).fields.get(name) is None)
        missing += [(probe, name, str(probe.sent.fields[name])) for name in gone]
    elif not _names_session(probe):
        missing.append((probe, "metadata.user_id", "the session's id"))
    native = observed.translation.native if observed.entry is Entry.MESSAGES else None
    n = 1
    if native is not None and native.got is not None and speaks_messages(native.got):
        n = 2
        marks = (
            [(native.exchange.body or b"").count(b"cache_control"), native.record.body.count(b"cache_control")]
            if native.record is not None
            else [0, 0]
        )
        if marks[1] < marks[0]:
            missing.append((native, "cache_control", f"{marks[0]} marks"))
    if not missing:
        kept = (
            "cache key, salt"
            if observed.entry is Entry.CHAT
            else "the session's id" + (", cache marks" if n == 2 else "")
        )
        return judging.passes(f"{kept} arrive", n)
    where, name, sent_text = missing[0]
    arrived = "fewer marks" if name == "cache_control" else _said(got(where).fields.get(name))
    return finding(
        judging, observed, where, n, Change(f"the field {name}", 0, sent_text, arrived, "field dropped"),
        code="cache-key-dropped",
        says="the upstream is not told what the client said of its cache or session",
    )  # fmt: skip


def _names_session(probe: Translated) -> bool:
    """True when the session's id reaches the upstream in any field besides the messages, or in a header."""
    assert probe.record is not None
    return SESSION_ID in str(got(probe).fields) or any(SESSION_ID in value for value in probe.record.headers.values())


def an_alias_is_only_a_name(observed: Observed) -> Verdict:
    """PFX-20: under an alias and under the upstream's own name, one request has one body but for the model."""
    judging = Judging("PFX-20", observed.entry, Vantage.UPSTREAM)
    probes = observed.translation.real_name
    if probes is None:
        return judging.says(
            Status.NOT_APPLICABLE,
            f"{observed.lab.wire.model!r} is the upstream's own name of the model: there is no alias",
            1,
        )
    alias, again, real = probes
    if silent := unseen(judging, alias, again):
        return silent
    if real.got is None:
        return judging.says(
            Status.NOT_APPLICABLE,
            f"the gateway does not offer the model by its upstream name ({real.exchange.error or 'nothing arrived'})",
            3,
        )
    if unclear := varies_by_itself(judging, observed):
        return unclear
    bodies = [_fields(probe) for probe in probes]
    if bodies[0] != bodies[1]:
        return judging.undecided("one request sent twice already gives two bodies (see PFX-14)", 3)
    change = first_rendering_change(got(alias), got(real), observed, "alias treated as another model")
    if bodies[0] != bodies[2]:
        change = text_change("upstream body", bodies[0], bodies[2], observed.own_text, "alias treated as another model")
    if change is None:
        cached = real.exchange.usage.cached
        return judging.passes(
            "alias and real name give one upstream body but for the model"
            + (f"; the real name hit {cached:,} tokens the alias had sent" if cached else ""), 3,
        )  # fmt: skip
    return finding(
        judging, observed, real, 3, change,
        code="alias-differs",
        says="the same request under the alias and under the real name gives two bodies",
        ruled_out=("chance, because the alias sent twice gives one body",),
    )  # fmt: skip


def _fields(probe: Translated) -> str:
    """The members besides prompt and model, as JSON."""
    fields = got(probe).fields
    return json.dumps({name: fields[name] for name in fields if name != "model"}, ensure_ascii=False)
