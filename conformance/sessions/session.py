"""What the client-shaped sessions share: one growing conversation, the same bytes for the same arguments."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final, Self

import orjson

from .filler import filler, salted
from .profile import ClientProfile, load
from .script import Fragment, Step, StepKind, TextStep, ToolStep, closing, identifier, next_step
from .sizing import LONGEST_SALT, Shape, Sizes, copied, plan, tool_table
from .tool_definitions import compact

PROBE_MAX_TOKENS: Final = 16
"""Answer length a body asks for unless told otherwise, whatever the shape: probes read prompts, not answers."""

DEFAULT_MODEL: Final = "llm-prime"
"""Model name where the caller gives none: the alias of the incident this project comes from."""

DAY: Final = "2026-08-17"
"""The date a session's texts name: fixed, since nothing here may depend on the clock."""


class Session(ABC):
    """A conversation that grows turn by turn.

    Every argument decides bytes and nothing else does: the same arguments give the same bodies in every process.
    `salt` opens the first tool's description, the instructions and the user's first prompt; sessions that differ only
    in their salt share no prompt prefix beyond the template's own text and the constant bytes in front of those.
    """

    def __init__(
        self,
        *,
        profile: str,
        seed: str,
        salt: str,
        shape: Shape,
        model: str,
        max_tokens: int,
        kinds: Sequence[StepKind],
        ask: str,
    ) -> None:
        check_salt(salt)
        _check_ascii("ask", ask)
        if max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {max_tokens}")
        if not kinds or not set(kinds) <= {"text", "tool"}:
            raise ValueError(f'kinds must name at least one of "text" and "tool", got {list(kinds)!r}')
        self.profile: ClientProfile = load(profile)
        self._profile_name = profile
        self.seed = seed
        self.salt = salt
        self.shape: Shape = shape
        self.model = model
        self.max_tokens = max_tokens
        self._kinds = tuple(kinds)
        self._ask = ask
        self._steps: list[Step] = []
        self._step_bytes = 0
        self._encoded: bytes | None = None

    def _open(
        self,
        *,
        tools: int | None,
        tools_bytes: int | None,
        system_bytes: int | None,
        base_bytes: int | None,
        fixed_bytes: int,
    ) -> None:
        """Size the first request's parts; called once, at the end of construction."""
        self.sizes: Sizes = plan(
            self.profile,
            self.shape,
            tools=tools,
            tools_bytes=tools_bytes,
            system_bytes=system_bytes,
            base_bytes=base_bytes,
            fixed_bytes=fixed_bytes,
            closing_bytes=len(self._ask) + 1 if self._ask else 0,
        )
        sent = {tool.name for tool in self.sizes.tools}
        self._calls = tuple(call for call in self.profile.calls if call.tool in sent)
        if "tool" in self._kinds and not self._calls:
            raise ValueError('a session without tools can only take text turns; pass kinds=("text",)')
        self._prepare()

    def _prepare(self) -> None:
        """Write the texts that carry the salt."""
        table = tool_table(self.seed, self._profile_name, self.sizes.tools)
        self._tools: list[dict[str, Any]] = [*table]
        if table:
            first = copied(table[0])
            holder = first.get("function", first)
            holder["description"] = salted(holder["description"], self.salt)
            self._tools[0] = first
        tail = _surroundings(self.seed, self.profile.instructions_end)
        body = filler(f"{self.seed}/instructions", self.sizes.instructions - len(tail))
        self._instructions = salted(body, self.salt) + tail
        self._first_message = self._opening_texts()
        self._encoded = None

    def _opening_texts(self) -> list[str]:
        texts: list[str] = []
        for i, (part, size) in enumerate(zip(self.profile.first_message, self.sizes.first_message, strict=True)):
            where = f"{self.seed}/first{i}"
            if part.tag is None:
                texts.append(salted(closing(where, size, self._ask), self.salt))
                continue
            head, tail = f"<{part.tag}>\n{f'Day: {DAY}. ' if part.day else ''}", f"\n</{part.tag}>\n"
            texts.append(f"{head}{filler(where, size - len(head) - len(tail))}{tail}")
        return texts

    @property
    def turn(self) -> int:
        """Number of the current request, from 1."""
        return len(self._steps) + 1

    @property
    def prompt_bytes(self) -> int:
        """UTF-8 bytes of what becomes prompt text: the tool section as compact JSON, system and message texts,
        tool names and arguments. Roles, ids and marks are not counted."""
        opening = sum(map(len, self._first_message)) + sum(len(text) for text in self._system_texts())
        return self.sizes.tools_bytes + opening + self._step_bytes

    def grow(self, n_bytes: int, kind: StepKind | None = None, ask: str = "") -> None:
        """Append a scripted assistant answer or tool call and the user's or tool's reply to it.

        `prompt_bytes` grows by exactly `n_bytes`; the serialised body by that and about 100 to 300 bytes of JSON.
        `kind` overrides the session's cycle of kinds; `ask` becomes the last line of the reply. Raises ValueError for
        fewer than 128 bytes and the length of `ask`.
        """
        _check_ascii("ask", ask)
        chosen = kind or self._kinds[len(self._steps) % len(self._kinds)]
        if chosen == "tool" and not self._calls:
            raise ValueError("this session sends no tools, so it cannot grow by a tool call")
        step = next_step(self.seed, self.profile, self._calls, self.turn, chosen, n_bytes, ask)
        self._steps.append(step)
        self._step_bytes += step.bytes
        self._encoded = None

    def with_salt(self, salt: str) -> Self:
        """This conversation, at its present turn, under another salt. It grows on its own from there."""
        check_salt(salt)
        other = copy.copy(self)
        other.salt = salt
        other._steps = list(self._steps)
        other._prepare()
        return other

    def encoded(self) -> bytes:
        """`body()` as compact JSON: the same bytes at every call until the next `grow`."""
        if self._encoded is None:
            self._encoded = orjson.dumps(self._render())
        return self._encoded

    def body(self) -> dict[str, Any]:
        """The current turn's request body, without `stream`. A new dict at every call, for the caller to change."""
        decoded: dict[str, Any] = orjson.loads(self.encoded())
        return decoded

    def fragments(self) -> list[Fragment]:
        """Every text of the current turn in the client's order: tools, system, messages. For content checks."""
        found = [Fragment("tool", compact(_function(tool))) for tool in self._tools]
        found += self._system_fragments()
        found += [Fragment("user", text) for text in self._first_message]
        for step in self._steps:
            if isinstance(step, TextStep):
                found += [Fragment("assistant", step.answer), Fragment("user", step.question)]
            else:
                found += _tool_fragments(step)
        return found

    @abstractmethod
    def headers(self) -> dict[str, str]:
        """The client's own request headers, without credentials and without what an HTTP library adds."""

    @abstractmethod
    def _system_texts(self) -> list[str]:
        """System texts as they are sent, one an element."""

    @abstractmethod
    def _system_fragments(self) -> list[Fragment]: ...

    @abstractmethod
    def _render(self) -> dict[str, Any]:
        """The body from the conversation's parts."""


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    if "function" in tool:
        function: dict[str, Any] = tool["function"]
        return function
    return {"name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]}


def _tool_fragments(step: ToolStep) -> list[Fragment]:
    return [
        Fragment("tool_name", step.tool),
        Fragment("tool_arguments", compact(step.arguments)),
        Fragment("tool_result", step.result),
    ]


def _surroundings(seed: str, lines: Sequence[str]) -> str:
    """The end of the instructions: what changes with the working directory, the repository's state or the day."""
    name = identifier("project-", 6, f"{seed}/directory").lower()
    values = {
        "directory": f"Working directory: /srv/{name}",
        "branch": f"Branch: {name}-next",
        "tree": "Tree: clean",
        "day": f"Day: {DAY}",
    }
    return "\n\n" + "\n".join(values[line] for line in lines) + "\n"


def check_salt(salt: str) -> None:
    plain = salt.isascii() and salt.isprintable() and not set(salt) & set('"\\ ')
    if not (plain and 4 <= len(salt) <= LONGEST_SALT):
        raise ValueError(
            f"salt must be 4 to {LONGEST_SALT} printable ASCII characters without space, quote or backslash, "
            f"got {salt!r}"
        )


def _check_ascii(name: str, text: str) -> None:
    if not text.isascii():
        raise ValueError(f"{name} must be ASCII, so that sizes in bytes stay exact")
