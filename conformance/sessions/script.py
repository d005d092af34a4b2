"""The scripted part of a conversation, without a dialect: what the assistant answered and what came back."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from .filler import filler
from .profile import ClientProfile
from .profile_parts import CallPart
from .tool_definitions import compact

StepKind = Literal["text", "tool", "parallel"]
STEP_KINDS: Final = ("text", "tool", "parallel")
FragmentKind = Literal[
    "tool", "attribution", "system", "user", "assistant", "thinking", "tool_name", "tool_arguments", "tool_result"
]

LEAST_GROWTH: Final = 128
"""Bytes; the smallest step that holds a call's arguments or an answer, and something new after it."""

_LEAST_PARALLEL: Final = 2 * LEAST_GROWTH
_THINKING_SHARE: Final = 8
"""A step's thinking is this part of it, where a client sends thinking back."""

_ID_CHARACTERS: Final = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz0123456789"


class Fragment(NamedTuple):
    """One text a client sent. `tool` holds the definition's function object as compact JSON
    (`{"name", "description", "parameters"}`), `tool_arguments` the arguments as the client spells them."""

    kind: FragmentKind
    text: str


@dataclass(frozen=True, slots=True)
class TextStep:
    """A plain answer and the user's next question."""

    answer: str
    question: str
    thinking: str = ""

    @property
    def bytes(self) -> int:
        return len(self.thinking) + len(self.answer) + len(self.question)


@dataclass(frozen=True, slots=True)
class ToolStep:
    """One tool call and its result.

    `is_error` is None where the client sends no such key; `listed` where the result is a list of text blocks; `spaced`
    where the arguments keep the white space the model wrote.
    """

    call_id: str
    tool: str
    argument: str
    value: str
    result: str
    is_error: bool | None
    thinking: str = ""
    listed: bool = False
    spaced: bool = False

    @property
    def arguments(self) -> dict[str, str]:
        return {self.argument: self.value}

    @property
    def arguments_text(self) -> str:
        """The arguments as JSON text."""
        return json.dumps(self.arguments) if self.spaced else compact(self.arguments)

    @property
    def bytes(self) -> int:
        return len(self.thinking) + len(self.tool) + len(self.arguments_text) + len(self.result)


@dataclass(frozen=True, slots=True)
class ParallelStep:
    """Several tool calls in one answer; their results come back in order of completion, the last call's first."""

    calls: tuple[ToolStep, ...]

    @property
    def results(self) -> tuple[ToolStep, ...]:
        return self.calls[::-1]

    @property
    def bytes(self) -> int:
        return sum(call.bytes for call in self.calls)


@dataclass(frozen=True, slots=True)
class LoadStep:
    """A call of the tool that loads deferred tools: from here on they stand in the tool list. `note` follows its
    result, which names the tools; `tools_bytes` is what the list grows by."""

    call: ToolStep
    loaded: tuple[str, ...]
    note: str
    tools_bytes: int

    @property
    def bytes(self) -> int:
        return self.call.bytes + len(self.note) + self.tools_bytes


@dataclass(frozen=True, slots=True)
class NoteStep:
    """A text the client adds between turns, not asked for by anybody: role `system`, or `user` for an environment."""

    role: Literal["system", "user"]
    text: str

    @property
    def bytes(self) -> int:
        return len(self.text)


Step = TextStep | ToolStep | ParallelStep | LoadStep | NoteStep


def next_step(
    seed: str, profile: ClientProfile, calls: tuple[CallPart, ...], number: int, kind: StepKind, n_bytes: int, ask: str,
    *, thinking: bool = False,
) -> Step:  # fmt: skip
    """The step that follows turn `number`, its texts exactly `n_bytes` together; `ask` ends the user's side of it.

    Raises ValueError for fewer bytes than `LEAST_GROWTH` (twice that for a parallel step) and the length of `ask`.
    """
    least = (_LEAST_PARALLEL if kind == "parallel" else LEAST_GROWTH) + len(ask)
    if n_bytes < least:
        raise ValueError(f"a turn must grow by at least {least} bytes, got {n_bytes}")
    here = f"{seed}/turn{number}"
    if kind == "parallel":
        half = (n_bytes - len(ask)) // 2
        # The last call completes first, so the first call's result ends the message and carries what is asked.
        first = tool_step(f"{here}/a", profile, calls[number % len(calls)], number, n_bytes - half, ask)
        second = tool_step(f"{here}/b", profile, calls[(number + 1) % len(calls)], number, half, "")
        return ParallelStep((first, second))
    thought = filler(f"{here}/thinking", (n_bytes - least) // _THINKING_SHARE) if thinking else ""
    if kind == "tool":
        step = tool_step(here, profile, calls[number % len(calls)], number, n_bytes - len(thought), ask)
        return replace(step, thinking=thought) if thought else step
    n_bytes -= len(thought)
    answer = n_bytes // 4
    return TextStep(filler(f"{here}/answer", answer), closing(f"{here}/question", n_bytes - answer, ask), thought)


def tool_step(seed: str, profile: ClientProfile, call: CallPart, number: int, n_bytes: int, ask: str) -> ToolStep:
    """One call of a recorded tool and its result, exactly `n_bytes` of text together."""
    argument = next(tool.first_argument for tool in profile.tools if tool.name == call.tool) or "target"
    value = f"sed -n 1,{number}0p src/part{number}.py" if argument == "command" else f"/srv/project/src/part{number}.py"
    step = ToolStep(
        call_id=identifier(call_prefix(profile), 24, seed),
        tool=call.tool,
        argument=argument,
        value=value,
        result="",
        is_error=call.is_error,
        spaced=profile.forms.spaced_arguments,
    )
    return replace(step, result=closing(f"{seed}/result", n_bytes - step.bytes, ask))


def closing(seed: str, n_bytes: int, ask: str) -> str:
    """Filler of exactly `n_bytes` whose last line is `ask`."""
    if not ask:
        return filler(seed, n_bytes)
    return f"{filler(seed, n_bytes - len(ask) - 1)}\n{ask}"


def identifier(prefix: str, length: int, seed: str) -> str:
    """`prefix` and `length` letters and digits that follow from `seed`."""
    draws = hashlib.shake_128(f"id/{seed}".encode()).digest(length)
    return prefix + "".join(_ID_CHARACTERS[draw % len(_ID_CHARACTERS)] for draw in draws)


def call_prefix(profile: ClientProfile) -> str:
    """What the ids of tool calls begin with in the client's dialect."""
    return "toolu_" if profile.dialect == "messages" else "call_"


def fragments_of(step: Step) -> list[Fragment]:
    """The texts of a step in the order they are sent."""
    if isinstance(step, NoteStep):
        return [Fragment(step.role, step.text)]
    if isinstance(step, ParallelStep):
        called = [part for call in step.calls for part in _called(call)]
        return called + [Fragment("tool_result", call.result) for call in step.results]
    thought = [] if isinstance(step, LoadStep) or not step.thinking else [Fragment("thinking", step.thinking)]
    if isinstance(step, TextStep):
        return [*thought, Fragment("assistant", step.answer), Fragment("user", step.question)]
    if isinstance(step, LoadStep):
        return [*_called(step.call), Fragment("user", step.note)]
    return [*thought, *_called(step), Fragment("tool_result", step.result)]


def _called(call: ToolStep) -> list[Fragment]:
    return [Fragment("tool_name", call.tool), Fragment("tool_arguments", call.arguments_text)]
