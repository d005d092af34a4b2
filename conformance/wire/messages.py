"""Anthropic Messages: reading answers and event streams, and the official `anthropic` SDK as the client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from conformance.wire.answers import (
    Answer,
    Reply,
    members,
    object_of,
    text_of,
    text_or_none,
)
from conformance.wire.endpoint import Endpoint
from conformance.wire.exchange import StreamEvent
from conformance.wire.jsontext import dumps
from conformance.wire.problems import error_text, one_line
from conformance.wire.sdk import Sdk, body_parameters
from conformance.wire.usage import last_values, messages_usage

NO_STOP = "the stream ended without message_stop"


def read_message(raw: Any) -> Answer:
    """Read a plain `/v1/messages` answer, tolerant of anything that is not as it should be."""
    message = object_of(raw)
    blocks = members(message.get("content"))
    return Answer(
        response_id=text_or_none(message.get("id")),
        text="".join(text_of(block.get("text")) for block in blocks if block.get("type") == "text"),
        tool_calls=tuple(
            (text_of(block.get("name")), dumps(block.get("input", {})).decode())
            for block in blocks
            if block.get("type") == "tool_use"
        ),
        stop_reason=text_or_none(message.get("stop_reason")),
        usage=messages_usage(message.get("usage")),
        error=_message_error(raw),
    )


def _message_error(raw: Any) -> str | None:
    if object_of(raw).get("type") == "error" or "error" in object_of(raw):
        return f"an error inside a 200 answer: {one_line(error_text(raw))}"
    if not isinstance(object_of(raw).get("content"), list):
        return "the answer is no message: it has no content list"
    return None


def read_message_events(events: Iterable[StreamEvent]) -> Answer:
    """Read a streamed answer from its events. Each usage field's last value wins over message_start's."""
    start: Mapping[str, Any] = {}
    deltas: list[Any] = []
    blocks: dict[Any, dict[str, Any]] = {}
    stop_reason: str | None = None
    error: str | None = None
    stopped = False
    for event in events:
        data = object_of(event.data)
        kind = data.get("type") or event.name
        if kind == "message_start":
            start = object_of(data.get("message"))
        elif kind == "content_block_start":
            blocks[_key(data)] = dict(object_of(data.get("content_block"))) | {"json": ""}
        elif kind == "content_block_delta":
            _apply(blocks.setdefault(_key(data), {"json": ""}), object_of(data.get("delta")))
        elif kind == "message_delta":
            stop_reason = text_or_none(object_of(data.get("delta")).get("stop_reason")) or stop_reason
            deltas.append(data.get("usage"))
        elif kind == "message_stop":
            stopped = True
        elif kind == "error":
            error = error or f"error event: {one_line(error_text(event.data))}"
    return Answer(
        response_id=text_or_none(start.get("id")),
        text="".join(text_of(block.get("text")) for block in blocks.values() if block.get("type") == "text"),
        tool_calls=tuple(
            (text_of(block.get("name")), block["json"] or dumps(block.get("input", {})).decode())
            for block in blocks.values()
            if block.get("type") == "tool_use"
        ),
        stop_reason=stop_reason,
        usage=messages_usage(last_values(start.get("usage"), deltas)),
        start_usage=messages_usage(start.get("usage")) if start.get("usage") is not None else None,
        error=error or (None if stopped else NO_STOP),
    )


def _key(data: Mapping[str, Any]) -> Any:
    index = data.get("index")
    return index if isinstance(index, int | str) else None


def _apply(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    if delta.get("type") == "text_delta":
        block["type"] = block.get("type") or "text"
        block["text"] = text_of(block.get("text")) + text_of(delta.get("text"))
    elif delta.get("type") == "input_json_delta":
        block["json"] += text_of(delta.get("partial_json"))


class MessagesSdk(Sdk):
    """The official `anthropic` SDK against one endpoint, its own helper accumulating streams."""

    def __init__(self, endpoint: Endpoint) -> None:
        # Importing an SDK takes a second or two: only runs that use this dialect pay for it.
        import anthropic
        from anthropic.resources.messages import Messages

        super().__init__(endpoint, anthropic, anthropic.Anthropic, base_url=endpoint.url, open_telemetry=False)
        self._known = body_parameters(Messages.create)

    def plain(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> Reply:
        """Send `body` as a plain request. Raises the SDK's connection errors; see `problems.broken`."""

        def call() -> Reply:
            response = self._client.messages.with_raw_response.create(**self._arguments(body, headers))
            answer = self._accumulated(lambda: read_message(self._object(response.parse())))
            return self._reply(response.http_response, answer)

        return self._guarded(call, str(body.get("model")))

    def stream(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> Reply:
        """Send `body` as a streamed request and let the SDK accumulate the message.

        The SDK takes a stream that lacks `message_stop` for whole; the answer's `error` says that it is not.
        """

        return self._guarded(lambda: self._streamed(self._client, body, headers), str(body.get("model")))

    def replay(self, stream: bytes) -> Answer:
        """What the SDK accumulates from the bytes of a stream that came before; nothing is sent."""
        import httpx2

        def respond(_request: Any) -> Any:
            return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=stream)

        body = {"model": "replayed", "max_tokens": 1, "messages": []}
        with self._module.DefaultHttpxClient(transport=httpx2.MockTransport(respond), trust_env=False) as http:
            client = self._client.with_options(http_client=http)
            return self._guarded(lambda: self._streamed(client, body, {}), "replayed").answer

    def _streamed(self, client: Any, body: Mapping[str, Any], headers: Mapping[str, str]) -> Reply:
        with client.messages.stream(**self._arguments(body, headers)) as stream:

            def accumulate() -> Answer:
                kinds = {event.type for event in stream}
                answer = read_message(self._object(stream.get_final_message()))
                if answer.error is None and "message_stop" not in kinds:
                    return replace(answer, error=NO_STOP)
                return answer

            return self._reply(stream.response, self._accumulated(accumulate))

    def _arguments(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        known = {name: value for name, value in body.items() if name in self._known}
        extra = {name: value for name, value in body.items() if name not in self._known and name != "stream"}
        return known | {"extra_body": extra or None, "extra_headers": self._request_headers(headers)}
