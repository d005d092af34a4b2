"""A plain chat answer as a Messages answer."""

from typing import Any

from ..errors import UpstreamBroken
from ..jsontext import JSONTextError, loads
from ..upstream import first_choice
from .checks import Json
from .usage import stop_reason


def message_id(upstream_id: Any) -> str:
    """The answer's id, made from the upstream's so that both logs can be joined."""
    text = upstream_id if isinstance(upstream_id, str) and upstream_id else "unnamed"
    return text if text.startswith("msg_") else f"msg_{text}"


def call_id(sent: Any, upstream_id: Any, position: int) -> str:
    """A tool call's id: the upstream's own, or one made from the answer's id and the call's position."""
    return sent if isinstance(sent, str) and sent else f"{message_id(upstream_id)}_call_{position}"


def tool_input(arguments: Any) -> Json:
    """Tool arguments as an object, number spelling kept.

    Text that is no JSON object (a call cut off by ``max_tokens``) is wrapped as ``{"INVALID_JSON": text}``, the
    form Anthropic's documentation of fine-grained tool streaming gives for it.
    """
    if isinstance(arguments, dict):
        return arguments
    if not isinstance(arguments, str) or not arguments.strip():
        return {}
    try:
        value = loads(arguments)
    except JSONTextError:
        value = None
    return value if isinstance(value, dict) else {"INVALID_JSON": arguments}


def text_of(content: Any) -> str:
    """The text of chat content in either form."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(text for text in texts if isinstance(text, str))
    return ""


def reasoning_of(part: Json) -> str:
    """Reasoning text, under whichever of its two field names."""
    return text_of(part.get("reasoning_content")) or text_of(part.get("reasoning"))


def _blocks(answer: Json, message: Json, *, thinking: bool) -> list[Json]:
    blocks: list[Json] = []
    if thinking and (reasoning := reasoning_of(message)):
        blocks.append({"type": "thinking", "thinking": reasoning, "signature": ""})
    if text := text_of(message.get("content")) or text_of(message.get("refusal")):
        blocks.append({"type": "text", "text": text})
    for position, call in enumerate(message.get("tool_calls") or ()):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise UpstreamBroken("the upstream sent a tool call without a name")
        blocks.append(
            {
                "type": "tool_use",
                "id": call_id(call.get("id"), answer.get("id"), position),
                "name": function["name"],
                "input": tool_input(function.get("arguments")),
            }
        )
    return blocks


def messages_response(answer: Any, *, model: str, usage: Json, stops: list[str], thinking: bool) -> Json:
    """The Messages answer. ``model`` is the name the client asked for, ``usage`` already in Anthropic's form.

    Raises:
        UpstreamBroken: the answer is no finished chat completion.
    """
    choice = first_choice(answer)
    message = choice.get("message") if choice else None
    if choice is None or not isinstance(message, dict):
        raise UpstreamBroken("the upstream's answer is not a chat completion")
    blocks = _blocks(answer, message, thinking=thinking)
    has_calls = any(block["type"] == "tool_use" for block in blocks)
    reason = stop_reason(choice.get("finish_reason"), choice.get("stop_reason"), stops=stops, has_calls=has_calls)
    if reason is None:
        raise UpstreamBroken("the upstream did not finish its answer")
    return {
        "id": message_id(answer.get("id")),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": reason[0],
        "stop_sequence": reason[1],
        "stop_details": None,
        "usage": usage,
    }
