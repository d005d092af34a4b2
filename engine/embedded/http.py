"""The engine's HTTP face: vLLM's routes over one core.

Whatever the client sends, the answer is JSON of the route's shape or one error object. A client that leaves before its
answer is complete has its request aborted, plain or streamed.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager

import orjson
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from engine.embedded import fields
from engine.embedded.answers import answer, prompt_digest
from engine.embedded.chat_answer import DONE, ChatAnswer, event
from engine.embedded.chat_request import parse_chat, parse_conversation
from engine.embedded.config import EngineConfig
from engine.embedded.core import EngineCore
from engine.embedded.driver import Driver
from engine.embedded.errors import ApiError, BadRequest
from engine.embedded.faults import NO_FAULT, TierFault, tier_fault
from engine.embedded.generation import generate
from engine.embedded.hashing import TOKEN_BYTES, token_bytes, token_ids
from engine.embedded.metrics import engine_registry
from engine.embedded.requests import RequestResult, TokenEvent
from engine.embedded.templates import Json, Message, encode, render
from engine.embedded.tokenizer import decode, open_tokenizer

_BROKEN = ApiError(500, "The engine failed on this request; its log says why.")
_STOPPING = ApiError(503, "The engine is shutting down.")
_CLIENT_GONE = Response(status_code=499)  # read by nobody


def create_app(config: EngineConfig | None = None, *, fault: str | None = None) -> Starlette:
    """An app with an engine of its own, whose `EngineCore` is at `app.state.core`.

    `app.state.stop()`, called in the app's loop, ends the requests in flight with an error. `fault` breaks the host
    tier in one named way. Raises `ConfigError` if the tokenizer's vocabulary is not installed, or for a fault nobody
    knows.
    """
    server = EngineServer(config or EngineConfig(), tier_fault(fault))
    app = Starlette(
        routes=[
            Route("/v1/chat/completions", server.chat, methods=["POST"]),
            Route("/v1/models", server.models),
            Route("/tokenize", server.tokenize, methods=["POST"]),
            Route("/detokenize", server.detokenize, methods=["POST"]),
            Route("/health", server.health),
            Route("/metrics", server.metrics),
            Route("/reset_prefix_cache", server.reset_prefix_cache, methods=["POST"]),
        ],
        lifespan=server.lifespan,
        exception_handlers={
            ApiError: _say_error,
            HTTPException: _say_http_error,
            ClientDisconnect: _say_nothing,
            Exception: _say_unexpected,
        },
    )
    app.state.core = server.core
    app.state.stop = server.stop
    return app


class EngineServer:
    """The endpoints over one core."""

    def __init__(self, config: EngineConfig, fault: TierFault = NO_FAULT) -> None:
        self.config = config
        self.core: EngineCore = fault.core_class(config)
        self._tokenizer = open_tokenizer(config.tokenizer)
        self._driver = Driver(self.core, config.step_interval)
        self._registry = engine_registry(self.core, byte_series=fault.byte_series)
        self._started = int(time.time())

    @asynccontextmanager
    async def lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        """Drops what is in flight when the app ends."""
        yield
        await self._driver.close()

    def stop(self) -> None:
        """Answer what is in flight with an error, so that a shutdown need not wait."""
        self._driver.drop_all(_STOPPING)

    async def chat(self, request: Request) -> Response:
        """`POST /v1/chat/completions`."""
        chat = parse_chat(await self._read(request))
        self._check_model(chat.model)
        prompt = self._prompt(chat.messages, chat.tools)
        limit = self._output_limit(len(prompt) // TOKEN_BYTES, chat.max_tokens)
        digest = prompt_digest(prompt)
        if self.core.spoils(prompt, chat.cache_salt):
            said = answer((), (), chat.choice, digest[::-1])
        else:
            said = answer(chat.messages, chat.tools, chat.choice, digest)
        generation = generate(said, self._tokenizer, digest, limit=limit, stops=chat.stops)
        reply = ChatAnswer(chat.model, generation, self.config.prompt_tokens_details, chat.include_usage)
        if chat.stream:
            return _EventStream(self._events(reply, prompt, chat.cache_salt))
        result = await self._result(request, reply, prompt, chat.cache_salt)
        return _CLIENT_GONE if result is None else _json(reply.plain(result))

    async def models(self, _request: Request) -> Response:
        """`GET /v1/models`."""
        listed = [
            {
                "id": name,
                "object": "model",
                "created": self._started,
                "owned_by": "prefixproof",
                "root": self.config.model,
                "parent": None,
                "max_model_len": self.config.context_tokens,
            }
            for name in self.config.names
        ]
        return _json(orjson.dumps({"object": "list", "data": listed}))

    async def tokenize(self, request: Request) -> Response:
        """`POST /tokenize`: a `prompt` as it stands, or `messages` (and `tools`) as the template renders them."""
        body = await self._read(request)
        model = fields.text(body, "model")
        if model is not None:
            self._check_model(model)
        if "messages" in body:
            messages, tools = parse_conversation(body)
            add = fields.flag(body, "add_generation_prompt", default=True)
            ids = token_ids(self._prompt(messages, tools, add_generation_prompt=add))
        elif "prompt" in body:
            ids = token_ids(self._tokenizer.encode(fields.as_text(body["prompt"], "prompt")))
        else:
            raise BadRequest("Give prompt or messages to tokenize.", "prompt")
        answered: Json = {"count": len(ids), "max_model_len": self.config.context_tokens, "tokens": ids}
        if fields.flag(body, "return_token_strs"):
            answered["token_strs"] = [decode(self._tokenizer, [number]) for number in ids]
        return _json(orjson.dumps(answered))

    async def detokenize(self, request: Request) -> Response:
        """`POST /detokenize`: the text of `tokens`."""
        body = await self._read(request)
        listed = fields.as_list(body.get("tokens"), "tokens")
        if not all(isinstance(number, int) and not isinstance(number, bool) for number in listed):
            raise BadRequest("tokens must be a list of integers.", "tokens")
        try:
            ids = token_ids(token_bytes([number for number in listed if isinstance(number, int)]))
            return _json(orjson.dumps({"prompt": decode(self._tokenizer, ids)}))
        except ValueError as error:
            raise BadRequest(f"tokens: {error}.", "tokens") from None

    async def health(self, _request: Request) -> Response:
        """`GET /health`: 200 without a body."""
        return Response()

    async def metrics(self, _request: Request) -> Response:
        """`GET /metrics` in Prometheus' text format."""
        return Response(generate_latest(self._registry), headers={"content-type": CONTENT_TYPE_LATEST})

    async def reset_prefix_cache(self, request: Request) -> Response:
        """`POST /reset_prefix_cache[?reset_external=true]`: L1, and L2 on request.

        Answers `{"success": false}` while requests hold blocks: L1 is then left as it was.
        """
        external = request.query_params.get("reset_external", "false").lower()
        if external not in ("true", "1", "false", "0"):
            raise BadRequest("reset_external must be true or false.", "reset_external")
        done = self.core.reset_prefix_cache(reset_external=external in ("true", "1"))
        return _json(orjson.dumps({"success": done}))

    async def _read(self, request: Request) -> Json:
        size = 0
        chunks: list[bytes] = []
        async for chunk in request.stream():
            size += len(chunk)
            if size > self.config.max_body_bytes:
                raise ApiError(413, f"The request body is larger than {self.config.max_body_bytes} bytes.")
            chunks.append(chunk)
        return fields.parse_object(b"".join(chunks))

    def _check_model(self, model: str) -> None:
        if model not in self.config.names:
            raise ApiError(404, f"The model {model!r} does not exist: /v1/models lists those that do.", "model")

    def _prompt(
        self, messages: Sequence[Message], tools: Sequence[Json], *, add_generation_prompt: bool = True
    ) -> bytes:
        try:
            segments = render(self.config.template, messages, tools, add_generation_prompt=add_generation_prompt)
        except orjson.JSONEncodeError:
            raise BadRequest("tools are nested too deeply to be written out.", "tools") from None
        return encode(self._tokenizer, segments)

    def _output_limit(self, prompt_len: int, max_tokens: int | None) -> int:
        context = self.config.context_tokens
        if not prompt_len:
            raise BadRequest("The prompt is empty.", "messages")
        if prompt_len >= context:
            raise BadRequest(
                f"This model's maximum context length is {context} tokens, and the messages (with tools) take "
                f"{prompt_len}, leaving no room for an answer: shorten them.",
                "messages",
            )
        if max_tokens is not None and prompt_len + max_tokens > context:
            raise BadRequest(
                f"This model's maximum context length is {context} tokens, and the request asks for "
                f"{prompt_len + max_tokens}: {prompt_len} in the messages (with tools) and {max_tokens} to generate. "
                "Shorten the messages or lower max_tokens.",
                "max_tokens",
            )
        return context - prompt_len if max_tokens is None else max_tokens

    async def _result(
        self, request: Request, reply: ChatAnswer, prompt: bytes, cache_salt: str | None
    ) -> RequestResult | None:
        """Run a request to its end; None if its client left first."""
        done: asyncio.Future[RequestResult | None] = asyncio.get_running_loop().create_future()

        def listen(told: TokenEvent | Exception) -> None:
            if done.done():
                return
            if isinstance(told, Exception):
                done.set_exception(_told_to_client(told))
            elif told.result is not None:
                done.set_result(told.result)

        async def watch_client() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            if not done.done():
                done.set_result(None)

        number = self._driver.submit(prompt, reply.generation.outputs, cache_salt, listen)
        watcher = asyncio.create_task(watch_client())
        try:
            return await done
        finally:
            watcher.cancel()
            self._driver.abort(number)

    async def _events(self, reply: ChatAnswer, prompt: bytes, cache_salt: str | None) -> AsyncGenerator[bytes, None]:
        told: asyncio.Queue[TokenEvent | Exception] = asyncio.Queue()
        number = self._driver.submit(prompt, reply.generation.outputs, cache_salt, told.put_nowait)
        try:
            while True:
                tokens = [await told.get()]
                while not told.empty():
                    tokens.append(told.get_nowait())
                shown: list[bytes] = []
                for token in tokens:
                    if isinstance(token, Exception):
                        yield b"".join((*shown, event(_told_to_client(token).body()), DONE))
                        return
                    shown += reply.token_events(token.place)
                    if token.result is not None:
                        yield b"".join((*shown, *reply.last_events(token.result)))
                        return
                if shown:
                    yield b"".join(shown)
        finally:
            self._driver.abort(number)


class _EventStream(StreamingResponse):
    """Server-sent events; the generator is closed when the client is gone, so that its request is aborted at once."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        super().__init__(events, headers={"cache-control": "no-cache"})
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._events.aclose()


def _json(data: bytes, status: int = 200) -> Response:
    return Response(data, status_code=status, media_type="application/json")


def _told_to_client(error: Exception) -> ApiError:
    return error if isinstance(error, ApiError) else _BROKEN


async def _say_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return _json(orjson.dumps(error.body()), error.status)


async def _say_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    told = ApiError(error.status_code, f"{request.method} {request.url.path}: {error.detail}.")
    answered = _json(orjson.dumps(told.body()), error.status_code)
    answered.headers.update(error.headers or {})
    return answered


async def _say_nothing(_request: Request, _error: Exception) -> Response:
    return _CLIENT_GONE


async def _say_unexpected(_request: Request, _error: Exception) -> Response:
    return _json(orjson.dumps(_BROKEN.body()), 500)
