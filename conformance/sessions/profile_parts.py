"""The parts a client's structural profile is made of: sizes in bytes, order and forms, no text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class SystemPart:
    """One system text: `part` is attribution, identity or instructions; `varies` says when its text changes."""

    part: str
    bytes: int
    cache_control: bool
    varies: str


@dataclass(frozen=True, slots=True)
class MessagePart:
    """One text the conversation opens with; the last one is the user's prompt.

    A reminder stands inside `tag`; `day` if it holds a date. A Messages client puts all texts of role `user` into one
    message and a `system` note behind it; a chat client sends a message each, in this order.
    """

    part: str
    tag: str | None
    bytes: int
    varies: str
    day: bool = False
    role: str = "user"


@dataclass(frozen=True, slots=True)
class ToolPart:
    """One tool: compact-JSON bytes of the whole definition, UTF-8 bytes of its description."""

    name: str
    bytes: int
    description_bytes: int
    first_argument: str | None = None
    deferred: bool = False  # carries `defer_loading`, whose bytes are part of `bytes`
    bare: bool = False  # its schema is an object without properties and nothing else


@dataclass(frozen=True, slots=True)
class CallPart:
    """How a tool's result comes back: recorded sizes (least, most), its form, and its `is_error` if one is sent."""

    tool: str
    recorded_result_bytes: tuple[int, int]
    result_form: str
    is_error: bool | None


@dataclass(frozen=True, slots=True)
class Attribution:
    """The attribution block's format and the number of hex digits of its two derived fields.

    `cch_hex` is 0 where the client sends no `cch`; `constant` where it sends one that never changes.
    """

    form: str
    suffix_hex: int
    cch_hex: int
    constant: bool = False

    @property
    def varies(self) -> bool:
        """True when the block changes with every body."""
        return self.cch_hex > 0 and not self.constant


@dataclass(frozen=True, slots=True)
class Forms:
    """How a client spells what every client sends.

    thinking: earlier thinking (Messages) or `reasoning_content` (chat) comes back in all later turns.
    collapse: a user or system message of one text block becomes a plain string once its mark has moved on.
    mark_assistant: besides the last block, the last assistant message's last block is marked.
    user_id: "json" is a JSON string, "line" one underscored line, None none.
    blocks: chat messages of these roles carry a list of text blocks instead of a string.
    no_content: what stands beside tool calls in a chat client's assistant message.
    spaced_arguments: tool arguments come back as the model wrote them, with spaces; else re-serialised compactly.
    max_tokens: the request field that limits an answer; None where the client sends none.
    """

    thinking: bool = False
    collapse: bool = True
    mark_assistant: bool = False
    user_id: str | None = None
    blocks: tuple[str, ...] = ()
    no_content: str | None = ""
    spaced_arguments: bool = False
    max_tokens: str | None = "max_tokens"


@dataclass(frozen=True, slots=True)
class CompactionPart:
    """What a client does when its context is full.

    The request: the whole conversation with `request_bytes` of instructions at its end, `max_tokens` for the answer.
    Afterwards: `lead_bytes` in a message of its own, then a message of `note_bytes`, the day's reminder and a text that
    holds the summary, `summary_bytes` as recorded.
    """

    request_bytes: int
    max_tokens: int
    lead_bytes: int
    note_bytes: int
    summary_bytes: int


@dataclass(frozen=True, slots=True)
class SubAgentPart:
    """A conversation of its own that a tool call starts: `call` names the tool and its argument."""

    call: str
    argument: str
    result_bytes: int
    result_form: str  # "list" (of text blocks) or "string"
    attribution: str | None
    parent_header: str | None  # carries the parent's session id where a sub-agent has an id of its own
    system: tuple[int, ...]  # bytes of the identity, where there is one, and of the instructions
    first_message: tuple[MessagePart, ...]
    tools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SidePart:
    """A request beside the conversation: a title, a topic, a count of tokens.

    `system` and `messages` are bytes of texts (`messages` as (role, bytes) pairs); `tools` how many of the
    conversation's own tools; `conversation` True sends the conversation's messages instead.
    """

    name: str
    path: str
    max_tokens: int | None
    system: tuple[int, ...]
    messages: tuple[tuple[str, int], ...]
    tools: int = 0
    attribution: bool = False
    conversation: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScaledSizes:
    """This project's own smaller sizes for the same parts in the same order."""

    tools: int
    tools_bytes: int
    instructions_bytes: int
    first_message_bytes: tuple[int, ...]
