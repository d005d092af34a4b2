"""``/v1/messages`` in front of an openai-chat upstream."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.responses import Response

from ..channels import Route
from ..counts import read_counts
from ..errors import GatewayError, Unfinished, UpstreamBroken
from ..exchange import Exchange
from ..jsontext import JSONTextError, dumps, quick_loads
from ..serving import event_stream
from ..sse import named_event
from ..upstream import CHAT_PATH, UpstreamStream
from . import native
from .checks import Json
from .errors import error_event
from .request import chat_request, stop_sequences, wants_stream, wants_thinking
from .response import messages_response
from .stream import MessagesStream
from .usage import messages_usage, start_usage


def _upstream_body(exchange: Exchange, route: Route) -> Json:
    strip = route.channel.strip_anthropic_billing_header
    chat = chat_request(exchange.document.value, model=route.model, strip_attribution=strip)
    if exchange.streamed:
        chat["stream"] = True
        options = exchange.mutations.stream_options(None)
        if options:
            chat["stream_options"] = options
    return exchange.mutations.chat_body(chat)


def _final_usage(exchange: Exchange, raw: Json | None, *, exclude_cache: bool) -> Json:
    mutations = exchange.mutations
    counts = read_counts(mutations.upstream_usage(raw))
    return mutations.messages_usage(messages_usage(counts, exclude_cache=exclude_cache))


async def messages(exchange: Exchange) -> Response:
    """Serve one Messages request."""
    route = exchange.read()
    if route.channel.dialect == "anthropic":
        return await native.forward(exchange, route, "/v1/messages")
    body = exchange.document.value
    exchange.streamed = wants_stream(body)
    chat = _upstream_body(exchange, route)
    exclude = route.channel.anthropic_messages_exclude_cache
    if exchange.streamed:
        translator = MessagesStream(
            model=exchange.model or "",
            stops=stop_sequences(body),
            thinking=wants_thinking(body),
            start_usage=exchange.mutations.start_usage(start_usage(exchange.received, exclude_cache=exclude)),
            final_usage=lambda raw: _final_usage(exchange, raw, exclude_cache=exclude),
            keep=lambda held, seen, with_choices: exchange.mutations.kept_usage(held, seen, with_choices=with_choices),
        )
        stream = await exchange.upstream().stream(CHAT_PATH, dumps(chat))
        return event_stream(exchange, stream, _events(exchange, stream, translator), error_event)

    received = await exchange.upstream().post(CHAT_PATH, dumps(chat))
    try:
        answer = quick_loads(received)
    except JSONTextError as error:
        raise UpstreamBroken("the upstream's answer is not JSON") from error
    if embedded := exchange.upstream().embedded_error(answer):
        raise embedded
    raw = answer.get("usage") if isinstance(answer, dict) else None
    exchange.usage = raw
    message = messages_response(
        answer,
        model=exchange.model or "",
        usage=_final_usage(exchange, raw if isinstance(raw, dict) else None, exclude_cache=exclude),
        stops=stop_sequences(body),
        thinking=wants_thinking(body),
    )
    return Response(dumps(exchange.mutations.plain_answer(message)), media_type="application/json")


async def _events(exchange: Exchange, stream: UpstreamStream, translator: MessagesStream) -> AsyncGenerator[bytes]:
    def wire(events: list[Json]) -> bytes:
        return b"".join(named_event(sent) for event in events for sent in exchange.mutations.messages_event(event))

    try:
        async with aclosing(stream.chunks()) as batches:
            async for batch in batches:
                # What arrived together leaves together: a write costs more than a translation.
                events = [event for _, chunk in batch for event in translator.feed(chunk)]
                exchange.usage = translator.usage
                if events:
                    yield wire(events)
        closing = translator.end()
    except GatewayError as error:
        claimed = exchange.mutations.finish_of_broken(cut=not isinstance(error, Unfinished))
        if claimed is None:
            raise
        if claimed == "":
            return
        translator.finish(claimed)
        closing = translator.end()
    yield wire(closing)
