"""A target that behaves until the preflight is over, and then answers whatever a test wants, over real HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import orjson

Message = MutableMapping[str, Any]
Piece = bytes | float
"""Body bytes, or a pause of so many seconds."""

MESSAGE: dict[str, Any] = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
    "content": [{"type": "text", "text": "the answer"}], "stop_reason": "end_turn", "stop_sequence": None,
    "usage": {"input_tokens": 400, "output_tokens": 5, "cache_read_input_tokens": 64},
}  # fmt: skip
COMPLETION: dict[str, Any] = {
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "the answer"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 464, "completion_tokens": 5, "total_tokens": 469,
              "prompt_tokens_details": {"cached_tokens": 64}},
}  # fmt: skip
DELTA: dict[str, Any] = {
    "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
    "choices": [{"index": 0, "delta": {"content": "the answer"}, "finish_reason": None}],
}  # fmt: skip


@dataclass(frozen=True)
class Hostile:
    """One answer. `endless` repeats the pieces for ever; `cut` breaks the connection at their end."""

    pieces: tuple[Piece, ...]
    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"),)
    endless: bool = False
    cut: bool = False


def plain(value: Any, **options: Any) -> Hostile:
    return Hostile((orjson.dumps(value),), **options)


def events(values: Sequence[Any], **options: Any) -> Hostile:
    body = b"".join(
        b"data: " + (value if isinstance(value, bytes) else orjson.dumps(value)) + b"\n\n" for value in values
    )
    return Hostile((body,), headers=(("content-type", "text/event-stream"),), **options)


def well_behaved(path: str) -> Hostile:
    return plain(MESSAGE if path.endswith("/messages") else COMPLETION)


@dataclass
class HostileTarget:
    """Answers requests that carry the preflight's word as it should, the others by `answers`, in turns.

    With an `upstream` it asks that first, as a gateway would, and makes nothing of the answer.
    """

    answers: Callable[[str, bool, int], Hostile]  # path, streamed, number of the request
    upstream: str | None = None
    asked: itertools.count[int] = field(default_factory=itertools.count)

    async def _ask(self, body: bytes) -> None:
        with contextlib.suppress(httpx.HTTPError):
            async with httpx.AsyncClient(trust_env=False, timeout=0.1) as client:
                await client.post(f"{self.upstream}/v1/chat/completions", content=body)

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        path = scope["path"]
        if self.upstream is not None:
            await self._ask(body)
        if scope["method"] == "GET":
            answer = plain({"object": "list", "data": [{"id": "m"}]})
        elif b"-preflight-" in body:
            answer = well_behaved(path)
        else:
            answer = self.answers(path, b'"stream":true' in body, next(self.asked))
        raw = [(name.encode(), value.encode()) for name, value in answer.headers]
        await send({"type": "http.response.start", "status": answer.status, "headers": raw})
        while True:
            for piece in answer.pieces:
                if isinstance(piece, float):
                    await asyncio.sleep(piece)
                else:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            if not answer.endless:
                break
            await asyncio.sleep(0)
        if answer.cut:
            raise ConnectionError("cut here")
        await send({"type": "http.response.body", "body": b"", "more_body": False})
