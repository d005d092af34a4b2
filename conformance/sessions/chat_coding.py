"""Conversations shaped like opencode 1.18.33, a coding client that speaks OpenAI's chat dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .profile import OPENCODE
from .script import Fragment, Step, StepKind, TextStep, identifier
from .session import DEFAULT_MODEL, PROBE_MAX_TOKENS, Session
from .sizing import Shape, copied
from .tool_definitions import compact


class ChatCodingSession(Session):
    """One growing `/v1/chat/completions` conversation.

    shape: "scaled" is about 4.5 k DeepSeek tokens, "full" has the recorded sizes (about 7 k). `base_bytes` sets
        `prompt_bytes` of the first turn, scaling the parts alike.
    tools, tools_bytes: how many of the profile's tools, and the exact compact-JSON size of the section.
    system_bytes: size of the system message.
    kinds: the cycle of steps `grow` appends. Reasoning is not sent back.
    """

    def __init__(
        self,
        *,
        seed: str,
        salt: str,
        shape: Shape = "scaled",
        tools: int | None = None,
        tools_bytes: int | None = None,
        system_bytes: int | None = None,
        base_bytes: int | None = None,
        kinds: Sequence[StepKind] = ("tool", "text"),
        model: str = DEFAULT_MODEL,
        max_tokens: int = PROBE_MAX_TOKENS,
        ask: str = "",
    ) -> None:
        super().__init__(
            profile=OPENCODE,
            seed=seed,
            salt=salt,
            shape=shape,
            model=model,
            max_tokens=max_tokens,
            kinds=kinds,
            ask=ask,
        )
        self._open(
            tools=tools, tools_bytes=tools_bytes, system_bytes=system_bytes, base_bytes=base_bytes, fixed_bytes=0
        )

    @property
    def session_id(self) -> str:
        """The id in both session headers; it follows from seed and salt."""
        return identifier("ses_", 26, f"{self.seed}/{self.salt}")

    def headers(self) -> dict[str, str]:
        return {**self.profile.headers, **dict.fromkeys(self.profile.session_headers, self.session_id)}

    def _system_texts(self) -> list[str]:
        return [self._instructions]

    def _system_fragments(self) -> list[Fragment]:
        return [Fragment("system", self._instructions)]

    def _render(self) -> dict[str, Any]:
        messages: list[dict[str, Any]] = [{"role": "system", "content": self._instructions}]
        messages += [{"role": "user", "content": text} for text in self._first_message]
        for step in self._steps:
            messages += _step_messages(step)
        values: dict[str, Any] = {"model": self.model, "max_tokens": self.max_tokens, "messages": messages}
        if self._tools:
            values |= {"tools": self._tools, **copied(dict(self.profile.client_fields))}
        return {key: values[key] for key in self.profile.body_keys if key in values}


def _step_messages(step: Step) -> list[dict[str, Any]]:
    if isinstance(step, TextStep):
        return [{"role": "assistant", "content": step.answer}, {"role": "user", "content": step.question}]
    call = {
        "id": step.call_id,
        "type": "function",
        "function": {"name": step.tool, "arguments": compact(step.arguments)},
    }
    # The client sends an empty string, not null, beside its tool calls.
    assistant = {"role": "assistant", "content": "", "tool_calls": [call]}
    return [assistant, {"role": "tool", "tool_call_id": step.call_id, "content": step.result}]
