"""The scripted part of a conversation, without a dialect: what the assistant answered and what came back."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from .filler import filler
from .profile import CallPart, ClientProfile
from .tool_definitions import compact

StepKind = Literal["text", "tool"]
FragmentKind = Literal[
    "tool", "attribution", "system", "user", "assistant", "tool_name", "tool_arguments", "tool_result"
]

LEAST_GROWTH: Final = 128
"""Bytes; the smallest step that holds a call's arguments or an answer, and something new after it."""

_ID_CHARACTERS: Final = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz0123456789"


class Fragment(NamedTuple):
    """One text a client sent. `tool` holds the definition's function object as compact JSON
    (`{"name", "description", "parameters"}`), `tool_arguments` the arguments as compact JSON."""

    kind: FragmentKind
    text: str


@dataclass(frozen=True, slots=True)
class TextStep:
    """A plain answer and the user's next question."""

    answer: str
    question: str

    @property
    def bytes(self) -> int:
        return len(self.answer) + len(self.question)


@dataclass(frozen=True, slots=True)
class ToolStep:
    """One tool call and its result. `is_error` is None where the client sends no such key."""

    call_id: str
    tool: str
    argument: str
    value: str
    result: str
    is_error: bool | None

    @property
    def arguments(self) -> dict[str, str]:
        return {self.argument: self.value}

    @property
    def bytes(self) -> int:
        return len(self.tool) + len(compact(self.arguments)) + len(self.result)


Step = TextStep | ToolStep


def next_step(
    seed: str, profile: ClientProfile, calls: tuple[CallPart, ...], number: int, kind: StepKind, n_bytes: int, ask: str
) -> Step:
    """The step that follows turn `number`, its texts exactly `n_bytes` together; `ask` ends the user's side of it.

    Raises ValueError for fewer bytes than `LEAST_GROWTH` and the length of `ask`.
    """
    least = LEAST_GROWTH + len(ask)
    if n_bytes < least:
        raise ValueError(f"a turn must grow by at least {least} bytes, got {n_bytes}")
    here = f"{seed}/turn{number}"
    if kind == "text":
        answer = n_bytes // 4
        return TextStep(filler(f"{here}/answer", answer), closing(f"{here}/question", n_bytes - answer, ask))
    call = calls[number % len(calls)]
    argument = {tool.name: tool.first_argument for tool in profile.tools}[call.tool] or "target"
    value = f"sed -n 1,{number}0p src/part{number}.py" if argument == "command" else f"/srv/project/src/part{number}.py"
    step = ToolStep(identifier(_call_prefix(profile), 24, here), call.tool, argument, value, "", call.is_error)
    return ToolStep(
        step.call_id, call.tool, argument, value, closing(f"{here}/result", n_bytes - step.bytes, ask), call.is_error
    )


def closing(seed: str, n_bytes: int, ask: str) -> str:
    """Filler of exactly `n_bytes` whose last line is `ask`."""
    if not ask:
        return filler(seed, n_bytes)
    return f"{filler(seed, n_bytes - len(ask) - 1)}\n{ask}"


def identifier(prefix: str, length: int, seed: str) -> str:
    """`prefix` and `length` letters and digits that follow from `seed`."""
    draws = hashlib.shake_128(f"id/{seed}".encode()).digest(length)
    return prefix + "".join(_ID_CHARACTERS[draw % len(_ID_CHARACTERS)] for draw in draws)


def _call_prefix(profile: ClientProfile) -> str:
    return "toolu_" if profile.dialect == "messages" else "call_"
