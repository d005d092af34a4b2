"""Which part of the requests varies: hashes of parts, from one request of a conversation to the next."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from conformance.forensics.request import Part, Request

FEWEST = 8
"""Fewer comparisons say nothing about a part."""

_CONVERSATIONS = 48
_PATHS = 200
_HASHES = 4_096
_KEPT_SHARE = 0.3
"""Clients that move files behind the history keep little more than half of it; strangers keep almost nothing."""


@dataclass
class PathSeen:
    """One place in the body over a stream: how many hashes it took, and how often it changed within a conversation."""

    path: str
    requests: int = 0
    pairs: int = 0
    changed: int = 0
    smallest: int = 0
    largest: int = 0
    bytes_sum: int = 0
    tokens_sum: int = 0
    counted: int = 0
    hashes: set[str] = field(default_factory=set, repr=False)
    fields: dict[str, list[int]] = field(default_factory=dict)
    """Name of a field -> [times compared, times changed]."""

    @property
    def distinct(self) -> int:
        """Different hashes, at least."""
        return len(self.hashes)

    @property
    def varies(self) -> bool:
        """Another content in nearly every request: within conversations where they can be followed, else overall."""
        if self.pairs >= FEWEST:
            return self.changed >= 0.9 * self.pairs
        return self.requests >= 2 * FEWEST and self.distinct >= 0.9 * min(self.requests, _HASHES)

    @property
    def stable(self) -> bool:
        """The same content from request to request, and few contents in all."""
        if self.requests < FEWEST:
            return False
        return self.changed <= 0.05 * self.pairs and self.distinct <= max(2, 0.25 * self.requests)

    def varying_fields(self) -> list[str]:
        """Names of the fields that change in nearly every comparison, in the order they stand in."""
        return [name for name, (pairs, changed) in self.fields.items() if pairs >= FEWEST and changed >= 0.9 * pairs]

    def steady_fields(self) -> list[str]:
        """Names of the fields that never changed."""
        return [name for name, (pairs, changed) in self.fields.items() if pairs >= FEWEST and not changed]


def is_front(path: str) -> bool:
    """True for what stands in front of a conversation: system text, tools, the first two messages."""
    return path.startswith(("system", "tools", "messages[0].", "messages[1]."))


class PartTable:
    """What the parts of one stream did. Memory does not grow with the number of requests."""

    def __init__(self) -> None:
        self.requests = 0
        self.retries = 0
        self.pairs = 0
        self.openings = 0
        """Requests that continue no conversation seen before."""
        self.history_changed = 0
        """Comparisons in which a message behind the front was altered or removed."""
        self.history_at: dict[str, int] = {}
        self.bytes = 0
        self.prompt = 0
        self.paths: dict[str, PathSeen] = {}
        self._last: OrderedDict[str, tuple[Part, ...]] = OrderedDict()
        self._known: OrderedDict[tuple[str, str], str] = OrderedDict()

    def add(self, request: Request) -> str:
        """One more request with parts, in the order of time. The name of the conversation it continues or opens.

        A request continues the one before it with the same first message, or the same first answer, when it has more
        message parts and keeps those that were there. Requests that share examples but append nothing open a
        conversation each.
        """
        label, before = self._place(request)
        self._last[label] = request.parts
        self._last.move_to_end(label)
        if len(self._last) > _CONVERSATIONS:
            self._last.popitem(last=False)
        if before is not None and _hashes(before) == _hashes(request.parts):
            self.retries += 1  # a client that sends a request again sends the same bytes: says nothing about parts
            return label
        self.requests += 1
        self.prompt += request.prompt
        self.bytes += sum(part.size for part in request.parts)
        for part in request.parts:
            if is_front(part.path):
                self._seen(part)
        if before is None:
            self.openings += 1
        else:
            self.pairs += 1
            self._compare(before, request.parts)
        return label

    def _place(self, request: Request) -> tuple[str, tuple[Part, ...] | None]:
        names = [("first message", request.session)] if request.session else []
        answer = next((part.sha for part in request.parts if part.role == "assistant"), "")
        if answer:
            names.append(("first answer", answer))
        label, before = "", None
        for name in names:
            known = self._known.get(name, "")
            last = self._last.get(known)
            if last is not None and (_hashes(last) == _hashes(request.parts) or _appended(last, request.parts)):
                label, before = known, last
                break
        label = label or f"{request.session}#{self.requests + self.retries}"
        for name in names:
            self._known[name] = label
            self._known.move_to_end(name)
        while len(self._known) > 4 * _CONVERSATIONS:
            self._known.popitem(last=False)
        return label, before

    @property
    def bytes_per_token(self) -> float:
        """Over whole requests; an estimate for one part."""
        return self.bytes / self.prompt if self.prompt and self.bytes else 4.0

    def tokens(self, path: str) -> float:
        """The mean length of a part in tokens: as counted by the capture, else from its bytes."""
        seen = self.paths[path]
        if seen.counted:
            return seen.tokens_sum / seen.counted
        return seen.bytes_sum / seen.requests / self.bytes_per_token

    def is_counted(self) -> bool:
        """True when the capture carries token counts for all parts in front."""
        return bool(self.paths) and all(seen.counted == seen.requests for seen in self.paths.values())

    def _seen(self, part: Part) -> None:
        seen = self.paths.get(part.path)
        if seen is None:
            if len(self.paths) >= _PATHS:
                return
            seen = self.paths[part.path] = PathSeen(part.path, smallest=part.size)
        seen.requests += 1
        seen.smallest = min(seen.smallest, part.size)
        seen.largest = max(seen.largest, part.size)
        seen.bytes_sum += part.size
        if part.tokens is not None:
            seen.tokens_sum += part.tokens
            seen.counted += 1
        if len(seen.hashes) < _HASHES:
            seen.hashes.add(part.sha)

    def _compare(self, before: tuple[Part, ...], after: tuple[Part, ...]) -> None:
        now = {part.path: part for part in after}
        altered = None
        for part in before:
            same = now.get(part.path)
            changed = same is None or same.sha != part.sha
            seen = self.paths.get(part.path) if is_front(part.path) else None
            if seen is not None:
                seen.pairs += 1
                seen.changed += changed
                if same is not None:
                    _compare_fields(seen, part, same)
            elif changed and altered is None:
                altered = part.path
        if altered is not None:
            self.history_changed += 1
            if altered in self.history_at or len(self.history_at) < _PATHS:
                self.history_at[altered] = self.history_at.get(altered, 0) + 1


def _compare_fields(seen: PathSeen, before: Part, after: Part) -> None:
    now = dict(after.fields)
    for name, sha in before.fields:
        counts = seen.fields.setdefault(name, [0, 0])
        counts[0] += 1
        counts[1] += now.get(name) != sha


def _appended(before: tuple[Part, ...], after: tuple[Part, ...]) -> bool:
    """True when `after` has more message parts, and most of those that were there before in their places."""
    old = {part.path: part.sha for part in before if part.path.startswith("messages")}
    new = {part.path: part.sha for part in after if part.path.startswith("messages")}
    kept = sum(new.get(path) == sha for path, sha in old.items())
    return len(new) > len(old) and kept >= _KEPT_SHARE * len(old)


def _hashes(parts: tuple[Part, ...]) -> list[tuple[str, str]]:
    return [(part.path, part.sha) for part in parts]
