"""One scripted upstream usage, and every honest way to report it. Plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from conformance.scripting.chat import At
from conformance.wire.answers import object_of
from conformance.wire.exchange import Usage

Form = Literal["plain", "stream"]
FORMS: tuple[Form, Form] = ("plain", "stream")


class AnyCount:
    """Stands for every integer from 0 up."""

    def __repr__(self) -> str:
        return "any count"


ANY = AnyCount()
ABSENT = None
"""The field is left out or null."""

Allowed = int | AnyCount | None
Reading = Mapping[str, tuple[Allowed, ...]]
"""Field -> the values it may have together with the other fields of this reading; a field not named is not bound.

Messages: `input`, `read`, `created`, `output`. Chat: `prompt`, `cached`, `completion`, `reasoning`, `total`.
"""


def reading(**fields: Allowed | tuple[Allowed, ...]) -> Reading:
    """A reading; a single value stands for itself."""
    return {name: value if isinstance(value, tuple) else (value,) for name, value in fields.items()}


@dataclass(frozen=True, kw_only=True)
class UsageCase:
    """What the upstream reports, and what an honest gateway may make of it.

    No two cases have the same class: `shape` (which members the usage has), `kind` (how their values are), `at` (where
    in the answer) and `form`. `messages` and `chat` list all legitimate readings; empty: not judged on that entry.
    `native` is the same report as an upstream speaking Messages would give
    it, None where that dialect cannot say it. Authorities are keys of `rules.toml`.
    """

    name: str
    rule: str
    shape: str
    kind: str
    form: Form = "plain"
    at: At | None = None
    usages: tuple[Any, ...]
    messages: tuple[Reading, ...] = ()
    chat: tuple[Reading, ...] = ()
    authority: tuple[str, ...]
    why: str
    native: Mapping[str, Any] | None = None
    reasoning: bool = False  # the answer carries reasoning text too
    may_refuse: bool = False  # no upstream's schema allows it: refusing the whole answer is honest too
    control: str | None = None  # the case that must be right for this one to tell something; None: the form's sane one

    @property
    def position(self) -> str:
        """Where the usage stands in the answer."""
        return str(self.at) if self.at is not None else "in the answer"

    @property
    def klass(self) -> tuple[str, str, str, str]:
        """What no other case shares."""
        return self.shape, self.kind, self.position, self.form


def messages_fields(usage: Usage) -> dict[str, Any]:
    """The fields of a reading as a Messages client got them, whatever their type; None where absent or null."""
    raw = usage.raw
    return {
        "input": raw.get("input_tokens"),
        "read": raw.get("cache_read_input_tokens"),
        "created": raw.get("cache_creation_input_tokens"),
        "output": raw.get("output_tokens"),
    }


def chat_fields(usage: Usage) -> dict[str, Any]:
    """The fields of a reading as a chat client got them; cached tokens in OpenAI's place or else in DeepSeek's."""
    raw = usage.raw
    cached = object_of(raw.get("prompt_tokens_details")).get("cached_tokens")
    return {
        "prompt": raw.get("prompt_tokens"),
        "cached": raw.get("prompt_cache_hit_tokens") if cached is None else cached,
        "completion": raw.get("completion_tokens"),
        "reasoning": object_of(raw.get("completion_tokens_details")).get("reasoning_tokens"),
        "total": raw.get("total_tokens"),
    }


def is_integer(value: Any) -> bool:
    """True for a JSON integer."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_count(value: Any) -> bool:
    """True for a JSON integer from 0 up."""
    return is_integer(value) and bool(value >= 0)


def allows(values: Sequence[Allowed], got: Any) -> bool:
    """True when `got` is one of `values`; a float or string never is."""
    if got is None:
        return None in values
    if isinstance(got, bool) or not isinstance(got, int):
        return False
    return got in [v for v in values if not isinstance(v, AnyCount)] or (got >= 0 and any(v is ANY for v in values))


def fits(readings: Sequence[Reading], got: Mapping[str, Any], fields: Sequence[str]) -> bool:
    """True when one reading allows every one of `fields` that it binds."""
    return any(all(name not in r or allows(r[name], got[name]) for name in fields) for r in readings)
