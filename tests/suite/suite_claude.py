"""A Claude-native upstream as far as its cache goes: it keeps prefixes only where the client marked them.

By Anthropic's prompt caching page: up to four marks; a prefix ends at a marked block; a later request finds it from a
mark of its own, looking back 20 blocks; prefixes under 1,024 tokens are not kept. The attribution block is Anthropic's
own, and counts for nothing here.
"""

from __future__ import annotations

import json
from hashlib import sha256
from itertools import count
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

Json = dict[str, Any]

LEAST_TOKENS = 1_024
LOOK_BACK = 20
MOST_MARKS = 4


class ClaudeNative:
    """The app, and whether requests carried marks."""

    def __init__(self) -> None:
        self.marked = 0
        self.unmarked = 0
        self._kept: set[str] = set()
        self._numbers = count()

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/v1/messages", self.answer, methods=["POST"])])

    async def answer(self, request: Request) -> Response:
        body = await request.json()
        blocks = blocks_of(body)
        marks = [i for i, (_, marked) in enumerate(blocks) if marked]
        if len(marks) > MOST_MARKS:
            said = f"A maximum of {MOST_MARKS} blocks with cache_control may be provided. Found {len(marks)}."
            return JSONResponse({"type": "error", "error": {"type": "invalid_request_error", "message": said}}, 400)
        self.marked += bool(marks)
        self.unmarked += not marks
        return self._reply(body, self._usage(blocks, marks))

    def _usage(self, blocks: list[tuple[str, bool]], marks: list[int]) -> Json:
        ends, hashes, sizes = sha256(), [], []
        total = 0
        for text, _ in blocks:
            ends.update(text.encode() + b"\0")
            total += len(text) // 4 + 1
            hashes.append(ends.hexdigest())
            sizes.append(total)
        reach = {i for mark in marks for i in range(max(0, mark - LOOK_BACK), mark + 1)}
        read = max((sizes[i] for i in reach if hashes[i] in self._kept), default=0)
        keep = [i for i in marks if sizes[i] >= LEAST_TOKENS]
        self._kept.update(hashes[i] for i in keep)
        written = max([sizes[i] for i in keep] + [read]) - read
        return {
            "input_tokens": total - read - written,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written,
            "output_tokens": 2,
        }

    def _reply(self, body: Json, usage: Json) -> Response:
        text = {"type": "text", "text": "Yes."}
        whole = {
            "id": f"msg_{next(self._numbers)}", "type": "message", "role": "assistant", "model": body["model"],
            "content": [text], "stop_reason": "end_turn", "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        if not body.get("stream"):
            return JSONResponse(whole)
        start = {**whole, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 0}}
        events: list[Json] = [
            {"type": "message_start", "message": start},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Yes."}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ]
        lines = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        return Response(lines, media_type="text/event-stream")


def blocks_of(body: Json) -> list[tuple[str, bool]]:
    """Tools, system blocks and content blocks in order, each without its mark, and whether it had one."""
    system = body.get("system") or []
    found = [*body.get("tools", ())]
    found += [{"text": system}] if isinstance(system, str) else system
    for message in body["messages"]:
        content = message["content"]
        listed = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found += [{"role": message["role"], **block} for block in listed]
    return [
        (json.dumps({k: v for k, v in block.items() if k != "cache_control"}), "cache_control" in block)
        for block in found
        if not str(block.get("text", "")).startswith("x-anthropic-billing-header:")
    ]
