"""What the preflight asks: a request as coding clients send it."""

from __future__ import annotations

from typing import Any

from conformance.sessions import ChatCodingSession, ClaudeCodeSession, Session
from conformance.verdicts import Entry

BASE_BYTES = 2_400
TOOLS = 3


def client_session(entry: Entry, token: str, model: str) -> Session:
    """A short session of a real client: tools, system blocks with their cache marks, and one question.

    `token` is its salt, so that a recorder knows the request by it.
    """
    if entry is Entry.CHAT:
        return ChatCodingSession(seed="preflight", salt=token, tools=TOOLS, base_bytes=BASE_BYTES, model=model)
    return ClaudeCodeSession(seed="preflight", salt=token, tools=TOOLS, base_bytes=BASE_BYTES, model=model)


def client_body(session: Session, *, stream: bool, tools: bool = True) -> dict[str, Any]:
    """The request of `session`, as its client streams it, or plain, or without what makes a client a coding client."""
    body = session.body()
    if not tools:
        body = {key: value for key, value in body.items() if key not in ("tools", "tool_choice", "parallel_tool_calls")}
    if not stream:
        return {key: value for key, value in body.items() if key not in ("stream", "stream_options")}
    asked = {} if "system" in body else {"stream_options": {"include_usage": True}}
    return {**body, "stream": True, **asked}
