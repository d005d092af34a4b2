"""``/v1/messages/count_tokens``: the upstream tokenizes what it would be sent.

vLLM's ``/tokenize`` applies the chat template to messages and tools and counts. An upstream without it gets a 404,
which clients take as "estimate for yourself"; the gateway never guesses.
"""

from starlette.responses import Response

from ..counts import token_count
from ..errors import GatewayError, UpstreamBroken
from ..exchange import Exchange
from ..jsontext import JSONTextError, dumps, quick_loads
from . import native
from .request import chat_prompt

_ABSENT = (404, 405, 501)


async def count_tokens(exchange: Exchange) -> Response:
    """Serve one count."""
    route = exchange.read()
    if route.channel.dialect == "anthropic":
        return await native.forward(exchange, route, "/v1/messages/count_tokens")
    prompt = chat_prompt(exchange.document.value, strip_attribution=route.channel.strip_anthropic_billing_header)
    body = exchange.mutations.chat_body({"model": route.model, **prompt})
    shown = {name: body[name] for name in ("model", "messages", "tools") if name in body}
    try:
        received = await exchange.upstream().post("/tokenize", dumps(shown))
    except GatewayError as error:
        if error.status in _ABSENT:
            message = "the upstream of this model cannot count tokens; estimate them in the client"
            raise GatewayError(404, message) from error
        raise
    try:
        answer = quick_loads(received)
    except JSONTextError:
        answer = None
    count = token_count(answer.get("count")) if isinstance(answer, dict) else None
    if count is None:
        raise UpstreamBroken("the upstream's /tokenize gave no count")
    count = exchange.mutations.counted(count, body)
    return Response(dumps({"input_tokens": count}), media_type="application/json")
