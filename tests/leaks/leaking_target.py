"""Gateways that repeat, wherever an answer has room for it, the key they were sent and somebody else's text."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

Json = dict[str, Any]

FOREIGN = "Dear Quuxwellington, the zanzibarian parcel for flat 4711-ottoline is paid"
"""A marked text of another tenant."""

FOREIGN_WORD = "zanzibarian_Quuxwellington"
MARKS = ("quuxwellington", "zanzibarian", "ottoline")
"""Words of it that nobody else writes."""


def key_of(request: Request) -> str:
    return request.headers.get("authorization", "").removeprefix("Bearer ")


def encodings(key: str) -> list[str]:
    """The key as gateways, proxies and their logs write it."""
    plain = key.encode()
    return [
        key,
        json.dumps(key)[1:-1],
        base64.b64encode(plain).decode(),
        base64.b64encode(b"Bearer " + plain).decode(),
        base64.urlsafe_b64encode(b"u:" + plain).decode().rstrip("="),
        quote(key, safe=""),
        plain.hex(),
        key.upper(),
    ]


def echo(key: str) -> str:
    return f"{FOREIGN} {' '.join(encodings(key))}"


def ascii_word(key: str) -> str:
    """What fits into an id or a header's value."""
    return f"{FOREIGN_WORD}-{base64.urlsafe_b64encode(key.encode()).decode()}"


def headers_of(key: str) -> dict[str, str]:
    return {"x-request-id": ascii_word(key), "x-echo": echo(key), "retry-after": FOREIGN_WORD, "server": FOREIGN}


class Leaking:
    """`mode`: what it makes of requests. "answers" right in form; "errors" 400 to each but the first two; "stream
    errors" an error event in each stream; "garbage" bodies in no protocol, after the first two; "refuses" only 401."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.asked = 0

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/messages", self.answer, methods=["POST"]),
                Route("/v1/chat/completions", self.answer, methods=["POST"]),
                Route("/v1/messages/count_tokens", self.count, methods=["POST"]),
                Route("/v1/models", self.models),
            ]
        )

    async def models(self, request: Request) -> Response:
        return JSONResponse({"data": [{"id": f"{FOREIGN} {key_of(request)}"}]})

    async def count(self, request: Request) -> Response:
        return JSONResponse({"error": {"message": echo(key_of(request))}}, 500)

    async def answer(self, request: Request) -> Response:
        key, body = key_of(request), await request.json()
        chat = request.url.path.endswith("completions")
        self.asked += 1
        first = self.asked <= 2
        error = {"error": {"message": echo(key), "type": FOREIGN_WORD, "code": ascii_word(key), "param": echo(key)}}
        if self.mode == "refuses":
            return JSONResponse({"type": "error", **error}, 401, headers=headers_of(key))
        if self.mode == "errors" and not first:
            return JSONResponse({"type": "error", **error}, 400, headers=headers_of(key))
        if self.mode == "garbage" and not first:
            text = f"event: {FOREIGN_WORD}\ndata: {{{echo(key)}\n\n: {echo(key)}\n\n"
            kind = "text/event-stream" if body.get("stream") else f"application/{FOREIGN_WORD}"
            return Response(text, media_type=kind, headers=headers_of(key))
        answer = completion(key, body) if chat else message(key, body)
        if not body.get("stream"):
            return JSONResponse(answer, headers=headers_of(key))
        lines = chat_stream(answer, key) if chat else message_stream(answer, key)
        if self.mode == "stream errors" and not first:
            lines = [*lines[:2], f"event: error\ndata: {json.dumps({'type': 'error', **error})}\n\n", *lines[2:]]
        return StreamingResponse(iter(lines), media_type="text/event-stream", headers=headers_of(key))


def tokens(body: Json) -> int:
    return len(json.dumps(body)) // 4


def message(key: str, body: Json) -> Json:
    use = {"type": "tool_use", "id": ascii_word(key), "name": FOREIGN_WORD, "input": {FOREIGN_WORD: echo(key)}}
    return {
        "id": ascii_word(key),
        "type": "message",
        "role": "assistant",
        "model": FOREIGN_WORD,
        "content": [{"type": "text", "text": echo(key)}, use],
        "stop_reason": FOREIGN_WORD,
        "stop_sequence": echo(key),
        "usage": {"input_tokens": tokens(body), "output_tokens": 7, FOREIGN_WORD: echo(key)},
        FOREIGN_WORD: {echo(key): echo(key)},
    }


def completion(key: str, body: Json) -> Json:
    function = {"name": FOREIGN_WORD, "arguments": json.dumps({FOREIGN_WORD: echo(key)})}
    said = {
        "role": "assistant",
        "content": echo(key),
        "tool_calls": [{"id": ascii_word(key), "type": "function", "function": function}],
    }
    return {
        "id": ascii_word(key),
        "object": "chat.completion",
        "model": FOREIGN_WORD,
        "choices": [{"index": 0, "message": said, "finish_reason": FOREIGN_WORD}],
        "usage": {"prompt_tokens": tokens(body), "completion_tokens": 7, FOREIGN_WORD: echo(key)},
        "system_fingerprint": ascii_word(key),
    }


def event(name: str, data: Mapping[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n"


def message_stream(answer: Json, key: str) -> list[str]:
    text = {"type": "text", "text": ""}
    return [
        event("message_start", {"message": {**answer, "content": []}}),
        f": {echo(key)}\nid: {ascii_word(key)}\n\n",
        event(FOREIGN_WORD, {"data": echo(key)}),
        event("content_block_start", {"index": 0, "content_block": text}),
        event("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": echo(key)}}),
        event("content_block_stop", {"index": 0}),
        event("message_delta", {"delta": {"stop_reason": FOREIGN_WORD}, "usage": answer["usage"]}),
        event("message_stop", {}),
    ]


def chat_stream(answer: Json, key: str) -> list[str]:
    base = {k: answer[k] for k in ("id", "model", "system_fingerprint")} | {"object": "chat.completion.chunk"}
    chunks: list[Json] = [
        {**base, "choices": [{"index": 0, "delta": {"role": FOREIGN_WORD, "content": echo(key)}}]},
        {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": FOREIGN_WORD}]},
        {**base, "choices": [], "usage": answer["usage"]},
    ]
    return [f": {echo(key)}\n\n", *(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks), "data: [DONE]\n\n"]


class Injecting:
    """A chat gateway that puts the key and a tenant's text into every upstream prompt, and into what comes back."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/v1/chat/completions", self.answer, methods=["POST"])])

    async def answer(self, request: Request) -> Response:
        key, body = key_of(request), await request.json()
        for said in body["messages"]:
            if said["role"] == "system":
                said["content"] = f"{echo(key)} {said['content']} {echo(key)}"
            for call in said.get("tool_calls") or ():
                call["id"] = ascii_word(key)
                call["function"]["arguments"] = json.dumps({FOREIGN_WORD: echo(key)})
        function = {"name": FOREIGN_WORD[:40], "description": echo(key), "parameters": {FOREIGN_WORD: echo(key)}}
        body["tools"] = [{"type": "function", "function": function}, *body.get("tools", [])]
        body |= {"user": echo(key), FOREIGN_WORD: echo(key)}
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            sent = {"content-type": "application/json", "authorization": f"Bearer {key}"}
            got = await client.post(f"{self._upstream}/v1/chat/completions", json=body, headers=sent)
        kind = got.headers.get("content-type", "application/json")
        return Response(got.content, got.status_code, media_type=kind, headers=headers_of(key))
