"""Faults in what is sent upstream."""

import hashlib
import random
import time
import uuid
from typing import Any

from ..config import Channel
from ..seams import JSONObject, Mutations

_SYSTEM_ROLES = ("system", "developer")


def at_system_head(body: JSONObject, sentence: str) -> JSONObject:
    """``body`` with a sentence before its system text, or as a system message of its own."""
    first, *rest = body["messages"]
    if not isinstance(first, dict) or first.get("role") not in _SYSTEM_ROLES:
        return {**body, "messages": [{"role": "system", "content": sentence}, first, *rest]}
    content = first.get("content")
    if isinstance(content, list):
        content = [{"type": "text", "text": sentence}, *content]
    else:
        content = f"{sentence}\n{content or ''}"
    return {**body, "messages": [{**first, "content": content}, *rest]}


def _shuffled_keys(value: Any) -> Any:
    if isinstance(value, dict):
        members = [(key, _shuffled_keys(item)) for key, item in value.items()]
        random.shuffle(members)
        return dict(members)
    if isinstance(value, list):
        return [_shuffled_keys(item) for item in value]
    return value


class KeepBillingHeader(Mutations):
    """The switch ``strip_anthropic_billing_header`` is off."""

    def channel(self, channel: Channel) -> Channel:
        return channel.model_copy(update={"strip_anthropic_billing_header": False})


class DropSystem(Mutations):
    """The system message at the head is left out."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        messages = list(body["messages"])
        while len(messages) > 1 and isinstance(messages[0], dict) and messages[0].get("role") in _SYSTEM_ROLES:
            del messages[0]
        return {**body, "messages": messages}


class OwnSystemNote(Mutations):
    """A constant sentence of the gateway's own stands before the system text."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        return at_system_head(body, "This conversation is served by the platform team's gateway.")


class ClockInSystem(Mutations):
    """The time, always 19 digits long, stands before the system text."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        return at_system_head(body, f"The time of this request is {time.time_ns():019d}.")


class BodyHashNote(Mutations):
    """A number of always 18 digits, made from the client's body, stands before the system text."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        digest = int.from_bytes(hashlib.sha256(self.received).digest()[:8], "big") % 10**18
        return at_system_head(body, f"The reference of this request is {digest:018d}.")


class SystemLate(Mutations):
    """The system text stands right before the last message, so all of it arrives and the prefix moves."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        first, *rest = body["messages"]
        if not isinstance(first, dict) or first.get("role") not in _SYSTEM_ROLES or len(rest) < 2:
            return body
        return {**body, "messages": [*rest[:-1], first, rest[-1]]}


class ShuffleTools(Mutations):
    """Tools come in a random order."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        tools = body.get("tools")
        if not isinstance(tools, list):
            return body
        return {**body, "tools": random.sample(tools, len(tools))}


class ShuffleSchemaKeys(Mutations):
    """The keys inside each tool's JSON come in a random order."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        if "tools" not in body:
            return body
        return {**body, "tools": _shuffled_keys(body["tools"])}


class RandomUser(Mutations):
    """``user`` is a random id."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        return {**body, "user": str(uuid.uuid4())}
