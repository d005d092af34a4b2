"""A target that answers by script, over real HTTP, and what it was asked."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import orjson

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Step = Callable[[Send], Awaitable[None]]

MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "served",
    "content": [{"type": "text", "text": "the answer"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 64},
}
COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "served",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "the answer"}, "finish_reason": "stop"}],
    "usage": {
        "prompt_tokens": 74,
        "completion_tokens": 5,
        "total_tokens": 79,
        "prompt_tokens_details": {"cached_tokens": 64},
    },
}


def message_events(text: str = "the answer", **usage: Any) -> list[dict[str, Any]]:
    """A whole Messages stream; `usage` goes into message_delta, message_start has zeros."""
    start = {**MESSAGE, "content": [], "stop_reason": None, "usage": {"input_tokens": 0, "output_tokens": 0}}
    pieces = [{"type": "text_delta", "text": piece} for piece in (text[:4], text[4:])]
    return [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": piece} for piece in pieces),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 5, **usage},
        },
        {"type": "message_stop"},
    ]


def completion_chunks(text: str = "the answer", usage: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """A whole chat stream, with a usage chunk at its end where `usage` is given."""

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "served"}
        return {**head, "choices": [choice]}

    chunks = [chunk({"role": "assistant", "content": text[:4]}), chunk({"content": text[4:]}), chunk({}, "stop")]
    return chunks + ([{**chunks[0], "choices": [], "usage": usage}] if usage is not None else [])


def message_sse(events: list[dict[str, Any]]) -> bytes:
    return b"".join(b"event: " + e["type"].encode() + b"\ndata: " + orjson.dumps(e) + b"\n\n" for e in events)


def chunk_sse(chunks: list[dict[str, Any]], done: bool = True) -> bytes:
    return b"".join(b"data: " + orjson.dumps(c) + b"\n\n" for c in chunks) + (b"data: [DONE]\n\n" if done else b"")


def answer(
    body: bytes | dict[str, Any] | list[Any],
    status: int = 200,
    kind: str = "application/json",
    headers: dict[str, str] | None = None,
    *,
    abort: bool = False,
) -> Step:
    """Answer with `body`; with `abort` the connection is cut where the body ends."""
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    pairs = [(b"content-type", kind.encode())] + [(k.encode(), v.encode()) for k, v in (headers or {}).items()]

    async def step(send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": data, "more_body": True})
        if abort:
            raise RuntimeError("cut here")
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return step


def event_stream(body: bytes, *, abort: bool = False) -> Step:
    return answer(body, kind="text/event-stream; charset=utf-8", abort=abort)


def silence(seconds: float = 30.0) -> Step:
    """No answer at all for `seconds`."""

    async def step(send: Send) -> None:
        await asyncio.sleep(seconds)
        await answer({})(send)

    return step


def dribble(piece: bytes, every_s: float, times: int) -> Step:
    """An event stream that sends `piece` again and again."""

    async def step(send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for _ in range(times):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await asyncio.sleep(every_s)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return step


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


@dataclass
class StubTarget:
    """An ASGI app that takes its answers from `script`, the last one for ever."""

    script: list[Step]
    asked: list[Asked] = field(default_factory=list)

    async def __call__(self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Send) -> None:
        if scope["type"] == "lifespan":
            return
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.asked.append(Asked(scope["method"], scope["path"], headers, body))
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        await step(send)


def http_bytes(body: dict[str, Any], status: str = "200 OK") -> bytes:
    data = orjson.dumps(body)
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\nconnection: close"
    return head.encode() + b"\r\n\r\n" + data


@contextlib.contextmanager
def tcp_target(script: list[bytes]) -> Iterator[str]:
    """Answers one connection after the other with the given bytes (empty: none), then closes it."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        for piece in script:
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    _read_request(connection)
                    connection.sendall(piece)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def _read_request(connection: socket.socket) -> None:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0
    )
    while len(body) < length:
        body += connection.recv(65536)


def closed_port() -> int:
    """A loopback port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
