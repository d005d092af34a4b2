"""OpenAI Chat Completions: reading answers and chunk streams, and the official `openai` SDK as the client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from conformance.wire.answers import Answer, Reply, members, object_of, text_of, text_or_none
from conformance.wire.endpoint import Endpoint
from conformance.wire.exchange import StreamEvent
from conformance.wire.problems import error_text, one_line
from conformance.wire.sdk import Sdk
from conformance.wire.usage import chat_usage

NO_FINISH = "the stream ended without a finish_reason"
DONE = "[DONE]"


def read_completion(raw: Any) -> Answer:
    """Read a plain `/v1/chat/completions` answer, tolerant of anything that is not as it should be."""
    completion = object_of(raw)
    choices = members(completion.get("choices"))
    choice = choices[0] if choices else {}
    message = object_of(choice.get("message"))
    error = None
    if completion.get("error") is not None:
        error = f"an error inside a 200 answer: {one_line(error_text(raw))}"
    elif not isinstance(choice.get("message"), Mapping):
        error = "the answer is no chat completion: it has no choice with a message"
    return Answer(
        response_id=text_or_none(completion.get("id")),
        text=_content(message.get("content")),
        tool_calls=tuple(
            (text_of(function.get("name")), text_of(function.get("arguments")))
            for function in (object_of(call.get("function")) for call in members(message.get("tool_calls")))
        ),
        stop_reason=text_or_none(choice.get("finish_reason")),
        usage=chat_usage(completion.get("usage")),
        error=error,
    )


def _content(value: Any) -> str:
    return text_of(value) or "".join(text_of(part.get("text")) for part in members(value))


class Accumulator:
    """Adds up the chunks of one streamed completion (choice 0), as a client does."""

    def __init__(self) -> None:
        self._id: str | None = None
        self._text: list[str] = []
        self._calls: dict[Any, dict[str, str]] = {}
        self._finish: str | None = None
        self._usage: Any = None
        self._error: str | None = None

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Take one chunk. Of several usage objects the last one stands."""
        self._id = self._id or text_or_none(chunk.get("id"))
        if chunk.get("error") is not None:
            self._error = self._error or f"error event: {one_line(error_text(dict(chunk)))}"
        if isinstance(chunk.get("usage"), Mapping):
            self._usage = chunk["usage"]
        for choice in members(chunk.get("choices")):
            if choice.get("index", 0) != 0:
                continue
            delta = object_of(choice.get("delta"))
            self._text.append(text_of(delta.get("content")))
            for position, call in enumerate(members(delta.get("tool_calls"))):
                index = call.get("index")
                entry = self._calls.setdefault(index if isinstance(index, int) else position, {"name": "", "json": ""})
                function = object_of(call.get("function"))
                entry["name"] = entry["name"] or text_of(function.get("name"))
                entry["json"] += text_of(function.get("arguments"))
            self._finish = text_or_none(choice.get("finish_reason")) or self._finish

    def answer(self) -> Answer:
        """What the chunks so far amount to; its `error` is set when no finish_reason came."""
        return Answer(
            response_id=self._id,
            text="".join(self._text),
            tool_calls=tuple((call["name"], call["json"]) for call in self._calls.values()),
            stop_reason=self._finish,
            usage=chat_usage(self._usage),
            error=self._error or (None if self._finish else NO_FINISH),
        )


def read_completion_events(events: Iterable[StreamEvent]) -> Answer:
    """Read a streamed completion from its events, up to `[DONE]` where that comes."""
    accumulator = Accumulator()
    for event in events:
        if event.data == DONE:
            break
        accumulator.add(object_of(event.data))
    return accumulator.answer()


class ChatSdk(Sdk):
    """The official `openai` SDK against one endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        # Importing an SDK takes a second or two: only runs that use this dialect pay for it.
        import openai

        super().__init__(endpoint, openai, openai.OpenAI, base_url=f"{endpoint.url}/v1")

    def plain(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> Reply:
        """Send `body` as a plain request. Raises the SDK's connection errors; see `problems.broken`."""

        def call() -> Reply:
            response = self._client.chat.completions.with_raw_response.create(**self._arguments(body, headers))
            answer = self._accumulated(lambda: read_completion(self._object(response.parse())))
            return self._reply(response.http_response, answer)

        return self._guarded(call, str(body.get("model")))

    def stream(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> Reply:
        """Send `body` as a streamed request and add up the chunks the SDK gives.

        The SDK's own `stream` helper is for parsed outputs and refuses tools that are not strict.
        """

        def call() -> Reply:
            with self._client.chat.completions.create(stream=True, **self._arguments(body, headers)) as stream:

                def accumulate() -> Answer:
                    accumulator = Accumulator()
                    for chunk in stream:
                        accumulator.add(self._object(chunk))
                    return accumulator.answer()

                return self._reply(stream.response, self._accumulated(accumulate))

        return self._guarded(call, str(body.get("model")))

    def _arguments(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
        """`create` walks every typed parameter to rename none of them: 4 ms for 20 kB. `extra_body` it takes as is.

        The bytes on the wire are the same either way but for the order of the top-level members.
        """
        extra = {name: value for name, value in body.items() if name != "stream"}
        return {
            "model": body.get("model"),
            "messages": (),
            "extra_body": extra,
            "extra_headers": self._request_headers(headers),
        }
