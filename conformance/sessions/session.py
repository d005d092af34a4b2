"""What the client-shaped sessions share: one growing conversation, the same bytes for the same arguments."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final, Self

import orjson

from .filler import filler, salted
from .growing import Ends, GrowingText
from .profile import ClientProfile, load
from .profile_parts import CompactionPart, SubAgentPart
from .script import (
    STEP_KINDS,
    Fragment,
    FragmentKind,
    LoadStep,
    NoteStep,
    ParallelStep,
    Step,
    StepKind,
    ToolStep,
    call_prefix,
    closing,
    fragments_of,
    identifier,
    next_step,
)
from .sizing import DEFER, Shape, Sizes, ToolSize, check_salt, copied, deferred_sizes, plan, tool_table
from .tool_definitions import compact

PROBE_MAX_TOKENS: Final = 16
"""Answer length a body asks for unless told otherwise, whatever the shape: probes read prompts, not answers."""

DEFAULT_MODEL: Final = "llm-prime"
"""Model name where the caller gives none: the alias of the incident this project comes from."""

DAY: Final = "2026-08-17"
"""The date a session's texts name: fixed, since nothing here may depend on the clock."""


_LEAST_SUMMARY: Final = 64


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
        thinking: bool = False,
        session_id: str | None = None,
    ) -> None:
        check_salt(salt)
        _check_ascii("ask", ask)
        if max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {max_tokens}")
        if not kinds or not set(kinds) <= set(STEP_KINDS):
            raise ValueError(f"kinds must name at least one of {', '.join(STEP_KINDS)}, got {list(kinds)!r}")
        self.profile: ClientProfile = load(profile)
        self._profile_name = profile
        self.seed = seed
        self.salt = salt
        self.shape: Shape = shape
        self.model = model
        self.max_tokens = max_tokens
        self.thinking = thinking
        self.compactions = 0
        self._given_id = session_id
        self._kinds = tuple(kinds)
        self._ask = ask
        self._steps: list[Step] = []
        self._step_bytes = 0
        self._summary_bytes = 0
        self._loaded: tuple[ToolSize, ...] = ()
        self._turns = 0
        self._ends: Ends | None = None

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
        if set(self._kinds) - {"text"} and not self._calls:
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
        for tool in tool_table(self.seed, self._profile_name, self._loaded):
            self._tools.insert(_place_among(self._tools, tool), tool)
        tail = _surroundings(self.seed, self.profile.instructions_end)
        body = filler(f"{self.seed}/instructions", self.sizes.instructions - len(tail))
        self._instructions = salted(body, self.salt) + tail
        self._tools_text = orjson.Fragment(orjson.dumps(self._tools))
        self._first_message = self._opening_texts()
        self._settled = GrowingText()
        self._ends = None

    def _opening_texts(self) -> list[str]:
        if self.compactions:
            return self._compacted_texts()
        texts: list[str] = []
        for i, (part, size) in enumerate(zip(self.profile.first_message, self.sizes.first_message, strict=True)):
            where = f"{self.seed}/first{i}"
            if part.part == "prompt":
                texts.append(salted(closing(where, size, self._ask), self.salt))
            else:
                texts.append(_tagged(where, size, part.tag, day=part.day))
        return texts

    def _compacted_texts(self) -> list[str]:
        """What stands where the messages stood: a lead, a note, the day's reminder and the summary, salted."""
        part, seed = self._compaction, self._step_seed
        sized = zip(self.profile.first_message, self.sizes.first_message, strict=True)
        day = [(i, size, p.tag) for i, (p, size) in enumerate(sized) if p.day]
        return [
            _tagged(f"{self.seed}/lead", part.lead_bytes, "system-reminder"),
            _tagged(f"{self.seed}/note", part.note_bytes, "system-reminder"),
            *(_tagged(f"{self.seed}/first{i}", size, tag, day=True) for i, size, tag in day),
            salted(closing(f"{seed}/summary", max(self._summary_bytes, len(self._ask) + _LEAST_SUMMARY), self._ask),
                   self.salt),
        ]  # fmt: skip

    @property
    def turn(self) -> int:
        """Number of the current request, from 1; compaction starts anew."""
        return self._turns + 1

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
        chosen = kind or self._kinds[(self.turn - 1) % len(self._kinds)]
        if chosen != "text" and not self._calls:
            raise ValueError("this session sends no tools, so it cannot grow by a tool call")
        here = self._step_seed
        step = next_step(here, self.profile, self._calls, self.turn, chosen, n_bytes, ask, thinking=self.thinking)
        self._append(step)

    def note(self, n_bytes: int) -> None:
        """Add a text nobody asked for to the present turn: a `system` message, `prompt_bytes` longer by `n_bytes`."""
        self._append(NoteStep("system", filler(f"{self._step_seed}/note{len(self._steps)}", n_bytes)))

    def resume(self) -> None:
        """Take the conversation up again: clients that repeat their environment text do so here, others do nothing."""
        parts = self.profile.first_message
        if self.profile.repeats_environment:
            self._append(NoteStep("user", next(t for p, t in zip(parts, self._first_message, strict=True)
                                               if p.part == "environment")))  # fmt: skip

    def load_deferred(self) -> None:
        """Call the loader: from the next request on the deferred tools stand in the tool list, by name.

        Raises ValueError for a client that has none, or does not send its loader, and for a second call.
        """
        profile = self.profile
        if profile.loader not in {tool.name for tool in self.sizes.tools} or self._loaded:
            raise ValueError(f"{profile.client} {profile.version} has no deferred tools left to load here")
        self._loaded = deferred_sizes(profile, self.sizes)
        names = tuple(tool.name for tool in self._loaded)
        here = f"{self._step_seed}/load"
        call = ToolStep(
            call_id=identifier(call_prefix(profile), 24, here),
            tool=str(profile.loader),
            argument="query",
            value=f"select:{','.join(names)}",
            result="",
            is_error=None,
        )
        grown = sum(tool.bytes + 1 for tool in self._loaded)
        self._append(LoadStep(call, names, filler(here, profile.loaded_bytes), grown))
        self._prepare()

    def compact(self, summary_bytes: int | None = None) -> None:
        """Replace the messages by a summary of `summary_bytes` (default: as recorded), as after a compaction.

        Tools and system texts stay. Raises ValueError for a client whose compaction was not recorded.
        """
        part = self._compaction
        self.compactions += 1
        self._summary_bytes = max(part.summary_bytes if summary_bytes is None else summary_bytes, _LEAST_SUMMARY)
        self._steps = []
        self._turns = self._step_bytes = 0
        self._prepare()

    def compaction_body(self) -> dict[str, Any]:
        """The request that asks for the summary. Raises ValueError for a client whose compaction was not recorded."""
        raise ValueError(f"how {self.profile.client} {self.profile.version} compacts was not recorded")

    def sub_agent(self, number: int) -> Session:  # noqa: ARG002 - the base class has none
        """Sub-agent `number` (from 1), at its first request. Raises ValueError where none were recorded."""
        raise ValueError(f"{self.profile.client} {self.profile.version} starts no sub-agents that were recorded")

    def spawn(self, count: int, result_bytes: int | None = None) -> None:
        """Append the parallel calls that started `count` sub-agents, and their results: one turn."""
        agent = self.profile.sub_agent
        if agent is None or agent.call not in {tool.name for tool in self.sizes.tools}:
            raise ValueError(f"{self.profile.client} sends no tool here that starts sub-agents")
        size = agent.result_bytes if result_bytes is None else result_bytes
        self._append(ParallelStep(tuple(self._spawned(agent, i, size) for i in range(count))))

    def _spawned(self, agent: SubAgentPart, number: int, result_bytes: int) -> ToolStep:
        here = f"{self._step_seed}/agent{self.turn}.{number}"
        return ToolStep(
            call_id=identifier(call_prefix(self.profile), 24, here),
            tool=agent.call,
            argument=agent.argument,
            value=filler(f"{here}/task", 60),
            result=filler(f"{here}/report", result_bytes),
            is_error=None,
            listed=agent.result_form == "list",
            spaced=self.profile.forms.spaced_arguments,
        )

    @property
    def _compaction(self) -> CompactionPart:
        if self.profile.compaction is None:
            raise ValueError(f"how {self.profile.client} {self.profile.version} compacts was not recorded")
        return self.profile.compaction

    @property
    def _step_seed(self) -> str:
        """Seed of the steps: each compaction begins a conversation of its own."""
        return f"{self.seed}/after{self.compactions}" if self.compactions else self.seed

    def _append(self, step: Step) -> None:
        self._steps.append(step)
        self._turns += not isinstance(step, NoteStep)
        self._step_bytes += step.bytes
        self._ends = None

    def with_salt(self, salt: str) -> Self:
        """This conversation, at its present turn, under another salt. It grows on its own from there."""
        check_salt(salt)
        other = copy.copy(self)
        other.salt = salt
        other._steps = list(self._steps)
        other._prepare()
        return other

    def encoded(self, more: bytes = b"") -> bytes:
        """`body()` as compact JSON: the same bytes at every call until the next `grow`.

        `more` is written behind the last member, as `,"key":value`: it is no part of the conversation.
        """
        if self._ends is None:
            self._ends = self._written()
        return self._settled.body(self._ends, more)

    def _written(self) -> Ends:
        """The ends of the body around what is settled, which is brought up to now before."""
        settled, final = self._settled, self._final_parts
        if settled.steps < final:
            settled.settle(self._messages_of(settled.steps, final, final=True), final)
        return self._ends_of(self._messages_of(final, len(self._steps) + 1, final=False))

    def _ends_of(self, open_messages: list[dict[str, Any]]) -> Ends:
        return self._settled.around(self._members(), open_messages)

    def body(self) -> dict[str, Any]:
        """The current turn's request body, without `stream`. A new dict at every call, for the caller to change."""
        decoded: dict[str, Any] = orjson.loads(self.encoded())
        return decoded

    def fragments(self) -> list[Fragment]:
        """Every text of the current turn in the client's order: tools, system, messages. For content checks."""
        found = [Fragment("tool", compact(_function(tool))) for tool in self._tools]
        found += self._system_fragments()
        found += self._opening_fragments()
        for step in self._steps:
            found += fragments_of(step)
        return found

    def _opening_fragments(self) -> list[Fragment]:
        roles: list[FragmentKind] = ["user"] * len(self._first_message)
        if not self.compactions:
            named: dict[str, FragmentKind] = {"system": "system", "assistant": "assistant"}
            roles = [named.get(part.role, "user") for part in self.profile.first_message]
        return [Fragment(role, text) for role, text in zip(roles, self._first_message, strict=True)]

    @abstractmethod
    def headers(self) -> dict[str, str]:
        """The client's own request headers, without credentials and without what an HTTP library adds."""

    @abstractmethod
    def _system_texts(self) -> list[str]:
        """System texts as they are sent, one an element."""

    @abstractmethod
    def _system_fragments(self) -> list[Fragment]: ...

    @property
    @abstractmethod
    def _final_parts(self) -> int:
        """How many parts of the conversation, the opening and then its steps, no later turn changes."""

    @abstractmethod
    def _messages_of(self, start: int, end: int, *, final: bool) -> list[dict[str, Any]]:
        """The messages of these parts: as they stay, or as the last ones of the current turn."""

    @abstractmethod
    def _members(self) -> dict[str, Any]:
        """The body's members in the client's order, with `PLACE` where the messages go."""


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    if "function" in tool:
        function: dict[str, Any] = tool["function"]
        return function
    return {"name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]}


def _place_among(tools: Sequence[dict[str, Any]], tool: dict[str, Any]) -> int:
    """Where a tool goes that is loaded late: by name, tools that stand for others not counted."""
    later = (i for i, t in enumerate(tools) if t["name"] > tool["name"] and not t.get(DEFER))
    return next(later, len(tools))


def _tagged(seed: str, size: int, tag: str | None, *, day: bool = False) -> str:
    """Filler of `size` bytes, in a tag of its own where there is one."""
    head, tail = (f"<{tag}>\n", f"\n</{tag}>\n") if tag else ("", "")
    head += f"Day: {DAY}. " if day else ""
    return f"{head}{filler(seed, size - len(head) - len(tail))}{tail}"


def _surroundings(seed: str, lines: Sequence[str]) -> str:
    """The end of the instructions: what changes with the working directory, the repository's state or the day."""
    if not lines:
        return ""
    name = identifier("project-", 6, f"{seed}/directory").lower()
    values = {
        "directory": f"Working directory: /srv/{name}",
        "branch": f"Branch: {name}-next",
        "tree": "Tree: clean",
        "day": f"Day: {DAY}",
    }
    return "\n\n" + "\n".join(values[line] for line in lines) + "\n"


def _check_ascii(name: str, text: str) -> None:
    if not text.isascii():
        raise ValueError(f"{name} must be ASCII, so that sizes in bytes stay exact")
