"""The limit on an answer's length that a target insists on: its name, and the least it may be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from conformance.verdicts import Entry

MOST_LEAST = 4_096
"""The largest minimum of an answer's length that is accepted: more would cost more than it tells."""

_LEAST = re.compile(
    r"(?:at least|minimum(?: value)?(?: is| of)?|>=|greater than or equal to|no less than|不小于|至少)\D{0,12}(\d{1,6})"
)
_ABOVE = re.compile(r"(?:greater than|larger than|more than|above|>)\s*(?!or\b)\D{0,12}(\d{1,6})")


@dataclass(frozen=True)
class TokenLimit:
    """How a target takes the limit on an answer's length: under which name, and no lower than what."""

    name: str = "max_tokens"
    least: int = 1

    def applied(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The body with its `max_tokens`, if it has one, as the target takes it; its place among the keys stays."""
        value = body.get("max_tokens")
        if type(value) is not int or self == TokenLimit():
            return dict(body)
        return {
            (self.name if key == "max_tokens" else key): max(value, self.least) if key == "max_tokens" else item
            for key, item in body.items()
        }

    def after(self, entry: Entry, words: str) -> TokenLimit | None:
        """The limit that a refusal asks for in its own words; None when it asks for nothing that this one is not."""
        text = " ".join(words.split())
        asked = self
        if entry is Entry.CHAT and "max_completion_tokens" in text and self.name == "max_tokens":
            asked = replace(asked, name="max_completion_tokens")
        if re.search(r"max\w*tokens|output tokens", text, re.IGNORECASE) and (least := _least(text)) > asked.least:
            asked = replace(asked, least=least)
        return asked if asked != self else None

    def said(self, path: str) -> str:
        """What it means for the run's requests."""
        name = f"as {self.name}" if self.name != "max_tokens" else ""
        least = f"of {self.least} tokens or more" if self.least > 1 else ""
        return f"requests to {path} carry their limit on the answer {' '.join(filter(None, (name, least)))}"


def _least(text: str) -> int:
    for pattern, more in ((_LEAST, 0), (_ABOVE, 1)):
        if found := pattern.search(text):
            least = int(found.group(1)) + more
            return least if least <= MOST_LEAST else 0
    return 0
