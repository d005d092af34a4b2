"""Faults in streamed answers."""

from collections.abc import Iterable

from ..counts import read_counts
from ..errors import UpstreamBroken
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


class FirstUsageWins(Mutations):
    """Of several usage chunks the first one is kept."""

    def __init__(self, received: bytes) -> None:
        super().__init__(received)
        self._first: JSONObject | None = None

    def kept_usage(self, held: JSONObject | None, seen: JSONObject, *, with_choices: bool) -> JSONObject | None:
        return seen if held is None else held

    def chat_chunk(self, chunk: JSONObject) -> JSONObject:
        if not isinstance(chunk.get("usage"), dict):
            return chunk
        first = self._first = self._first or chunk["usage"]
        return chunk if chunk["usage"] is first else {**chunk, "usage": first}


class UsageWithChoicesMissed(Mutations):
    """Usage is looked for on chunks without choices only."""

    def kept_usage(self, held: JSONObject | None, seen: JSONObject, *, with_choices: bool) -> JSONObject | None:
        return held if with_choices else seen


class NoUsageCrash(Mutations):
    """A Messages stream whose upstream sent no usage ends in an error."""

    def __init__(self, received: bytes) -> None:
        super().__init__(received)
        self._streamed = False

    def start_usage(self, usage: JSONObject) -> JSONObject:
        self._streamed = True
        return usage

    def upstream_usage(self, usage: JSONObject | None) -> JSONObject | None:
        if usage is None and self._streamed:
            raise UpstreamBroken("the upstream's stream had no usage")
        return usage


class BrokenAsFinished(Mutations):
    """A stream that broke off is ended as if the model had finished."""

    def finish_of_broken(self, *, cut: bool) -> str | None:
        return "stop" if cut else None


class UnfinishedAsFinished(Mutations):
    """A stream that just ended, without a finish_reason, is taken for finished."""

    def finish_of_broken(self, *, cut: bool) -> str | None:
        return None if cut else "stop"


class BrokenInSilence(Mutations):
    """A stream that broke off or just ended leaves the client with what it has, and no word of it."""

    def finish_of_broken(self, *, cut: bool) -> str | None:
        return ""


class OneIndexForCalls(Mutations):
    """All tool calls of a Messages stream come under the index of the first."""

    def __init__(self, received: bytes) -> None:
        super().__init__(received)
        self._calls: dict[int, int] = {}

    def messages_event(self, event: JSONObject) -> Iterable[JSONObject]:
        index = event.get("index")
        if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
            self._calls[event["index"]] = min([*self._calls, event["index"]])
        return ({**event, "index": self._calls.get(index, index)},) if isinstance(index, int) else (event,)


class NullBlock(Mutations):
    """Tool calls of a Messages stream start with a content block that is null."""

    def messages_event(self, event: JSONObject) -> Iterable[JSONObject]:
        if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
            return ({**event, "content_block": None},)
        return (event,)


class NoIncludeUsage(Mutations):
    """The upstream is asked for usage in streams only where the client asked."""

    def stream_options(self, sent: JSONObject | None) -> JSONObject | None:
        return sent


class LeakUsageChunk(Mutations):
    """A chat client that did not ask gets the extra usage chunk."""

    def hides_usage_chunk(self) -> bool:
        return False
