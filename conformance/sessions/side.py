"""Requests a client sends beside its conversation: titles, topics, counts of tokens."""

from __future__ import annotations

from typing import Any, Final

from .attribution import attribution_text, sealed
from .filler import filler
from .profile_parts import SidePart
from .session import Session
from .sizing import copied

COUNT_TOKENS: Final = "/v1/messages/count_tokens"


def side_body(session: Session, part: SidePart, number: int) -> dict[str, Any]:
    """The body of side request `part`, the `number`th of its client's: sizes as recorded, whatever the shape.

    It asks for at most as many tokens as the session does. Its texts belong to the client, not to the conversation:
    only what is salted there, a tool's description, is salted here.
    """
    main = session.body()
    profile = session.profile
    where = f"{profile.client}-{profile.version}/side{number}"
    system = [filler(f"{where}/system{i}", size) for i, size in enumerate(part.system)]
    texts = [(role, filler(f"{where}/text{i}", size)) for i, (role, size) in enumerate(part.messages)]
    if part.attribution and profile.attribution is not None:
        system.insert(0, attribution_text(profile, texts[0][1]))
    messages = main["messages"] if part.conversation else [{"role": role, "content": text} for role, text in texts]
    values: dict[str, Any] = {"model": session.model, "messages": messages}
    if part.path == COUNT_TOKENS:
        return values | ({"tools": main["tools"][: part.tools]} if part.tools and "tools" in main else {})
    if profile.dialect == "chat":
        values["messages"] = [{"role": "system", "content": text} for text in system] + messages
        values["max_tokens"] = session.max_tokens
        return values
    values["system"] = [{"type": "text", "text": text} for text in system]
    values |= {"tools": main["tools"][: part.tools] if "tools" in main else []}
    if "metadata" in main:
        values["metadata"] = main["metadata"]
    values["max_tokens"] = session.max_tokens
    values |= copied(dict(part.fields))
    return sealed(values)
