"""A plain HTTP client: the exact bytes given go out, and every event of a stream is kept as it came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import httpx

from conformance.verdicts import Entry
from conformance.wire.answers import Answer, Reply, failure_of
from conformance.wire.chat import read_completion, read_completion_events
from conformance.wire.deadline import bound_answers
from conformance.wire.endpoint import KEPT_ALIVE_S, Endpoint
from conformance.wire.exchange import StreamEvent
from conformance.wire.jsontext import loads_or_none
from conformance.wire.messages import read_message, read_message_events
from conformance.wire.problems import broken, broken_off, error_line
from conformance.wire.sse import SSEParser, stream_event

EVENT_STREAM = "text/event-stream"
ANTHROPIC_VERSION = "2023-06-01"


class RawClient:
    """An httpx client against one endpoint. Connection trouble before the first answer byte raises as httpx does."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._client = httpx.Client(
            headers={
                **endpoint.marks,
                **endpoint.credentials,
                "accept-encoding": "identity",  # what is kept as the answer's bytes is what a reader can read
            },
            timeout=httpx.Timeout(endpoint.timeout_s, connect=endpoint.connect_timeout_s),
            limits=httpx.Limits(keepalive_expiry=KEPT_ALIVE_S),
            event_hooks={"response": [bound_answers(httpx, endpoint.answer_timeout_s)]},
            **endpoint.client_options,
        )

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()

    def get(self, path: str) -> Reply:
        """GET `path`; the body is not interpreted."""
        return self._exchange("GET", path, b"", {})

    def post(self, entry: Entry, body: bytes, *, stream: bool, headers: Mapping[str, str] | None = None) -> Reply:
        """POST `body` to an entry and read the answer in its dialect, as an event stream if `stream`."""
        own = {"content-type": "application/json", "accept": EVENT_STREAM if stream else "application/json"}
        if entry is Entry.MESSAGES:
            own["anthropic-version"] = ANTHROPIC_VERSION
        reply = self._exchange("POST", entry.path, body, own | dict(headers or {}))
        if reply.error is not None:
            return reply
        answer = _streamed(entry, reply) if stream else _plain(entry, reply)
        if reply.answer.error is not None:
            answer = replace(answer, error=reply.answer.error, failure=reply.answer.failure)
        return replace(reply, answer=answer)

    def ask(self, path: str, body: bytes) -> Reply:
        """POST JSON to any path in Anthropic's dialect; the answer's body is not interpreted."""
        return self._exchange(
            "POST", path, body, {"content-type": "application/json", "anthropic-version": ANTHROPIC_VERSION}
        )

    def leave(self, entry: Entry, body: bytes, timeout_s: float) -> None:
        """POST a streamed request and hang up at the first bytes of its answer, or after `timeout_s` without any."""
        own = {"content-type": "application/json", "accept": EVENT_STREAM, "anthropic-version": ANTHROPIC_VERSION}
        try:
            with self._client.stream(
                "POST", self._endpoint.url + entry.path, content=body, headers=own, timeout=timeout_s
            ) as response:
                next(response.iter_raw(), b"")
        except httpx.HTTPError as exc:
            if broken(exc) is None:
                raise

    def _exchange(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        events: list[StreamEvent] = []
        pieces: list[bytes] = []
        cut = Answer()
        url = self._endpoint.url + path
        with self._client.stream(method, url, content=body or None, headers=dict(headers)) as response:
            answer_headers = dict(response.headers)
            parser = SSEParser() if content_type(answer_headers) == EVENT_STREAM else None
            try:
                for piece in response.iter_bytes():
                    pieces.append(piece)
                    if parser is not None:
                        events.extend(stream_event(name, data) for name, data in parser.feed(piece))
            except httpx.HTTPError as exc:
                why = broken(exc)
                if why is None:
                    raise
                cut = broken_off(why)
        whole = b"".join(pieces)
        status = response.status_code
        return Reply(
            status=status,
            headers=answer_headers,
            answer=cut,
            events=tuple(events),
            body=whole,
            error=None if 200 <= status < 300 else error_line(status, whole, self._endpoint.api_key),
            failure=failure_of(status),
            sent=len(body),
        )


def content_type(headers: Mapping[str, str]) -> str:
    """The media type of an answer without its parameters, in lower case; "" when there is none."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _plain(entry: Entry, reply: Reply) -> Answer:
    parsed = loads_or_none(reply.body)
    if parsed is None:
        return Answer(error=f"the answer is no JSON ({content_type(reply.headers) or 'no content type'})")
    return read_message(parsed) if entry is Entry.MESSAGES else read_completion(parsed)


def _streamed(entry: Entry, reply: Reply) -> Answer:
    kind = content_type(reply.headers)
    if kind != EVENT_STREAM:
        return Answer(error=f"the answer to a streamed request is no event stream ({kind or 'no content type'})")
    return read_message_events(reply.events) if entry is Entry.MESSAGES else read_completion_events(reply.events)
