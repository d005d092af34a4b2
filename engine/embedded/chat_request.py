"""A body of `/v1/chat/completions` as the engine understands it.

Unknown fields are ignored, as vLLM does. Sampling fields are checked and have no effect: the model is deterministic.
Images are rendered as a fixed placeholder that carries the SHA-256 of their bytes (of the address, if they are not
inline), so equal images share a prefix and different ones do not. Earlier reasoning is never rendered.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from engine.embedded import fields
from engine.embedded.answers import ToolChoice
from engine.embedded.errors import BadRequest
from engine.embedded.templates import Json, Message, ToolCall

_DATA_URL = re.compile(r"data:image/[\w.+-]+;base64,", re.ASCII)
_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A checked request; `max_tokens` None means as many as fit."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[Json, ...]
    choice: ToolChoice
    stream: bool
    include_usage: bool
    max_tokens: int | None
    stops: tuple[str, ...]
    cache_salt: str | None


def parse_chat(body: Json) -> ChatRequest:
    """Check and read a request body. Raises `BadRequest` naming the field at fault."""
    model = fields.text(body, "model")
    if not model:
        raise BadRequest("model is missing: name one of those /v1/models lists.", "model")
    messages, tools = parse_conversation(body)
    if fields.whole(body, "n", least=1) not in (None, 1):
        raise BadRequest("n must be 1: this engine generates one answer a request.", "n")
    if fields.flag(body, "logprobs"):
        raise BadRequest("logprobs are not supported: leave the field out or set it to false.", "logprobs")
    for name, least, most in (
        ("temperature", 0.0, 2.0),
        ("top_p", 0.0, 1.0),
        ("frequency_penalty", -2.0, 2.0),
        ("presence_penalty", -2.0, 2.0),
    ):
        fields.check_number(body, name, least, most)
    stream = fields.flag(body, "stream")
    options = body.get("stream_options")
    if options is not None and not stream:
        raise BadRequest("stream_options can only be given when stream is true.", "stream_options")
    include_usage = options is not None and fields.flag(fields.as_object(options, "stream_options"), "include_usage")
    salt = fields.text(body, "cache_salt")
    if salt == "":
        raise BadRequest("cache_salt must not be empty: leave the field out for no salt.", "cache_salt")
    older = fields.whole(body, "max_tokens", least=1)
    newer = fields.whole(body, "max_completion_tokens", least=1)
    return ChatRequest(
        model=model,
        messages=messages,
        tools=tools,
        choice=_choice(body.get("tool_choice"), tools),
        stream=stream,
        include_usage=include_usage,
        max_tokens=older if newer is None else newer,
        stops=_stops(body.get("stop")),
        cache_salt=salt,
    )


def parse_conversation(body: Json) -> tuple[tuple[Message, ...], tuple[Json, ...]]:
    """The messages and tools of a body. Raises `BadRequest`."""
    if "messages" not in body:
        raise BadRequest("messages is missing.", "messages")
    listed = fields.as_list(body["messages"], "messages")
    if not listed:
        raise BadRequest("messages must hold at least one message.", "messages")
    messages = tuple(_message(item, f"messages[{place}]") for place, item in enumerate(listed))
    offered = body.get("tools")
    if offered is None:
        return messages, ()
    return messages, tuple(
        _tool(item, f"tools[{place}]") for place, item in enumerate(fields.as_list(offered, "tools"))
    )


def _message(item: object, where: str) -> Message:
    message = fields.as_object(item, where)
    given = message.get("role")
    role = _ROLES.get(given) if isinstance(given, str) else None
    if role is None:
        raise BadRequest(f"{where}.role must be one of {', '.join(_ROLES)}.", f"{where}.role")
    content = message.get("content")
    if content is None and role != "assistant":
        raise BadRequest(f"{where}.content is missing.", f"{where}.content")
    text = content if isinstance(content, str) else _joined_parts(content, f"{where}.content")
    calls = message.get("tool_calls")
    if calls is None or role != "assistant":
        return Message(role, text)
    listed = fields.as_list(calls, f"{where}.tool_calls")
    return Message(role, text, tuple(_call(call, f"{where}.tool_calls[{n}]") for n, call in enumerate(listed)))


def _joined_parts(content: object, where: str) -> str:
    if content is None:
        return ""
    if not isinstance(content, list):
        raise BadRequest(f"{where} must be a string or a list of parts.", where)
    return "\n".join(_part(item, f"{where}[{place}]") for place, item in enumerate(content))


def _part(item: object, where: str) -> str:
    part = fields.as_object(item, where)
    kind = part.get("type")
    if kind == "text":
        return fields.as_text(part.get("text"), f"{where}.text")
    if kind == "refusal":
        return fields.as_text(part.get("refusal"), f"{where}.refusal")
    if kind == "image_url":
        image = fields.as_object(part.get("image_url"), f"{where}.image_url")
        return _image(fields.as_text(image.get("url"), f"{where}.image_url.url"), f"{where}.image_url.url")
    raise BadRequest(f"{where}.type must be text or image_url: this engine takes no other parts.", f"{where}.type")


def _image(url: str, where: str) -> str:
    inline = _DATA_URL.match(url)
    if inline:
        try:
            data = base64.b64decode(url[inline.end() :], validate=True)
        except binascii.Error:
            raise BadRequest(f"{where} is not valid base64.", where) from None
    elif url.startswith(("https://", "http://")):
        data = url.encode()
    else:
        raise BadRequest(f"{where} must be an http(s) address or data:image/...;base64,...", where)
    return f"[image {sha256(data).hexdigest()}]"


def _call(item: object, where: str) -> ToolCall:
    function = fields.as_object(fields.as_object(item, where).get("function"), f"{where}.function")
    return ToolCall(
        fields.as_text(function.get("name"), f"{where}.function.name"),
        fields.as_text(function.get("arguments"), f"{where}.function.arguments"),
    )


def _tool(item: object, where: str) -> Json:
    tool = fields.as_object(item, where)
    if tool.get("type") != "function":
        raise BadRequest(f"{where}.type must be function.", f"{where}.type")
    function = fields.as_object(tool.get("function"), f"{where}.function")
    if not fields.as_text(function.get("name"), f"{where}.function.name"):
        raise BadRequest(f"{where}.function.name must not be empty.", f"{where}.function.name")
    return tool


def _choice(value: object, tools: tuple[Json, ...]) -> ToolChoice:
    if value is None:
        return ToolChoice()
    if value in ("none", "auto", "required"):
        if value == "required" and not tools:
            raise BadRequest("tool_choice 'required' needs tools.", "tool_choice")
        return ToolChoice(str(value))
    if isinstance(value, Mapping) and value.get("type") == "function":
        name = fields.as_text(
            fields.as_object(value.get("function"), "tool_choice.function").get("name"), "tool_choice"
        )
        if all(fields.as_object(tool["function"], "tools")["name"] != name for tool in tools):
            raise BadRequest("tool_choice names a tool that is not among tools.", "tool_choice")
        return ToolChoice("named", name)
    raise BadRequest("tool_choice must be none, auto, required, or an object that names a function.", "tool_choice")


def _stops(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    stops = [value] if isinstance(value, str) else fields.as_list(value, "stop")
    return tuple(stop for stop in (fields.as_text(item, "stop") for item in stops) if stop)
