"""Conversations shaped like aider 0.86.2: the one recorded client whose requests do not only append."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from .chat_coding import ChatCodingSession, said
from .filler import filler
from .script import Fragment, FragmentKind, Step, TextStep
from .session import DEFAULT_MODEL, PROBE_MAX_TOKENS
from .sizing import Shape

AIDER: Final = "aider-0.86.2"

_ROLES: Final[dict[str, FragmentKind]] = {"assistant": "assistant", "user": "user"}


class AiderSession(ChatCodingSession):
    """One conversation of `/v1/chat/completions` whose tail is written anew on every turn.

    In this order: system text, examples, on the first turn a map of the repository, the history, the files, and the
    user's question with a reminder behind it. So files and reminder stand behind a history that grows, and a question
    loses its reminder once it has been answered: each turn keeps what stands in front of the last question, no more.
    """

    def __init__(
        self,
        *,
        seed: str,
        salt: str,
        shape: Shape = "scaled",
        system_bytes: int | None = None,
        base_bytes: int | None = None,
        model: str = DEFAULT_MODEL,
        max_tokens: int = PROBE_MAX_TOKENS,
        ask: str = "",
    ) -> None:
        super().__init__(
            seed=seed,
            salt=salt,
            shape=shape,
            tools=0,
            system_bytes=system_bytes,
            base_bytes=base_bytes,
            kinds=("text",),
            model=model,
            max_tokens=max_tokens,
            ask=ask,
            client=AIDER,
        )

    def _append(self, step: Step) -> None:
        # The map goes after the first turn; what was asked for is how much the prompt grows all the same.
        if not self._steps and isinstance(step, TextStep):
            size = sum(len(text) for part, text in self._opening if part == "map")
            longer = filler(f"{self._step_seed}/first answer", len(step.answer) + size)
            super()._append(replace(step, answer=longer))
            self._step_bytes -= size
            return
        super()._append(step)

    @property
    def _opening(self) -> list[tuple[str, str]]:
        """(part, text) of everything but system text and history, in the profile's order."""
        return [(p.part, text) for p, text in zip(self.profile.first_message, self._first_message, strict=True)]

    def _placed(self) -> list[tuple[str, str]]:
        """(role, text) of every message behind the system text, as of the current turn."""
        roles: dict[str, list[tuple[str, str]]] = {part: [] for part, _ in self._opening}
        for part, text in zip(self.profile.first_message, self._first_message, strict=True):
            roles[part.part].append((part.role, text))
        steps = [step for step in self._steps if isinstance(step, TextStep)]
        questions = [roles["prompt"][0][1], *(step.question for step in steps)]
        history = [
            pair
            for question, step in zip(questions, steps, strict=False)
            for pair in (("user", question), ("assistant", step.answer))
        ]
        reminder = roles["reminder"][0][1]
        return [
            *roles["example"],
            *(roles["map"] if not steps else []),
            *history,
            *roles["files"],
            ("user", f"{questions[-1]}{reminder}"),
        ]

    @property
    def _final_parts(self) -> int:
        return 0

    def _messages_of(self, start: int, end: int, *, final: bool) -> list[dict[str, Any]]:  # noqa: ARG002
        texts = [said(role, text, self.profile.forms) for role, text in self._placed()]
        return [{"role": "system", "content": self._instructions}, *texts]

    def fragments(self) -> list[Fragment]:
        placed = [Fragment(_ROLES[role], text) for role, text in self._placed()]
        return [*self._system_fragments(), *placed]
