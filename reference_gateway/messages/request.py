"""A Messages request as a chat request.

| Messages | chat |
|---|---|
| system (string or blocks) | one system message at the head; blocks joined without a separator |
| messages | see ``content`` |
| tools, tool_choice | see ``tools`` |
| max_tokens, temperature, top_p, top_k | the same names |
| stop_sequences | stop |
| output_config.format, output_format | response_format |
| metadata.user_id | user (the client's own value, constant in a session; nothing is made up without it) |
| cache_salt, prompt_cache_key | the same names, for clients that know the upstream |

Left out, always and alike, because the chat dialect has no such field or its values mean other things there:
cache_control, thinking, output_config.effort, context_management, service_tier, container, mcp_servers, betas.
"""

from typing import Any

from ..attribution import is_attribution, without_attribution_line
from ..errors import BadRequest
from .checks import Json, a_boolean, a_list, a_number, a_string, an_integer, an_object, required
from .content import blocks_of, conversation, text_block
from .tools import choice_fields, split_tools


def system_text(system: Any, *, strip_attribution: bool) -> str:
    """The whole system prompt as one text. The request's own object is not modified."""
    if isinstance(system, str):
        return without_attribution_line(system) if strip_attribution else system
    texts = []
    for block, kind, place in blocks_of(system, "system"):
        if kind != "text":
            raise BadRequest(f"{place}.type", "must be text in a system prompt")
        text = text_block(block, place)
        if not (strip_attribution and is_attribution(text)):
            texts.append(text)
    return "".join(texts)


def chat_prompt(body: Json, *, strip_attribution: bool) -> Json:
    """``messages`` and, where there are any, ``tools``: what the model is shown.

    Raises:
        BadRequest: a part is missing, of a wrong type, or has no form in the chat dialect.
    """
    tools, deferred = split_tools(body["tools"]) if body.get("tools") is not None else ([], {})
    messages = conversation(required(body, "messages"), deferred)
    if body.get("system") is not None:
        system = system_text(body["system"], strip_attribution=strip_attribution)
        if system:
            messages.insert(0, {"role": "system", "content": system})
    return {"messages": messages, "tools": tools} if tools else {"messages": messages}


def stop_sequences(body: Json) -> list[str]:
    """The client's own stop sequences."""
    sent = body.get("stop_sequences")
    if sent is None:
        return []
    return [a_string(item, f"stop_sequences.{i}") for i, item in enumerate(a_list(sent, "stop_sequences"))]


def wants_thinking(body: Json) -> bool:
    """Whether the client can read thinking blocks in the answer."""
    thinking = body.get("thinking")
    if thinking is None:
        return False
    return an_object(thinking, "thinking").get("type") in ("enabled", "adaptive")


def wants_stream(body: Json) -> bool:
    """The request's ``stream``."""
    stream = body.get("stream")
    return stream is not None and a_boolean(stream, "stream")


def _response_format(body: Json) -> Json | None:
    wanted = body.get("output_format")
    config = body.get("output_config")
    if config is not None:
        wanted = an_object(config, "output_config").get("format", wanted)
    if wanted is None:
        return None
    form = an_object(wanted, "output_config.format")
    if form.get("type") != "json_schema":
        raise BadRequest("output_config.format.type", "must be json_schema")
    schema = an_object(required(form, "schema", "output_config.format."), "output_config.format.schema")
    return {"type": "json_schema", "json_schema": {"name": "output", "schema": schema, "strict": True}}


def _controls(body: Json) -> Json:
    fields: Json = {"max_tokens": an_integer(required(body, "max_tokens"), "max_tokens", at_least=1)}
    for name in ("temperature", "top_p"):
        if body.get(name) is not None:
            fields[name] = a_number(body[name], name)
    if body.get("top_k") is not None:
        fields["top_k"] = an_integer(body["top_k"], "top_k", at_least=-1)
    if stops := stop_sequences(body):
        fields["stop"] = stops
    if response_format := _response_format(body):
        fields["response_format"] = response_format
    if body.get("metadata") is not None:
        user = an_object(body["metadata"], "metadata").get("user_id")
        if user is not None:
            fields["user"] = a_string(user, "metadata.user_id")
    for name in ("cache_salt", "prompt_cache_key"):
        if body.get(name) is not None:
            fields[name] = a_string(body[name], name)
    return fields


def chat_request(body: Json, *, model: str, strip_attribution: bool) -> Json:
    """The plain (unstreamed) chat body for ``model``.

    The same request gives the same bytes; nothing is added that the client did not send.

    Raises:
        BadRequest: as ``chat_prompt``.
    """
    prompt = chat_prompt(body, strip_attribution=strip_attribution)
    chat: Json = {"model": model, **prompt}
    if body.get("tool_choice") is not None:
        chat |= choice_fields(body["tool_choice"], has_tools="tools" in prompt)
    return chat | _controls(body)
