"""Conversations shaped like Claude Code; by default 2.1.116 in its VS Code extension, the client of the incident."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from typing import Any, Literal

from .attribution import BLANK_CCH, attribution_text, sealed
from .filler import filler
from .growing import PLACE, Ends
from .messages_steps import MARK, message, step_messages, text_block
from .profile import CLAUDE_CODE, SUB_AGENT
from .script import Fragment, NoteStep, StepKind
from .session import DEFAULT_MODEL, PROBE_MAX_TOKENS, Session
from .sizing import Shape, copied
from .tool_definitions import compact


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
    kinds: the cycle of steps `grow` appends.
    thinking: the assistant's steps carry thinking blocks, which come back in all later turns, as newer versions do.
    client: the profile, one version of the client. One that sends no attribution text sends none here either; one
        whose text never varies sends it as "constant".
    session_id: of the session a sub-agent belongs to; otherwise it follows from seed and salt.
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
        thinking: bool = False,
        client: str = CLAUDE_CODE,
        session_id: str | None = None,
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
            session_id=session_id,
        )
        form = self.profile.attribution
        self.attribution = attribution if form is not None else False
        if attribution is True and form is not None and not form.varies:
            self.attribution = "constant"
        self.cache_control = cache_control
        self.collapse = collapse and cache_control
        self.string_system = string_system
        self.client_fields = shape == "full" if client_fields is None else client_fields
        self._identity = filler(f"{client}/identity", self.profile.system_bytes("identity"))
        parts = [self.profile.system_bytes("attribution")] if self.attribution else []
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
        return self._id

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
        texts = [self._blank] if self.attribution else []
        texts += [self._identity, self._instructions]
        return ["\n".join(texts)] if self.string_system else texts

    def _system_fragments(self) -> list[Fragment]:
        own = [self._identity, self._instructions]
        block = self.attribution_block()
        found = [Fragment("attribution", block)] if block is not None else []
        return found + [Fragment("system", text) for text in (["\n".join(own)] if self.string_system else own)]

    def _first_prompt(self) -> str:
        """The text the suffix is derived from: the user's prompt, and after a compaction what leads the messages."""
        return self._first_message[0] if self.compactions else self._first_message[-1]

    def compaction_body(self) -> dict[str, Any]:
        part = self._compaction
        body = self.body()
        for text in body["messages"]:
            _unmark(text)
        assistants = [text for text in body["messages"] if text["role"] == "assistant"]
        if self.cache_control and assistants:
            assistants[-1]["content"][-1]["cache_control"] = dict(MARK)
        last = body["messages"][-1]
        if isinstance(last["content"], str):
            last["content"] = [text_block(last["content"])]
        last["content"].append(text_block(filler(f"{self._profile_name}/compaction", part.request_bytes)))
        if self.shape == "full":
            body["max_tokens"] = part.max_tokens
        return sealed(body) if self.attribution is True else body

    def sub_agent(self, number: int) -> ClaudeCodeSession:  # noqa: ARG002 - all start alike
        """A session of the client's sub-agents: own system text and tools, the parent's session id.

        All sub-agents of a session start with the same request where their task is the same, as recorded.
        """
        return ClaudeCodeSession(
            seed=f"{self.seed}/agent",
            salt=self.salt,
            shape=self.shape,
            attribution=self.attribution,
            cache_control=self.cache_control,
            collapse=self.collapse,
            client_fields=self.client_fields,
            model=self.model,
            max_tokens=self.max_tokens,
            client=self._profile_name + SUB_AGENT,
            session_id=self.session_id,
        )

    def _prepare(self) -> None:
        super()._prepare()
        self._blank = attribution_text(self.profile, self._first_prompt()) if self.attribution else ""
        self._id = self._given_id or str(
            uuid.UUID(bytes=hashlib.sha256(f"{self.seed}/{self.salt}".encode()).digest()[:16], version=4)
        )
        self._user = self._user_id()

    def _ends_of(self, open_messages: list[dict[str, Any]]) -> Ends:
        ends = super()._ends_of(open_messages)
        if self.attribution is not True:
            return ends
        cch = self._settled.digest(ends)[: len(BLANK_CCH)]
        blank, full = self._blank.encode(), self._blank.replace(f"cch={BLANK_CCH}", f"cch={cch}").encode()
        return ends._replace(head=ends.head.replace(blank, full, 1), behind=ends.behind.replace(blank, full, 1))

    def _members(self) -> dict[str, Any]:
        values: dict[str, Any] = {
            "model": self.model,
            PLACE: True,
            "system": self._system(),
            "tools": self._tools_text if self._tools else None,
            "metadata": {"user_id": self._user},
            "max_tokens": self.max_tokens,
        }
        if self.client_fields:
            values |= copied(dict(self.profile.client_fields))
        return {key: values[key] for key in self.profile.body_keys if values.get(key) is not None}

    def _user_id(self) -> str:
        device = hashlib.sha256(f"{self.seed}/device".encode()).hexdigest()
        if self.profile.forms.user_id == "line":
            return f"user_{device}_account__session_{self.session_id}"
        values = {"device_id": device, "account_uuid": "", "session_id": self.session_id}
        return compact({key: values[key] for key in self.profile.user_id_keys})

    def _system(self) -> str | list[dict[str, Any]]:
        texts = self._system_texts()
        if self.string_system:
            return texts[0]
        marked = [part.cache_control for part in self.profile.system if self.attribution or part.part != "attribution"]
        return [text_block(text, mark and self.cache_control) for text, mark in zip(texts, marked, strict=True)]

    @property
    def _final_parts(self) -> int:
        """Marks stand on the last block and on the last assistant's: what is older has none and gets none again."""
        parts = len(self._steps) + 1
        if not self.cache_control:
            return parts
        if not self.profile.forms.mark_assistant:
            return parts - 1
        answered = (i for i in range(parts - 1, 0, -1) if not isinstance(self._steps[i - 1], NoteStep))
        return next(answered, 0)

    def _messages_of(self, start: int, end: int, *, final: bool) -> list[dict[str, Any]]:
        messages = self._opening_messages() if start == 0 < end else []
        for step in self._steps[max(0, start - 1) : end - 1]:
            messages += step_messages(step)
        if self.cache_control and not final:
            messages[-1]["content"][-1]["cache_control"] = MARK
            assistants = [m for m in messages if m["role"] == "assistant"]
            if self.profile.forms.mark_assistant and assistants:
                assistants[-1]["content"][-1]["cache_control"] = MARK
        if self.collapse:
            for sent in messages if final else messages[:-1]:
                content = sent["content"]
                if sent["role"] != "assistant" and len(content) == 1 and content[0]["type"] == "text":
                    sent["content"] = content[0]["text"]
        return messages

    def _opening_messages(self) -> list[dict[str, Any]]:
        texts = self._first_message
        if self.compactions:
            return [message("user", [text_block(texts[0])]), message("user", [text_block(t) for t in texts[1:]])]
        roles = [part.role for part in self.profile.first_message]
        said = [text_block(text) for text, role in zip(texts, roles, strict=True) if role == "user"]
        notes = [message(role, [text_block(t)]) for t, role in zip(texts, roles, strict=True) if role != "user"]
        return [message("user", said), *notes]


def _unmark(sent: dict[str, Any]) -> None:
    if isinstance(sent["content"], list):
        for block in sent["content"]:
            block.pop("cache_control", None)
