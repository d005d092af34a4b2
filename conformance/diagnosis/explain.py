"""The whole story of a changed prefix: where in the client's own text, what kind, what survives, what it is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from conformance.diagnosis.divergence import field_name, first_difference, prefix_change, varying_word
from conformance.diagnosis.prompt import Part, UpstreamPrompt, parse_prompt
from conformance.verdicts import Change, Table
from conformance.wire.exchange import Exchange

Own = Callable[[str], bool]


@dataclass(frozen=True)
class Explanation:
    """`change` in the client's coordinates where its text is there verbatim; `survival` by template order."""

    change: Change
    survival: Table
    ruled_out: tuple[str, ...]


def explain(
    earlier: tuple[Exchange, UpstreamPrompt], later: tuple[Exchange, UpstreamPrompt], own: Own, tokens_per_byte: float
) -> Explanation | None:
    """Why `earlier`'s upstream prompt is no prefix of `later`'s, or None when it is one."""
    before, after = earlier[1], later[1]
    change = prefix_change(before, after, own)
    if change is None:
        return None
    sent = [parse_prompt(exchange.entry.path, exchange.request, join=False) for exchange, _ in (earlier, later)]
    if sent[0] is not None and sent[1] is not None:
        change = _hoisted(change, before, after, sent[0], sent[1])
        change = _in_client_terms(change, before, after, sent[0])
    table = survival(before, after, later[0].usage.prompt, tokens_per_byte)
    return Explanation(change, table, _ruled_out(change, before, after, sent))


TURNS_A_DAY = 1_000
"""Of one team: the incident's sent 451 requests in a day on one entry of one model."""

_LEAST_IN_MILLIONS = 500_000


def survival(before: UpstreamPrompt, after: UpstreamPrompt, prompt_tokens: int | None, tokens_per_byte: float) -> Table:
    """How much of the later prompt the earlier one still begins, for both orders chat templates have.

    In tokens where the target reports them, by the rate measured for the suite's text; what a template puts in front
    of both prompts survives in either order. In characters where it does not.
    """
    unit = "tokens" if prompt_tokens else "characters"
    rows = []
    for name, order in (("tools first", (0, 1, 2)), ("system text first", (1, 0, 2))):
        texts = ["\n".join(_sections(prompt)[i] for i in order) for prompt in (before, after)]
        at = first_difference(*texts)
        behind = len(texts[1]) - (len(texts[0]) if at is None else at)
        whole = prompt_tokens or len(texts[1])
        lost = min(whole, round(behind * tokens_per_byte) if prompt_tokens else behind)
        rows.append((name, whole - lost, lost, _rounded(lost * TURNS_A_DAY), f"{1 - lost / max(1, whole):.1%}"))
    return Table(
        f"what survives the change, in {unit}, by the order in which the template renders",
        ("template", "kept, about", "lost per turn", "a day of 1,000", "ceiling on the hit rate"),
        tuple(rows),
    )


def _rounded(number: int) -> str:
    """A large number in millions, one that would be next to none of them in full."""
    return f"{number / 1e6:,.1f} M" if number >= _LEAST_IN_MILLIONS else f"{number:,}"


def _sections(prompt: UpstreamPrompt) -> tuple[str, str, str]:
    head = 0
    while head < len(prompt.parts) and prompt.parts[head].kind == "system":
        head += 1
    return (
        "\n".join(tool.text for tool in prompt.tools),
        "\n".join(part.text for part in prompt.parts[:head]),
        "\n".join(f"{part.kind}: {part.text}" for part in prompt.parts[head:]),
    )


def _hoisted(
    change: Change, before: UpstreamPrompt, after: UpstreamPrompt, first: UpstreamPrompt, second: UpstreamPrompt
) -> Change:
    """Names a change of the head that comes from a system message the client sent further down."""
    heads = [_sections(prompt)[1] for prompt in (before, after)]
    if heads[0] == heads[1]:
        return change
    known = {part.text for part in first.parts}
    own_head = next((i for i, part in enumerate(second.parts) if part.kind != "system"), len(second.parts))
    notes = (part for part in second.parts[own_head:] if part.kind == "system" and part.text not in known)
    note = next((part for part in notes if part.text in heads[1]), None)
    return change if note is None else replace(change, kind="system message hoisted", field=f"the text of {note.label}")


def _in_client_terms(change: Change, before: UpstreamPrompt, after: UpstreamPrompt, sent: UpstreamPrompt) -> Change:
    """The same place counted in the client's own part, where that stands in the upstream text verbatim."""
    at_part = next((i for i, part in enumerate(before.parts) if part.label == change.part), None)
    if at_part is None or at_part >= len(after.parts):
        return change
    found = origin(before.parts[at_part], change.offset, sent)
    if found is None:
        return change
    part, start = found
    at = change.offset - start
    first, end = varying_word(part.text, at)
    return replace(
        change,
        part=part.label,
        offset=at,
        field=field_name(part.text, first) or change.field,
        span=(first, end - 1) if change.span is not None else None,
    )


def origin(part: Part, at: int, sent: UpstreamPrompt) -> tuple[Part, int] | None:
    """The client's part that stands verbatim around character `at` of an upstream part, and where it begins there."""
    for own in sorted(sent.parts, key=lambda p: -len(p.text)):
        start = part.text.find(own.text) if own.text else -1
        while start >= 0:
            if start <= at < start + len(own.text):
                return own, start
            start = part.text.find(own.text, start + 1)
    return None


def _ruled_out(
    change: Change, before: UpstreamPrompt, after: UpstreamPrompt, sent: list[UpstreamPrompt | None]
) -> tuple[str, ...]:
    lines = []
    first, second = sent
    if first is not None and second is not None and prefix_change(first, second, lambda _: True) is None:
        lines.append("the client, because its own requests, compared part by part, only append")
    if before.tools and [t.text for t in before.tools] == [t.text for t in after.tools[: len(before.tools)]]:
        lines.append(f"the tools, because all {len(before.tools)} definitions arrive byte for byte alike, in one order")
    heads = [_sections(prompt)[1] for prompt in (before, after)]
    if heads[0] and heads[0] == heads[1]:
        lines.append(f"the system text, because its {len(heads[0]):,} characters are the same in both")
    if "re-ordered" in change.kind:
        lines.append("changed content, because both have the same members: only their order differs")
    elif change.kind in ("attribution block", "clock", "uuid or nonce"):
        lines.append("white space and order, because the text around the varying value is the same in both")
    return tuple(lines)
