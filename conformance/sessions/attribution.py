"""Claude Code's attribution text (`x-anthropic-billing-header: ...`): how its two derived fields follow from a body.

Nothing here rolls dice. `cch` is a function of the whole body, so a byte-identical retry carries the same one and any
change another; the suffix after the version is a function of the first user message's prompt, so it holds for a
session and differs per sub-agent and after compaction. The client's own hash functions are not known; SHA-256 has the
same two properties.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

import orjson

from .profile import ClientProfile

ATTRIBUTION_PREFIX: Final = "x-anthropic-billing-header:"
BLANK_CCH: Final = "00000"
"""Stands for `cch` while a body is hashed; also what a client sends that does not vary it (Claude Code 2.1.50)."""

_SUFFIX: Final = re.compile(r"(cc_version=[0-9.]+\.)[0-9a-f]{3}(?=;)")
_CCH: Final = re.compile(r"(;.*? cch=)[0-9a-f]{5};")


def attribution_text(profile: ClientProfile, prompt: str, cch: str = BLANK_CCH) -> str:
    """The attribution text of `profile`'s client for a conversation that starts with `prompt`.

    Raises ValueError for a client that sends none.
    """
    if profile.attribution is None:
        raise ValueError(f"{profile.client} {profile.version} sends no attribution text")
    return profile.attribution.form.format(
        version=profile.version, suffix=prompt_suffix(prompt), entrypoint=profile.entrypoint, cch=cch
    )


def prompt_suffix(prompt: str) -> str:
    """The three hex digits after the version: a function of the first user message's prompt text."""
    return hashlib.sha256(prompt.encode()).hexdigest()[:3]


def body_cch(body: dict[str, Any]) -> str:
    """The five hex digits of `cch`: a function of every byte of `body`, its own `cch` counted as blank."""
    return _digest(_with_fields(body, prompt_suffix(first_prompt(body)), BLANK_CCH))


def sealed(body: dict[str, Any]) -> dict[str, Any]:
    """`body` with the attribution text's fields derived anew, for a body that was changed after it was built.

    A client whose text has no `cch` has only its suffix derived. Only the system part is copied. A body without an
    attribution text comes back equal.
    """
    suffix = prompt_suffix(first_prompt(body))
    blank = _with_fields(body, suffix, BLANK_CCH)
    return _with_fields(blank, suffix, _digest(blank))


def first_prompt(body: dict[str, Any]) -> str:
    """The text the user typed first: the last text of the first message."""
    content = body["messages"][0]["content"]
    if isinstance(content, str):
        return content
    texts = [block["text"] for block in content if block.get("type") == "text"]
    return texts[-1] if texts else ""


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps(body)).hexdigest()[: len(BLANK_CCH)]


def _with_fields(body: dict[str, Any], suffix: str, cch: str) -> dict[str, Any]:
    system = body.get("system")
    if isinstance(system, str):
        return {**body, "system": _written(system, suffix, cch)}
    if isinstance(system, list) and system:
        first = {**system[0], "text": _written(system[0]["text"], suffix, cch)}
        return {**body, "system": [first, *system[1:]]}
    return body


def _written(text: str, suffix: str, cch: str) -> str:
    if not text.startswith(ATTRIBUTION_PREFIX):
        return text
    line, separator, rest = text.partition("\n")
    if found := _SUFFIX.search(line):
        line = line[: found.end(1)] + suffix + line[found.end() :]
    if found := _CCH.search(line):
        line = line[: found.end(1)] + cch + line[found.end() - 1 :]
    return line + separator + rest
