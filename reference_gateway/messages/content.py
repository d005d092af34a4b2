"""Content blocks of one message, as chat content parts, tool calls and tool messages.

Rules that keep prompts stable:
- a message with exactly one text becomes a string, whether it came as a string or as a one-block list (a moving
  ``cache_control`` mark turns one into the other from turn to turn); several blocks become a list of parts, so
  their boundaries survive;
- ``thinking`` and ``redacted_thinking`` are left out in every turn alike, by type and never by position;
- only named fields are read, so marks and unknown keys never reach the prompt;
- ids, texts, image data and tool arguments go through unchanged.

A block that an OpenAI-chat upstream cannot be given is refused with its place, never dropped in silence.
"""

from typing import Any

from ..errors import BadRequest
from ..jsontext import dumps
from .checks import Json, a_boolean, a_list, a_string, an_object, required

ERROR_MARK = "[tool error] "
"""Stands before the text of a tool result with ``is_error``: the chat dialect has no field for it."""

Definitions = dict[str, Json]
"""Deferred tools by name, as chat tool definitions."""


def collapse(parts: list[Json]) -> str | list[Json]:
    """Parts as chat content: nothing is ``""``, one text a string, anything else the list itself."""
    if not parts:
        return ""
    if len(parts) == 1 and parts[0]["type"] == "text":
        return str(parts[0]["text"])
    return parts


def _text(value: str) -> Json:
    return {"type": "text", "text": value}


def text_block(block: Json, place: str) -> str:
    """The text of a ``text`` block."""
    return a_string(required(block, "text", f"{place}."), f"{place}.text")


def blocks_of(content: Any, place: str) -> list[tuple[Json, str, str]]:
    """Content in either form as (block, type, place)."""
    if isinstance(content, str):
        return [(_text(content), "text", place)]
    if not isinstance(content, list):
        raise BadRequest(place, "must be a string or a list of content blocks")
    found = []
    for index, item in enumerate(content):
        here = f"{place}.{index}"
        block = an_object(item, here)
        found.append((block, a_string(required(block, "type", f"{here}."), f"{here}.type"), here))
    return found


def _unsupported(kind: str, place: str, role: str) -> BadRequest:
    # The type's name is the client's own text: quoted only if it looks like a name.
    name = f"{kind!r} " if kind.isidentifier() and len(kind) < 48 else ""
    return BadRequest(place, f"a {name}block cannot be sent to an openai-chat upstream in a {role}; remove it")


def _image(block: Json, place: str) -> Json:
    source = an_object(required(block, "source", f"{place}."), f"{place}.source")
    kind = source.get("type")
    if kind == "base64":
        media = a_string(required(source, "media_type", f"{place}.source."), f"{place}.source.media_type")
        data = a_string(required(source, "data", f"{place}.source."), f"{place}.source.data")
        url = f"data:{media};base64,{data}"
    elif kind == "url":
        url = a_string(required(source, "url", f"{place}.source."), f"{place}.source.url")
    else:
        raise BadRequest(f"{place}.source.type", "must be base64 or url for an openai-chat upstream")
    return {"type": "image_url", "image_url": {"url": url}}


def _document(block: Json, place: str) -> list[Json]:
    source = an_object(required(block, "source", f"{place}."), f"{place}.source")
    if source.get("type") == "text":
        data = a_string(required(source, "data", f"{place}.source."), f"{place}.source.data")
        return [_text(data)]
    if source.get("type") == "content":
        return _parts(required(source, "content", f"{place}.source."), f"{place}.source.content", {}, "document")
    raise BadRequest(f"{place}.source.type", "must be text or content for an openai-chat upstream")


def _reference(block: Json, place: str, deferred: Definitions) -> Json:
    name = a_string(required(block, "tool_name", f"{place}."), f"{place}.tool_name")
    # The definition enters the prompt where the client found the tool, so that no earlier byte moves.
    return _text(dumps(deferred[name]["function"]).decode() if name in deferred else name)


