"""Where two upstream prompts that should agree first differ, and what kind of change that is."""

from __future__ import annotations

import re
from collections.abc import Sequence

from conformance.diagnosis.literal import difference, loads_or_none
from conformance.diagnosis.prompt import Part, Tool, UpstreamPrompt
from conformance.masks import Own, mask
from conformance.verdicts import Change

ATTRIBUTION = "x-anthropic-billing-header:"
"""How Claude Code's attribution block begins (Claude Code's LLM gateway page)."""

_AROUND = 60
_CONTEXT = 60
"""Characters on each side by which a text is told to be the suite's own, though the reader sees less of it."""

_KINDS = (
    ("attribution block", re.compile(r"cch=|cc_version=|" + re.escape(ATTRIBUTION))),
    ("clock", re.compile(r"\b\d{4}-\d\d-\d\d\b|\b\d{1,2}:\d\d(:\d\d)?\b|\b1[6-9]\d{8,17}\b")),
    ("uuid or nonce", re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-?[0-9a-f]*|\b[0-9a-f]{16,}\b")),
)

_FIELDS = (
    re.compile(r"([\w.-]+)=[^\s;,&\"'<>]*\Z"),
    re.compile(r"\"([\w.-]+)\"\s*:\s*\"?[^\s,}\]\"]*\Z"),
    re.compile(r"<([\w.-]+)>[^<>\n]*\Z"),
    re.compile(r"(?:\A|\n)[ \t]*([A-Z][\w -]{0,30}):[ \t]+[^\n]*\Z"),
)
"""How a text names the value that stands at its end: key=value, a JSON member, a tag, a line `Name: value`."""


def first_difference(a: str, b: str) -> int | None:
    """Index of the first differing character; None when they are the same."""
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


def varying_word(text: str, at: int) -> tuple[int, int]:
    """Half-open span of the letters and digits around a character; of that character alone where it is neither."""
    start = at
    while start > 0 and text[start - 1].isalnum() and text[start - 1].isascii():
        start -= 1
    end = at
    while end < len(text) and text[end].isalnum() and text[end].isascii():
        end += 1
    return (start, end) if end > start else (at, min(at + 1, len(text)))


def field_name(text: str, at: int) -> str:
    """What the value at `at` is called in its text, for a reader; "" when it has no name."""
    head = text[max(0, at - 120) : at]
    for pattern in _FIELDS:
        if found := pattern.search(head):
            return f"the value of `{found.group(1)}`"
    return ""


def tools_change(a: Sequence[Tool], b: Sequence[Tool], own: Own) -> Change | None:
    """The first difference between two tool sections, or None."""
    names = [t.name for t in a], [t.name for t in b]
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x.text == y.text:
            continue
        if x.name != y.name:
            return Change(f"tool {i}", 0, mask(x.name, own), mask(y.name, own), _list_kind(*names))
        kind = "keys re-ordered" if x.value == y.value else "tool definition changed"
        at = first_difference(x.text, y.text) or 0
        shown = _shown(x.text, at, own), _shown(y.text, at, own)
        return Change(f"tool {i} ({x.name})", at, *shown, kind, field_name(x.text, at), mark=_mark(x.text, at))
    if len(a) != len(b):
        return Change(f"tool {min(len(a), len(b))}", 0, f"{len(a)} tools", f"{len(b)} tools", _list_kind(*names))
    return None


def _list_kind(before: Sequence[str], after: Sequence[str]) -> str:
    if sorted(before) == sorted(after):
        return "tools re-ordered"
    if [name for name in after if name in before] == list(before):
        return "tool appended" if list(after[: len(before)]) == list(before) else "tool inserted"
    if [name for name in before if name in after] == list(after):
        return "tool dropped"
    return "tools exchanged"


def prefix_change(earlier: UpstreamPrompt, later: UpstreamPrompt, own: Own) -> Change | None:
    """Why `earlier` is no prefix of `later`, or None when it is one."""
    return tools_change(earlier.tools, later.tools, own) or _parts_change(earlier.parts, later.parts, own)


def ends_in_white_space(earlier: UpstreamPrompt, later: UpstreamPrompt) -> bool:
    """True when all that keeps `earlier` from being a prefix of `later` is white space at its very end.

    No block but the last, which is not full or ends the prompt, holds it: a later turn reuses all that stands before.
    """
    at = len(earlier.parts) - 1
    if at < 0 or len(later.parts) <= at or earlier.tools != later.tools or earlier.parts[:at] != later.parts[:at]:
        return False
    x, y = earlier.parts[at], later.parts[at]
    return x.kind == y.kind != "tool call" and x.text != y.text and x.text.rstrip() == y.text.rstrip()


def text_change(part: str, before: str, after: str, own: Own, kind: str = "") -> Change:
    """The first difference between two texts that should be one."""
    at = first_difference(before, after) or 0
    return _change(part, at, before, after, kind or _kind(before, after, at, ()), own)


def _change(part: str, at: int, before: str, after: str, kind: str, own: Own) -> Change:
    shown_before, shown_after = _shown(before, at, own), _shown(after, at, own)
    if shown_before == shown_after:
        shown_after += " (differs where it is masked)"
    name, span = "", None
    if kind in ("attribution block", "clock", "uuid or nonce", "text changed"):
        start, end = varying_word(before, at)
        name = field_name(before, start)
        span = (start, end - 1) if end > start else None
    return Change(part, at, shown_before, shown_after, kind, name, span, _mark(before, at))


def _parts_change(a: Sequence[Part], b: Sequence[Part], own: Own) -> Change | None:
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
        if x.kind == "tool call" and (change := _arguments_change(x, y, at, own)):
            return change
        return _change(x.label, at, x.text, y.text, _kind(x.text, y.text, at, b), own)
    return None


def _arguments_change(x: Part, y: Part, at: int, own: Own) -> Change | None:
    before, after = loads_or_none(x.text), loads_or_none(y.text)
    if before is None or after is None:
        return None
    found = difference(before, after)
    shown = _shown(x.text, at, own), _shown(y.text, at, own)
    if found is None:
        return Change(x.label, at, *shown, "arguments re-spelled")
    return Change(x.label, at, *shown, found.kind, f"the value of `{found.path}`")


def _kind(before: str, after: str, at: int, later: Sequence[Part]) -> str:
    around = [before[max(0, at - 80) : at + 40], after[max(0, at - 80) : at + 40]]
    for kind, pattern in _KINDS:
        if all(pattern.search(text) for text in around):
            return kind
    if any(before == part.text for part in later):
        return "content moved"
    if before.split() == after.split():
        return "white space"
    if after and before.startswith(after):
        return "content cut"
    if before in after or after in before:
        return "content added or dropped"
    return "text changed"


def _window(text: str, at: int) -> tuple[int, int]:
    """Half-open span of the characters around `at` that a reader sees."""
    return max(0, at - _AROUND // 2), min(len(text), at + _AROUND // 2)


def _mark(text: str, at: int) -> tuple[int, int]:
    """Where in what `_shown` returns the difference stands, up to the end of its word."""
    start, end = _window(text, at)
    lead = start - len("…" if start else "")
    return at - lead, max(at, min(varying_word(text, at)[1], end)) - lead


def _shown(text: str, at: int, own: Own) -> str:
    """The characters around `at`; what the suite did not send is masked, as its surroundings tell it."""
    start, end = _window(text, at)
    wide = max(0, start - _CONTEXT)
    around = mask(text[wide : end + _CONTEXT], own)
    return ("…" if start else "") + around[start - wide : end - wide] + ("…" if end < len(text) else "")
