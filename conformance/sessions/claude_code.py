"""Conversations shaped like Claude Code 2.1.116 in its VS Code extension: the client of the incident."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from typing import Any, Final, Literal

from .attribution import attribution_text, sealed
from .filler import filler
from .profile import CLAUDE_CODE
from .script import Fragment, Step, StepKind, TextStep
from .session import DEFAULT_MODEL, PROBE_MAX_TOKENS, Session
from .sizing import Shape, copied
from .tool_definitions import compact

MARK: Final = {"type": "ephemeral"}


class ClaudeCodeSession(Session):
    """One growing `/v1/messages` conversation.

    shape: "scaled" keeps the client's parts and order at about 4.5 k DeepSeek tokens, "full" has the recorded sizes
        (about 25 k). `base_bytes` sets `prompt_bytes` of the first turn, scaling the parts alike.
    attribution: True puts the varying attribution text first, "constant" the same with `cch=00000`, False leaves it
        out, so that a session isolates other causes.
    tools, tools_bytes: how many of the profile's tools (the ones a coding session needs most, in the client's order),
        and the exact compact-JSON size of the section.
    system_bytes: size of the instructions text, the last system text.
    cache_control: marks on the identity and instructions texts and on the last block, which move each turn. False
        sends no mark and keeps every content in one constant form, a list of blocks.
    collapse: with marks, a user message of one text block becomes a plain string once its mark has moved on. Recorded
        with this version's command-line entry point; the stream-json recording keeps the list (collapse=False).
    string_system: the system as one string, the attribution text its first line; it can then carry no marks.
    client_fields: the client's `thinking`, `context_management` and `output_config`; by default only in "full".
    kinds: the cycle of steps `grow` appends. Thinking blocks are not sent.
    """

    def __init__(
        self,
        *,
        seed: str,
        salt: str,
        shape: Shape = "scaled",
        attribution: bool | Literal["constant"] = True,
        tools: int | None = None,
        tools_bytes: int | None = None,
        system_bytes: int | None = None,
        base_bytes: int | None = None,
        cache_control: bool = True,
        collapse: bool = True,
        string_system: bool = False,
        client_fields: bool | None = None,
        kinds: Sequence[StepKind] = ("tool", "text"),
        model: str = DEFAULT_MODEL,
        max_tokens: int = PROBE_MAX_TOKENS,
        ask: str = "",
    ) -> None:
        super().__init__(
            profile=CLAUDE_CODE,
            seed=seed,
            salt=salt,
            shape=shape,
            model=model,
            max_tokens=max_tokens,
            kinds=kinds,
            ask=ask,
        )
        self.attribution = attribution
        self.cache_control = cache_control
        self.collapse = collapse and cache_control
        self.string_system = string_system
        self.client_fields = shape == "full" if client_fields is None else client_fields
        self._identity = filler(f"{CLAUDE_CODE}/identity", self.profile.system_bytes("identity"))
        parts = [self.profile.system_bytes("attribution")] if attribution else []
        parts.append(self.profile.system_bytes("identity"))
        self._open(
            tools=tools,
            tools_bytes=tools_bytes,
            system_bytes=system_bytes,
            base_bytes=base_bytes,
            fixed_bytes=sum(parts) + (len(parts) if string_system else 0),
        )

    @property
    def session_id(self) -> str:
        """The id in the session header and in `metadata.user_id`: a UUID that follows from seed and salt."""
        return str(uuid.UUID(bytes=hashlib.sha256(f"{self.seed}/{self.salt}".encode()).digest()[:16], version=4))

    def headers(self) -> dict[str, str]:
        return {**self.profile.headers, **dict.fromkeys(self.profile.session_headers, self.session_id)}

    def attribution_block(self) -> str | None:
        """The current turn's attribution text, or None where the session sends none."""
        if not self.attribution:
            return None
        system = self.body()["system"]
        text: str = system if self.string_system else system[0]["text"]
        return text.partition("\n")[0]

    def _system_texts(self) -> list[str]:
        texts = [self._blank_attribution()] if self.attribution else []
        texts += [self._identity, self._instructions]
        return ["\n".join(texts)] if self.string_system else texts

    def _system_fragments(self) -> list[Fragment]:
        own = [self._identity, self._instructions]
        block = self.attribution_block()
        found = [Fragment("attribution", block)] if block is not None else []
        return found + [Fragment("system", text) for text in (["\n".join(own)] if self.string_system else own)]

    def _blank_attribution(self) -> str:
        return attribution_text(self.profile, self._first_message[-1])

    def _render(self) -> dict[str, Any]:
        values: dict[str, Any] = {
            "model": self.model,
            "messages": self._messages(),
            "system": self._system(),
            "tools": self._tools or None,
            "metadata": {"user_id": self._user_id()},
            "max_tokens": self.max_tokens,
        }
        if self.client_fields:
            values |= copied(dict(self.profile.client_fields))
        body = {key: values[key] for key in self.profile.body_keys if values.get(key) is not None}
        return sealed(body) if self.attribution is True else body

    def _user_id(self) -> str:
        device = hashlib.sha256(f"{self.seed}/device".encode()).hexdigest()
        values = {"device_id": device, "account_uuid": "", "session_id": self.session_id}
        return compact({key: values[key] for key in self.profile.user_id_keys})

    def _system(self) -> str | list[dict[str, Any]]:
        texts = self._system_texts()
        if self.string_system:
            return texts[0]
        marked = [part.cache_control for part in self.profile.system if self.attribution or part.part != "attribution"]
        return [_text_block(text, mark and self.cache_control) for text, mark in zip(texts, marked, strict=True)]

    def _messages(self) -> list[dict[str, Any]]:
        messages = [_message("user", [_text_block(text) for text in self._first_message])]
        for step in self._steps:
            messages += _step_messages(step)
        if self.cache_control:
            messages[-1]["content"][-1]["cache_control"] = MARK
        if self.collapse:
            for message in messages[:-1]:
                content = message["content"]
                if message["role"] == "user" and len(content) == 1 and content[0]["type"] == "text":
                    message["content"] = content[0]["text"]
        return messages


def _message(role: str, content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": role, "content": content}


def _text_block(text: str, mark: bool = False) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": text}
    if mark:
        block["cache_control"] = MARK
    return block


def _step_messages(step: Step) -> list[dict[str, Any]]:
    if isinstance(step, TextStep):
        return [_message("assistant", [_text_block(step.answer)]), _message("user", [_text_block(step.question)])]
    call = {"type": "tool_use", "id": step.call_id, "name": step.tool, "input": step.arguments}
    result: dict[str, Any] = {"tool_use_id": step.call_id, "type": "tool_result", "content": step.result}
    if step.is_error is not None:
        result["is_error"] = step.is_error
    return [_message("assistant", [call]), _message("user", [result])]