def _parts(content: Any, place: str, deferred: Definitions, role: str) -> list[Json]:
    parts: list[Json] = []
    for block, kind, here in blocks_of(content, place):
        if kind == "text":
            parts.append(_text(text_block(block, here)))
        elif kind == "image":
            parts.append(_image(block, here))
        elif kind == "document":
            parts += _document(block, here)
        elif kind == "tool_reference" and role == "tool result":
            parts.append(_reference(block, here, deferred))
        else:
            raise _unsupported(kind, here, role)
    return parts


def _tool_message(block: Json, place: str, deferred: Definitions) -> Json:
    call = a_string(required(block, "tool_use_id", f"{place}."), f"{place}.tool_use_id")
    content = block.get("content")
    parts = [] if content is None else _parts(content, f"{place}.content", deferred, "tool result")
    is_error = block.get("is_error")
    if is_error is not None and a_boolean(is_error, f"{place}.is_error"):
        if parts and parts[0]["type"] == "text":
            parts[0] = _text(ERROR_MARK + str(parts[0]["text"]))
        else:
            parts.insert(0, _text(ERROR_MARK))
    return {"role": "tool", "tool_call_id": call, "content": collapse(parts)}


def user_messages(content: Any, place: str, deferred: Definitions) -> list[Json]:
    """A user message: its tool results in the order sent, then what else it holds as one user message."""
    results: list[Json] = []
    parts: list[Json] = []
    for block, kind, here in blocks_of(content, place):
        if kind == "tool_result":
            results.append(_tool_message(block, here, deferred))
        elif kind == "text":
            parts.append(_text(text_block(block, here)))
        elif kind == "image":
            parts.append(_image(block, here))
        elif kind == "document":
            parts += _document(block, here)
        else:
            raise _unsupported(kind, here, "user message")
    if parts or not results:
        results.append({"role": "user", "content": collapse(parts)})
    return results


def assistant_message(content: Any, place: str) -> Json:
    """An assistant message: texts in order, then tool calls in order; ``content`` is null beside calls alone."""
    parts: list[Json] = []
    calls: list[Json] = []
    for block, kind, here in blocks_of(content, place):
        if kind == "text":
            parts.append(_text(text_block(block, here)))
        elif kind == "tool_use":
            calls.append(_tool_call(block, here))
        elif kind not in ("thinking", "redacted_thinking"):
            raise _unsupported(kind, here, "assistant message")
    message: Json = {"role": "assistant", "content": collapse(parts) if parts or not calls else None}
    if calls:
        message["tool_calls"] = calls
    return message


def _tool_call(block: Json, place: str) -> Json:
    arguments = an_object(required(block, "input", f"{place}."), f"{place}.input")
    return {
        "id": a_string(required(block, "id", f"{place}."), f"{place}.id"),
        "type": "function",
        "function": {
            "name": a_string(required(block, "name", f"{place}."), f"{place}.name"),
            "arguments": dumps(arguments).decode(),
        },
    }


def system_message(content: Any, place: str) -> Json:
    """A ``role:"system"`` message inside the conversation, left where it is."""
    parts = []
    for block, kind, here in blocks_of(content, place):
        if kind != "text":
            raise _unsupported(kind, here, "system message")
        parts.append(_text(text_block(block, here)))
    return {"role": "system", "content": collapse(parts)}


def conversation(messages: Any, deferred: Definitions) -> list[Json]:
    """All messages in order."""
    translated: list[Json] = []
    sent = a_list(messages, "messages")
    if not sent:
        raise BadRequest("messages", "must hold at least one message")
    for index, item in enumerate(sent):
        place = f"messages.{index}"
        message = an_object(item, place)
        role = required(message, "role", f"{place}.")
        content = required(message, "content", f"{place}.")
        if role == "user":
            translated += user_messages(content, f"{place}.content", deferred)
        elif role == "assistant":
            translated.append(assistant_message(content, f"{place}.content"))
        elif role == "system":
            translated.append(system_message(content, f"{place}.content"))
        else:
            raise BadRequest(f"{place}.role", "must be user, assistant or system")
    return translated
