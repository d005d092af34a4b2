"""Answers of `/v1/chat/completions`, plain and as server-sent events, in vLLM's shapes."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import uuid4

import orjson

from engine.embedded.generation import Generation
from engine.embedded.requests import RequestResult
from engine.embedded.templates import Json

DONE = b"data: [DONE]\n\n"


def usage(result: RequestResult, *, details: bool) -> Json:
    """Usage of a finished request. Cached tokens are a subset of the prompt's, 0 when none (as vLLM since 0.25.1)."""
    counted: Json = {
        "prompt_tokens": result.prompt_tokens,
        "total_tokens": result.prompt_tokens + result.output_tokens,
        "completion_tokens": result.output_tokens,
    }
    if details:
        counted["prompt_tokens_details"] = {"cached_tokens": result.cached_tokens}
    return counted


def event(payload: Json) -> bytes:
    """One server-sent event."""
    return b"data: " + orjson.dumps(payload) + b"\n\n"


@dataclass(slots=True)
class ChatAnswer:
    """The answer to one request; `details` says whether usage has `prompt_tokens_details`."""

    model: str
    generation: Generation
    details: bool
    include_usage: bool = False
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))

    def plain(self, result: RequestResult) -> bytes:
        """The whole answer as one JSON object."""
        choice: Json = {
            "index": 0,
            "message": self.generation.message(),
            "logprobs": None,
            "finish_reason": self.generation.finish_reason,
            "stop_reason": self.generation.stop_reason,
        }
        return orjson.dumps(
            self._head("chat.completion") | {"choices": [choice], "usage": usage(result, details=self.details)}
        )

    def token_events(self, place: int) -> Iterator[bytes]:
        """What a stream shows for output token `place`: the role before the first, then its delta, if it has one."""
        if place == 0:
            yield self._chunk({"role": "assistant", "content": ""})
        delta = self.generation.deltas[place]
        if delta is not None:
            yield self._chunk(delta)

    def last_events(self, result: RequestResult) -> Iterator[bytes]:
        """The end of a stream: finish reason, usage if it was asked for, and the end mark."""
        yield self._chunk({}, self.generation.finish_reason)
        if self.include_usage:
            head = self._head("chat.completion.chunk")
            yield event(head | {"choices": [], "usage": usage(result, details=self.details)})
        yield DONE

    def _head(self, kind: str) -> Json:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}

    def _chunk(self, delta: Json, finish: str | None = None) -> bytes:
        choice: Json = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        if finish is not None:
            choice["stop_reason"] = self.generation.stop_reason
        payload = self._head("chat.completion.chunk") | {"choices": [choice]}
        if self.include_usage:
            payload["usage"] = None
        return event(payload)
