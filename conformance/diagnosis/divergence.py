"""Where two upstream prompts that should agree first differ, and what kind of change that is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from conformance.diagnosis.prompt import Part, Tool, UpstreamPrompt
from conformance.verdicts import Change

ATTRIBUTION = "x-anthropic-billing-header:"
"""How Claude Code's attribution block begins (Claude Code's LLM gateway page)."""

_AROUND = 60

_KINDS = (
    ("attribution block", re.compile(r"cch=|" + re.escape(ATTRIBUTION))),
    ("clock", re.compile(r"\b\d{4}-\d\d-\d\d\b|\b\d{1,2}:\d\d(:\d\d)?\b|\b1[6-9]\d{8,17}\b")),
    ("uuid or nonce", re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-?[0-9a-f]*|\b[0-9a-f]{16,}\b")),
)


def mask(text: str, own: Callable[[str], bool]) -> str:
    """`text` as a report may show it: whole if the suite sent it, else its shape (letters a, digits 9)."""
    if own(text):
        return text
    return re.sub(r"[^\W\d_]", "a", re.sub(r"\d", "9", text))


def first_difference(a: str, b: str) -> int | None:
    """Index of the first differing character; None when one is the other."""
    if a == b:
        return None
    low, high = 0, min(len(a), len(b))
    while low < high:  # bisect by slices: comparing them is native code
        middle = (low + high + 1) // 2
        if a[:middle] == b[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def tools_change(a: Sequence[Tool], b: Sequence[Tool]) -> Change | None:
    """The first difference between two tool sections, or None."""
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x.text == y.text:
            continue
        if x.name != y.name:
            kind = "tools re-ordered" if {t.name for t in a} == {t.name for t in b} else "tools added or dropped"
            return Change(f"tool {i}", 0, x.name, y.name, kind)
        kind = "keys re-ordered" if x.value == y.value else "tool definition changed"
        at = first_difference(x.text, y.text) or 0
        return Change(f"tool {i} ({x.name})", at, _cut(x.text, at), _cut(y.text, at), kind)
    if len(a) != len(b):
        return Change(f"tool {min(len(a), len(b))}", 0, f"{len(a)} tools", f"{len(b)} tools", "tools added or dropped")
    return None


def prefix_change(earlier: UpstreamPrompt, later: UpstreamPrompt, own: Callable[[str], bool]) -> Change | None:
    """Why `earlier` is no prefix of `later`, or None when it is one."""
    return tools_change(earlier.tools, later.tools) or _parts_change(earlier.parts, later.parts, own)


def text_change(part: str, before: str, after: str, own: Callable[[str], bool]) -> Change:
    """The first difference between two texts that should be one."""
    at = first_difference(before, after) or 0
    return _change(part, at, before, after, _kind(before, after, at, ()), own)


def _change(part: str, at: int, before: str, after: str, kind: str, own: Callable[[str], bool]) -> Change:
    shown_before, shown_after = _shown(before, at, own), _shown(after, at, own)
    if shown_before == shown_after:
        shown_after += " (differs where it is masked)"
    return Change(part, at, shown_before, shown_after, kind)


def _parts_change(a: Sequence[Part], b: Sequence[Part], own: Callable[[str], bool]) -> Change | None:
    for i, x in enumerate(a):
        if i >= len(b):
            return Change(x.label, 0, _shown(x.text, 0, own), "(nothing)", "content dropped")
        y = b[i]
        if x.kind == y.kind and x.text == y.text:
            continue
        if x.kind != y.kind:
            kind = "content moved" if any(x.text == other.text for other in b) else "content added or dropped"
            return Change(
                x.label, 0, f"{x.kind}: {_shown(x.text, 0, own)}", f"{y.kind}: {_shown(y.text, 0, own)}", kind
            )
        at = first_difference(x.text, y.text) or 0
        return _change(x.label, at, x.text, y.text, _kind(x.text, y.text, at, b), own)
    return None


def _kind(before: str, after: str, at: int, later: Sequence[Part]) -> str:
    around = [before[max(0, at - 80) : at + 40], after[max(0, at - 80) : at + 40]]
    for kind, pattern in _KINDS:
        if all(pattern.search(text) for text in around):
            return kind
    if any(before == part.text for part in later):
        return "content moved"
    if before.split() == after.split():
        return "white space"
    if before in after or after in before:
        return "content added or dropped"
    return "text changed"


def _cut(text: str, at: int) -> str:
    start = max(0, at - _AROUND // 2)
    return ("…" if start else "") + text[start : at + _AROUND // 2] + ("…" if at + _AROUND // 2 < len(text) else "")


def _shown(text: str, at: int, own: Callable[[str], bool]) -> str:
    """The characters around `at`; what is not the suite's own text is masked piece by piece."""
    start, end = max(0, at - _AROUND // 2), at + _AROUND // 2
    pieces = re.split(r"(?<=[.;\n])", text[start:end])
    return ("…" if start else "") + "".join(mask(p, own) for p in pieces) + ("…" if end < len(text) else "")
