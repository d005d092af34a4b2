"""Chat chunks as Messages events. Pure: chunks in, events out; no clock, no sockets.

Blocks are sent one after the other, each with its own index. An upstream may interleave parallel tool calls; then
the later call waits until the arguments of the one being sent are a whole JSON object.

The end is held back until the upstream's stream has ended: usage may stand on a chunk with choices, on an extra
chunk, or on several (the last one holds). ``message_delta`` carries all of it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..errors import Unfinished, UpstreamBroken
from ..jsontext import JSONTextError, loads
from ..upstream import first_choice
from .checks import Json
from .response import call_id, message_id, reasoning_of, text_of
from .usage import stop_reason

_START = {"text": {"type": "text", "text": ""}, "thinking": {"type": "thinking", "thinking": "", "signature": ""}}
_DELTA = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}


@dataclass
class _Block:
    kind: str
    id: str = ""
    name: str = ""
    waiting: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    started: bool = False

    def head(self) -> Json:
        if self.kind == "tool_use":
            return {"type": "tool_use", "id": self.id, "name": self.name, "input": {}}
        return dict(_START[self.kind])

    def delta(self, text: str) -> Json:
        if self.kind == "tool_use":
            return {"type": "input_json_delta", "partial_json": text}
        kind, key = _DELTA[self.kind]
        return {"type": kind, key: text}

    def whole(self) -> bool:
        """Whether nothing more can come for it, given that another block has begun."""
        if self.kind != "tool_use":
            return True
        try:
            return isinstance(loads("".join(self.sent)), dict)
        except JSONTextError:
            return False


@dataclass
class MessagesStream:
    """Translates one stream.

    ``start_usage`` goes into ``message_start``; ``final_usage`` turns the last raw usage seen (None if the
    upstream never sent one) into the usage of ``message_delta``. ``keep`` chooses between the usage held and the one
    just seen, told whether its chunk has choices.
    """

    model: str
    stops: list[str]
    thinking: bool
    start_usage: Json
    final_usage: Callable[[Json | None], Json]
    keep: Callable[[Json | None, Json, bool], Json | None] = lambda held, seen, with_choices: seen  # noqa: ARG005
    usage: Json | None = None
    _id: Any = None
    _begun: bool = False
    _blocks: list[_Block] = field(default_factory=list)
    _calls: dict[Any, _Block] = field(default_factory=dict)
    _current: int = 0
    _finish: tuple[Any, Any] | None = None

    def feed(self, chunk: Json) -> list[Json]:
        """The events one upstream chunk gives."""
        events = [] if self._begun else [self._begin(chunk)]
        if isinstance(chunk.get("usage"), dict):
            self.usage = self.keep(self.usage, chunk["usage"], bool(chunk.get("choices")))
        choice = first_choice(chunk)
        if choice is None:
            return events
        delta = choice.get("delta")
        if isinstance(delta, dict):
            self._take(delta)
            events += self._drain(last=False)
        if choice.get("finish_reason") is not None:
            self._finish = choice["finish_reason"], choice.get("stop_reason")
        return events

    def end(self) -> list[Json]:
        """The closing events.

        Raises:
            UpstreamBroken: the upstream ended without saying that it finished.
        """
        if self._finish is None:
            raise Unfinished
        reason = stop_reason(*self._finish, stops=self.stops, has_calls=bool(self._calls))
        if reason is None:
            raise UpstreamBroken("the upstream did not finish its answer")
        delta = {"stop_reason": reason[0], "stop_sequence": reason[1], "stop_details": None}
        usage = self.final_usage(self.usage)
        return [
            *self._drain(last=True),
            {"type": "message_delta", "delta": delta, "usage": usage},
            {"type": "message_stop"},
        ]

    def finish(self, reason: str) -> None:
        """Take the answer for finished, whatever the upstream said."""
        self._finish = self._finish or (reason, None)

    def _begin(self, chunk: Json) -> Json:
        self._begun = True
        self._id = chunk.get("id")
        message: Json = {
            "id": message_id(self._id),
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "stop_details": None,
            "usage": self.start_usage,
        }
        return {"type": "message_start", "message": message}

    def _take(self, delta: Json) -> None:
        if self.thinking:
            self._append("thinking", reasoning_of(delta))
        self._append("text", text_of(delta.get("content")) or text_of(delta.get("refusal")))
        for call in delta.get("tool_calls") or ():
            if isinstance(call, dict):
                self._take_call(call)

    def _append(self, kind: str, text: str) -> None:
        if not text:
            return
        if not self._blocks or self._blocks[-1].kind != kind:
            self._blocks.append(_Block(kind))
        self._blocks[-1].waiting.append(text)

    def _take_call(self, call: Json) -> None:
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        key = call.get("index")
        if not isinstance(key, int):
            # Some upstreams leave the index out: a call's first piece has an id, the rest follow it.
            key = call.get("id") or next(reversed(self._calls), 0)
        block = self._calls.get(key)
        if block is None:
            block = _Block("tool_use", id=call_id(call.get("id"), self._id, len(self._calls)))
            self._calls[key] = block
            self._blocks.append(block)
        if not block.name and isinstance(function.get("name"), str):
            block.name = function["name"]
        if isinstance(function.get("arguments"), str) and function["arguments"]:
            block.waiting.append(function["arguments"])

    def _drain(self, *, last: bool) -> list[Json]:
        events: list[Json] = []
        while self._current < len(self._blocks):
            block, index = self._blocks[self._current], self._current
            if block.kind == "tool_use" and not block.name:
                if last:
                    raise UpstreamBroken("the upstream sent a tool call without a name")
                break
            if not block.started:
                block.started = True
                events.append({"type": "content_block_start", "index": index, "content_block": block.head()})
            for text in block.waiting:
                events.append({"type": "content_block_delta", "index": index, "delta": block.delta(text)})
                if block.kind == "tool_use":
                    block.sent.append(text)
            block.waiting.clear()
            if not last and (index + 1 == len(self._blocks) or not block.whole()):
                break
            events.append({"type": "content_block_stop", "index": index})
            self._current += 1
        return events
