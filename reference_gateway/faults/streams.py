"""Faults in streamed answers."""

from collections.abc import Iterable

from ..counts import read_counts
from ..messages.usage import prompt_estimate
from ..seams import JSONObject, Mutations

_EXTRA = 7


class StreamOutputCount(Mutations):
    """Streamed output tokens are the number of deltas and a few more."""

    def __init__(self, received: bytes) -> None:
        super().__init__(received)
        self._deltas = 0

    def messages_event(self, event: JSONObject) -> Iterable[JSONObject]:
        if event["type"] == "content_block_delta":
            self._deltas += 1
        if event["type"] == "message_delta":
            return ({**event, "usage": {**event["usage"], "output_tokens": self._deltas + _EXTRA}},)
        return (event,)

    def chat_chunk(self, chunk: JSONObject) -> JSONObject:
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            self._deltas += any(delta.get(name) for name in ("content", "reasoning_content", "tool_calls"))
        usage = chunk.get("usage")
        if not isinstance(usage, dict):
            return chunk
        completion = self._deltas + _EXTRA
        total = (read_counts(usage).prompt or 0) + completion
        return {**chunk, "usage": {**usage, "completion_tokens": completion, "total_tokens": total}}


class DeltaWithoutInput(Mutations):
    """``message_delta`` tells the output only, so the zeros of ``message_start`` stand."""

    def messages_event(self, event: JSONObject) -> Iterable[JSONObject]:
        if event["type"] != "message_delta":
            return (event,)
        return ({**event, "usage": {"output_tokens": event["usage"]["output_tokens"]}},)


class DeltaIncrements(Mutations):
    """The output comes as two increments in two ``message_delta`` events; the last is not the whole."""

    def messages_event(self, event: JSONObject) -> Iterable[JSONObject]:
        if event["type"] != "message_delta":
            return (event,)
        output = event["usage"]["output_tokens"]
        first = {**event, "usage": {**event["usage"], "output_tokens": output - output // 2}}
        return (first, {**event, "usage": {"output_tokens": output // 2}})


class StartEstimate(Mutations):
    """``message_start`` carries a guess above the final input; the rest is right."""

    def start_usage(self, usage: JSONObject) -> JSONObject:
        return {**usage, "input_tokens": prompt_estimate(self.received)}


class NoMessageStop(Mutations):
    """The last block is not closed and the message neither."""

    def __init__(self, received: bytes) -> None:
        super().__init__(received)
        self._held: JSONObject | None = None

    def messages_event(self, event: JSONObject) -> Iterable[JSONObject]:
        if event["type"] == "content_block_stop":
            self._held = event
            return ()
        if event["type"] == "message_stop":
            return ()
        held, self._held = self._held, None
        if held is not None and event["type"] == "content_block_start":
            return (held, event)
        return (event,)


class NoIncludeUsage(Mutations):
    """The upstream is asked for usage in streams only where the client asked."""

    def stream_options(self, sent: JSONObject | None) -> JSONObject | None:
        return sent


class LeakUsageChunk(Mutations):
    """A chat client that did not ask gets the extra usage chunk."""

    def hides_usage_chunk(self) -> bool:
        return False
