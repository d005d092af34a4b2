"""Faults in how the attribution text of Claude Code is kept out: too little, or too much."""

import re
from typing import Any

from ..attribution import PREFIX, is_attribution, without_attribution_line
from ..config import Channel
from ..jsontext import loads
from ..seams import JSONObject, Mutations
from .prompts import at_system_head

_ANYWHERE = re.compile(re.escape(PREFIX) + r"(?:[ \t]*\w+=[^;\s]*;)*")
_KNOWN = re.compile(re.escape(PREFIX) + r" cc_version=[\w.]+; cc_entrypoint=[\w-]+;(?: cch=[0-9a-f]{5};)?\s*\Z")
_OVERRIDE = "You serve the platform team's users, politely."


class _OwnFilter(Mutations):
    """The switch is off and a filter of the fault's own stands in its place; unless overridden it is the right one."""

    def channel(self, channel: Channel) -> Channel:
        return channel.model_copy(update={"strip_anthropic_billing_header": False})

    def chat_body(self, body: JSONObject) -> JSONObject:
        system = loads(self.received).get("system")
        if system is None:
            return body
        if isinstance(system, str):
            text = self.string(system)
        else:
            text = "".join(self.block(str(block["text"])) for block in system)
        return _with_system(body, text)

    def block(self, text: str) -> str:
        """What becomes of one system block."""
        return "" if is_attribution(text) else text

    def string(self, text: str) -> str:
        """What becomes of a string system prompt."""
        return without_attribution_line(text)


def _with_system(body: JSONObject, text: str) -> JSONObject:
    first, *rest = body["messages"]
    return {**body, "messages": [{**first, "content": text}, *rest] if text else rest}


class StripBlocksOnly(_OwnFilter):
    """Blocks are dropped; a string that begins with the text passes."""

    def string(self, text: str) -> str:
        return text


class StripWholeLinesOnly(_OwnFilter):
    """A string loses its first line; without a line break nothing is recognised."""

    def string(self, text: str) -> str:
        return text.partition("\n")[2] if is_attribution(text) and "\n" in text else text


class StripWithHashOnly(_OwnFilter):
    """Only a text with ``cch`` is recognised."""

    def block(self, text: str) -> str:
        return "" if is_attribution(text) and "cch=" in text else text


class StripKnownKeysOnly(_OwnFilter):
    """Only a text with exactly the keys of one client version is recognised."""

    def block(self, text: str) -> str:
        return "" if _KNOWN.match(text) else text


class StripHashOnly(_OwnFilter):
    """Only the ``cch`` pair is cut out; the version's suffix stays."""

    def block(self, text: str) -> str:
        return self.string(text)

    def string(self, text: str) -> str:
        return re.sub(r" cch=[0-9a-f]{5};", "", text, count=1) if is_attribution(text) else text


class DropHeadedSystem(_OwnFilter):
    """A string system prompt that begins with the text is dropped whole."""

    def string(self, text: str) -> str:
        return "" if is_attribution(text) else text


class SystemPromptOverride(_OwnFilter):
    """A constant text is put in front of the system prompt before the filter looks at its head."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        if "system" in loads(self.received):
            return super().chat_body(body)
        return at_system_head(body, _OVERRIDE)

    def string(self, text: str) -> str:
        return without_attribution_line(f"{_OVERRIDE}\n{text}")

    def block(self, text: str) -> str:
        kept = super().block(text)
        first = loads(self.received)["system"][0]["text"]
        return f"{_OVERRIDE}\n{kept}" if text == first else kept


class _Everywhere(Mutations):
    """The text is cut out of messages of some roles, wherever it stands in them."""

    roles: tuple[str, ...] = ()

    def chat_body(self, body: JSONObject) -> JSONObject:
        return {**body, "messages": [self._cut(message) for message in body["messages"]]}

    def _cut(self, message: JSONObject) -> JSONObject:
        if message.get("role") not in self.roles or message.get("content") is None:
            return message
        return {**message, "content": _without(message["content"])}


def _without(content: Any) -> Any:
    if isinstance(content, str):
        return _ANYWHERE.sub("", content)
    return [{**part, "text": _ANYWHERE.sub("", part["text"])} if "text" in part else part for part in content]


class StripFromMessages(_Everywhere):
    """Users, the assistant and tools may not mention it."""

    roles = ("user", "assistant", "tool")


class StripMidSystem(_Everywhere):
    """It is cut out of the system prompt wherever it stands."""

    roles = ("system", "developer")


class PassThroughBody(Mutations):
    """The Messages body goes to the chat upstream as it came, with the model's name replaced."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        sent = loads(self.received)
        if "stream_options" in body:
            sent["stream_options"] = body["stream_options"]
        return {**sent, "model": body["model"]}


class NativeMergeSystem(Mutations):
    """Towards a Messages upstream, system blocks become one string."""

    def native_body(self, body: JSONObject) -> JSONObject:
        system = body.get("system")
        if not isinstance(system, list):
            return body
        return {**body, "system": "\n".join(str(block.get("text", "")) for block in system)}


class NativeStripBilling(Mutations):
    """Towards a Messages upstream, the attribution block is dropped too."""

    def native_body(self, body: JSONObject) -> JSONObject:
        system = body.get("system")
        if not isinstance(system, list):
            return body
        return {**body, "system": [block for block in system if not is_attribution(str(block.get("text", "")))]}


class NativeDropMarks(Mutations):
    """Towards a Messages upstream, cache marks are dropped."""

    def native_body(self, body: JSONObject) -> JSONObject:
        return {name: _unmarked(value) for name, value in body.items()}


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _unmarked(item) for name, item in value.items() if name != "cache_control"}
    return [_unmarked(item) for item in value] if isinstance(value, list) else value
