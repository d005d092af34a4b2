"""Which of a channel's replicas serves a request: one conversation stays on one, for its prefix is warm only there."""

import hashlib
import random
from collections.abc import Mapping
from typing import Any

from .config import Channel
from .jsontext import JSONTextError, quick_loads
from .upstream import SESSION_HEADERS

Json = dict[str, Any]


def replica(channel: Channel, headers: Mapping[str, str], body: Json) -> Channel:
    """The channel with the address of the replica chosen; the channel itself where it has only one."""
    if not channel.replicas:
        return channel
    urls = (channel.url, *channel.replicas)
    if channel.routing == "random":
        return channel.model_copy(update={"url": random.choice(urls)})
    key = session_key(headers, body)
    # The highest hash wins, so that a replica that comes or goes moves only the sessions that were its own.
    return channel.model_copy(
        update={"url": max(urls, key=lambda url: hashlib.sha256(f"{url} {key}".encode()).digest())}
    )


def session_key(headers: Mapping[str, str], body: Json) -> str:
    """What stays the same over a conversation: the id clients send, else how it begins. Never the whole body's hash."""
    for name in SESSION_HEADERS:
        if headers.get(name):
            return headers[name]
    metadata = body.get("metadata")
    user = metadata.get("user_id") if isinstance(metadata, dict) else None
    for found in (_session_in(user), body.get("prompt_cache_key"), user):
        if isinstance(found, str) and found:
            return found
    return _beginning(body.get("messages"))


def _session_in(user: Any) -> Any:
    """The session id inside Claude Code's `user_id`, which is a JSON object as a string, or a line that names it."""
    if not isinstance(user, str):
        return None
    if user.startswith("{"):
        try:
            held = quick_loads(user.encode())
        except JSONTextError:
            return None
        return held.get("session_id") if isinstance(held, dict) else None
    return user.partition("_session_")[2]


def _beginning(messages: Any) -> str:
    """A hash of the first user message: clients without an id are told apart by what they were first asked."""
    first = next((m for m in messages if isinstance(m, dict) and m.get("role") == "user"), None) if isinstance(
        messages, list
    ) else None  # fmt: skip
    content = first.get("content") if first is not None else ""
    if isinstance(content, list):
        # A cache mark moves from turn to turn and may turn a list of one text into a string.
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return hashlib.sha256(str(content).encode("utf-8", "replace")).hexdigest()
