"""``/v1/chat/completions``: the client's bytes go through, with the model's name replaced.

In streams the upstream is asked for usage even if the client did not ask; what comes back for that reason is kept
from such a client. Chunks and answers that need no change keep their bytes.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.responses import Response

from .channels import Route
from .counts import repaired
from .errors import GatewayError, Unfinished, UpstreamBroken, openai_error
from .exchange import Exchange
from .jsontext import JSONTextError, dumps, quick_loads
from .serving import event_stream
from .sse import data_event
from .upstream import CHAT_PATH, UpstreamStream, first_choice

Json = dict[str, Any]


def _checked(body: Json) -> tuple[bool, Json | None]:
    """The request's ``stream`` and ``stream_options``; the rest is the upstream's to judge."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise GatewayError(400, "messages: is required and must be a list of at least one message")
    stream, options = body.get("stream"), body.get("stream_options")
    if stream is not None and not isinstance(stream, bool):
        raise GatewayError(400, "stream: must be true or false")
    if options is not None and not isinstance(options, dict):
        raise GatewayError(400, "stream_options: must be an object")
    return bool(stream), options


def _upstream_body(exchange: Exchange, route: Route, options: Json | None) -> bytes:
    document = exchange.document
    changes: Json = {}
    if exchange.model != route.model:
        changes["model"] = route.model
    if exchange.streamed:
        wanted = exchange.mutations.stream_options(options)
        if wanted != options:
            changes["stream_options"] = wanted
    body = {**document.value, **changes}
    mutated = exchange.mutations.chat_body(body)
    if mutated is not body:
        return dumps(mutated)
    return document.with_members(changes) if changes else exchange.received


async def chat(exchange: Exchange) -> Response:
    """Serve one chat request."""
    route = exchange.read()
    if route.channel.dialect != "openai-chat":
        message = "model: its channel speaks Anthropic Messages only; use /v1/messages"
        raise GatewayError(404, message, code="model_not_found")
    exchange.streamed, options = _checked(exchange.document.value)
    body = _upstream_body(exchange, route, options)
    if exchange.streamed:
        stream = await exchange.upstream().stream(CHAT_PATH, body)
        asked = bool(options and options.get("include_usage"))
        return event_stream(exchange, stream, _relay(exchange, stream, asked=asked), _error_event)

    received = await exchange.upstream().post(CHAT_PATH, body)
    try:
        answer = quick_loads(received)
    except JSONTextError as error:
        raise UpstreamBroken("the upstream's answer is not JSON") from error
    if embedded := exchange.upstream().embedded_error(answer):
        raise embedded
    if not isinstance(answer, dict) or first_choice(answer) is None:
        raise UpstreamBroken("the upstream's answer is not a chat completion")
    exchange.usage = answer.get("usage")
    usage = _client_usage(exchange, exchange.usage)
    counted = answer if usage is exchange.usage else {**answer, "usage": usage}
    sent = exchange.mutations.plain_answer(counted)
    content = received if sent is answer else dumps(sent)
    return Response(content, media_type="application/json")


def _client_usage(exchange: Exchange, raw: Any) -> Any:
    mutations = exchange.mutations
    usage = mutations.chat_usage(mutations.upstream_usage(raw if isinstance(raw, dict) else None))
    return repaired(usage) if usage is not None else raw


async def _relay(exchange: Exchange, stream: UpstreamStream, *, asked: bool) -> AsyncGenerator[bytes]:
    finished = False
    claimed: str | None = None
    try:
        async with aclosing(stream.chunks()) as batches:
            async for batch in batches:
                # What arrived together leaves together: a write costs more than a look at a chunk.
                written = b""
                for text, chunk in batch:
                    choice = first_choice(chunk)
                    finished = finished or bool(choice and choice.get("finish_reason") is not None)
                    sent = _client_chunk(exchange, chunk, asked=asked)
                    if sent is not None:
                        written += data_event(text.encode() if sent is chunk else dumps(sent))
                if written:
                    yield written
        if not finished:
            raise Unfinished
    except GatewayError as error:
        claimed = exchange.mutations.finish_of_broken(cut=not isinstance(error, Unfinished))
        if claimed is None:
            raise
    if claimed:
        choice = {"index": 0, "delta": {}, "finish_reason": claimed}
        yield data_event(dumps({"object": "chat.completion.chunk", "choices": [choice]}))
    if claimed != "":
        yield data_event(b"[DONE]")


def _client_chunk(exchange: Exchange, chunk: Json, *, asked: bool) -> Json | None:
    sent = chunk
    if isinstance(chunk.get("usage"), dict):
        exchange.usage = chunk["usage"]
        usage = _client_usage(exchange, exchange.usage)
        if usage is not exchange.usage:
            sent = {**chunk, "usage": usage}
    if not asked and "usage" in chunk:
        extra = chunk.get("choices") == [] and chunk["usage"] is not None
        if extra and exchange.mutations.hides_usage_chunk():
            return None
        if not extra:
            sent = {name: value for name, value in sent.items() if name != "usage"}
    return exchange.mutations.chat_chunk(sent)


def _error_event(error: GatewayError) -> bytes:
    return data_event(dumps(openai_error(error)))
