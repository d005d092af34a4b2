"""Conversations of coding clients that speak OpenAI's chat dialect; by default shaped like opencode 1.18.33."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .growing import PLACE
from .profile import OPENCODE, SUB_AGENT, load
from .profile_parts import Forms
from .script import Fragment, LoadStep, NoteStep, ParallelStep, Step, StepKind, TextStep, ToolStep, identifier
from .session import DEFAULT_MODEL, PROBE_MAX_TOKENS, Session
from .sizing import Shape, copied


class ChatCodingSession(Session):
    """One growing `/v1/chat/completions` conversation.

    shape: "scaled" is about 4.5 k DeepSeek tokens, "full" has the recorded sizes (about 7 k). `base_bytes` sets
        `prompt_bytes` of the first turn, scaling the parts alike.
    tools, tools_bytes: how many of the profile's tools, and the exact compact-JSON size of the section.
    system_bytes: size of the system message.
    kinds: the cycle of steps `grow` appends.
    thinking: the assistant's steps carry `reasoning_content`, which some clients send back in all later turns.
    client: the profile. One that sends no limit for its answers has one here all the same unless `shape` is "full".
    parent_id: id of the session a sub-agent belongs to.
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
        thinking: bool = False,
        client: str = OPENCODE,
        parent_id: str | None = None,
    ) -> None:
        super().__init__(
            profile=client,
            seed=seed,
            salt=salt,
            shape=shape,
            model=model,
            max_tokens=max_tokens,
            kinds=kinds,
            ask=ask,
            thinking=thinking,
        )
        self.parent_id = parent_id
        self._open(
            tools=tools, tools_bytes=tools_bytes, system_bytes=system_bytes, base_bytes=base_bytes, fixed_bytes=0
        )

    def _prepare(self) -> None:
        super()._prepare()
        self._id = identifier("ses_", 26, f"{self.seed}/{self.salt}")

    @property
    def session_id(self) -> str:
        """The id in both session headers; it follows from seed and salt."""
        return self._id

    def headers(self) -> dict[str, str]:
        own = {**self.profile.headers, **dict.fromkeys(self.profile.session_headers, self.session_id)}
        header = self._parent_header
        return {**own, header: self.parent_id} if header and self.parent_id else own

    @property
    def _parent_header(self) -> str | None:
        agent = load(self._profile_name.removesuffix(SUB_AGENT)).sub_agent
        return agent.parent_header if agent is not None else None

    def sub_agent(self, number: int) -> ChatCodingSession:
        """A session of the client's sub-agents: own tools and session id, the parent's id in a header."""
        return ChatCodingSession(
            seed=f"{self.seed}/agent{number}",
            salt=self.salt,
            shape=self.shape,
            model=self.model,
            max_tokens=self.max_tokens,
            thinking=self.thinking,
            client=self._profile_name + SUB_AGENT,
            parent_id=self.session_id,
        )

    def _system_texts(self) -> list[str]:
        return [self._instructions]

    def _system_fragments(self) -> list[Fragment]:
        return [Fragment("system", self._instructions)]

    def _members(self) -> dict[str, Any]:
        profile = self.profile
        forms = profile.forms
        values: dict[str, Any] = {"model": self.model, PLACE: None}
        limit = forms.max_tokens or ("max_tokens" if self.shape == "scaled" else None)
        if limit is not None:
            values[limit] = self.max_tokens
        if self._tools:
            values["tools"] = self._tools_text
        if self._tools or not profile.tools:
            values |= copied(dict(profile.client_fields))
        keys = [*profile.body_keys, *([] if limit in profile.body_keys or limit is None else [limit])]
        return {key: values[key] for key in keys if key in values}

    @property
    def _final_parts(self) -> int:
        return len(self._steps) + 1

    def _messages_of(self, start: int, end: int, *, final: bool) -> list[dict[str, Any]]:  # noqa: ARG002
        forms = self.profile.forms
        messages: list[dict[str, Any]] = []
        if start == 0 < end:
            messages.append({"role": "system", "content": self._instructions})
            for part, text in zip(self.profile.first_message, self._first_message, strict=True):
                messages.append(said(part.role, text, forms))
        for step in self._steps[max(0, start - 1) : end - 1]:
            messages += _step_messages(step, forms)
        return messages


def said(role: str, text: str, forms: Forms) -> dict[str, Any]:
    """One text as the message the client makes of it."""
    return {"role": role, "content": [{"type": "text", "text": text}] if role in forms.blocks else text}


def _step_messages(step: Step, forms: Forms) -> list[dict[str, Any]]:
    if isinstance(step, LoadStep):
        raise TypeError("no chat client that was recorded loads tools")
    if isinstance(step, NoteStep):
        return [said(step.role, step.text, forms)]
    if isinstance(step, TextStep):
        answer = {"role": "assistant", "content": step.answer, **_reasoning(step.thinking)}
        return [answer, said("user", step.question, forms)]
    calls, results = (step.calls, step.results) if isinstance(step, ParallelStep) else ((step,), (step,))
    thinking = "" if isinstance(step, ParallelStep) else step.thinking
    assistant = {
        "role": "assistant",
        "content": forms.no_content,
        **_reasoning(thinking),
        "tool_calls": [_call(call) for call in calls],
    }
    return [assistant, *(_result(step, forms) for step in results)]


def _result(step: ToolStep, forms: Forms) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": step.call_id, "content": said("tool", step.result, forms)["content"]}


def _reasoning(text: str) -> dict[str, str]:
    return {"reasoning_content": text} if text else {}


def _call(step: ToolStep) -> dict[str, Any]:
    return {"id": step.call_id, "type": "function", "function": {"name": step.tool, "arguments": step.arguments_text}}
