"""One request on Locust's fast HTTP client: the stream read to its end, and told to Locust as events of its own.

Locust's own stream timing ends at the headers; here a request's time is that of its whole answer, and the time to the
first content and the gaps between contents are reported under names of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import gevent
import orjson
from geventhttpclient.url import URL
from locust.contrib.fasthttp import FastHttpSession

from conformance.errors import PrefixproofError
from conformance.sessions import CLIENTS
from conformance.verdicts import Entry
from conformance.wire.client import Wire
from conformance.wire.endpoint import RUN_HEADER, USER_AGENT
from conformance.wire.usage import messages_usage
from load.answers import LONGEST_LINE, StreamReading, error_kind, read_plain, text_hash
from load.connections import Connections
from load.plan import Plan
from load.samples import UNFINISHED, Sample
from load.talk import Outgoing, as_object

_CHUNK: Final = 65_536
_MOST_TOKENS: Final = 10**9
_LONGEST_PLAIN: Final = 64 * 1024 * 1024


class Sender:
    """Sends one user's requests. `timeout_s` bounds a whole answer, `run` marks the traffic as synthetic."""

    def __init__(self, host: str, client: FastHttpSession, *, api_key: str | None, run: str, timeout_s: float) -> None:
        self._host = host.rstrip("/")
        # Locust's client, below the layer that keeps cookies, follows redirects and turns a refusal into an exception:
        # a coding client does none of it, and the sessions of one user are different people's.
        base = URL(self._host)
        self._connections = Connections(client.client.clientpool, base)
        self._prefix = getattr(base, "quoted_uri", base.request_uri).rstrip("/")
        self._key = api_key
        self._run = run
        self._constant = {"content-type": "application/json", "accept-encoding": "identity", RUN_HEADER: run}
        if api_key:
            self._constant |= {"authorization": f"Bearer {api_key}", "x-api-key": api_key}
        self._timeout_s = timeout_s
        self._wire: Wire | None = None

    def send(self, outgoing: Outgoing, phase: str, keep: Callable[[Sample], None]) -> Sample:
        """Send, read the whole answer, and say what is known of it. Never raises for what a target does.

        `keep` gets the sample in any case, also when the run ends meanwhile and this greenlet is killed.
        """
        sample = Sample(
            at=time.time(),
            phase=phase,
            session=outgoing.session,
            conversation=outgoing.conversation,
            kind=outgoing.kind,
            entry=outgoing.entry,
            client=outgoing.client,
            sdk=outgoing.sdk,
            sent_bytes=len(outgoing.body),
            counts=not outgoing.path.endswith("/count_tokens"),
        )
        began = time.perf_counter()
        try:
            with gevent.Timeout(self._timeout_s):
                self._by_either(outgoing, sample, began)
        except gevent.Timeout:
            sample.error = f"no whole answer within {self._timeout_s:g} s"
        except Exception as error:
            # The HTTP client takes the timeout for its own and wraps it.
            late = time.perf_counter() - began >= self._timeout_s
            sample.error = f"no whole answer within {self._timeout_s:g} s" if late else _reason(error)
        except BaseException:
            sample.error = UNFINISHED
            raise
        finally:
            sample.total = time.perf_counter() - began
            keep(sample)
        return sample

    def _by_either(self, outgoing: Outgoing, sample: Sample, began: float) -> None:
        if outgoing.sdk and sample.counts:
            self._by_sdk(outgoing, sample)
        else:
            self._by_fast_client(outgoing, sample, began)

    def close(self) -> None:
        """Drop the connections."""
        if self._wire is not None:
            self._wire.close()

    def _headers(self, outgoing: Outgoing) -> dict[str, str]:
        own = {name.lower(): value for name, value in outgoing.headers.items()}
        own["user-agent"] = f"{own['user-agent']} {USER_AGENT}" if "user-agent" in own else USER_AGENT
        own |= self._constant
        return own

    def _by_fast_client(self, outgoing: Outgoing, sample: Sample, began: float) -> None:
        def doubtful() -> None:
            sample.resent = True

        path, headers = self._prefix + outgoing.path, self._headers(outgoing)
        stream = self._connections.post(path, outgoing.body, headers, doubtful)
        try:
            sample.status = stream.status_code
            streamed = "text/event-stream" in (stream.get("content-type") or "")
            if sample.status != 200:
                sample.error = f"status {sample.status}: {_kind_of(_whole(stream))}"
            elif outgoing.stream and not streamed:
                plain = read_plain(sample.entry, _whole(stream))
                sample.error = plain.error or "a stream was asked for, and the answer is none"
            elif outgoing.stream:
                _read_stream(stream, outgoing, sample, began)
            else:
                plain = read_plain(sample.entry, _whole(stream))
                sample.error = plain.error
                if sample.counts:
                    _note_usage(sample, plain.usage)
        finally:
            stream.release()

    def _by_sdk(self, outgoing: Outgoing, sample: Sample) -> None:
        if self._wire is None:
            self._wire = Wire(
                self._host, api_key=self._key, model="", timeout_s=self._timeout_s, recorder=None, run_id=self._run
            )
        body = as_object(outgoing)
        self._wire.model = body["model"]
        body.pop("stream", None)
        entry = Entry.MESSAGES if sample.entry == "messages" else Entry.CHAT
        exchange = self._wire.send(entry, body, stream=True, via="sdk", headers=outgoing.headers)
        sample.status = exchange.status
        sample.error = exchange.error.split(":")[0] if exchange.error else None
        _note_usage(sample, exchange.usage)
        sample.answer = text_hash(exchange.text)


def load_sdks(plan: Plan) -> None:
    """Import the SDKs that sessions of this plan go through, before any is timed.

    An import takes seconds in which no greenlet of the process runs: amid a run it would be booked as the target's
    time to the first token, and connections would rest for longer than their server keeps them.
    """
    messages = {CLIENTS[spec.client].dialect == "messages" for spec in plan.sessions if spec.sdk}
    entries = [Entry.MESSAGES if own else Entry.CHAT for own in messages]
    with Wire("http://127.0.0.1", api_key=None, model="", timeout_s=1, recorder=None, run_id="load") as wire:
        wire.load_sdks(entries)


def _read_stream(stream: Any, outgoing: Outgoing, sample: Sample, began: float) -> None:
    reading = StreamReading(sample.entry)
    # The response object gives its socket back to the pool as soon as the last byte was parsed.
    sock, buffer = stream._sock, stream._body_buffer
    while True:
        now = time.perf_counter()
        end = buffer.rfind(b"\n") + 1
        if end:
            whole = bytes(buffer[:end])
            del buffer[:end]
            reading.lines(whole, now)
        if stream.message_complete:
            break
        if len(buffer) > LONGEST_LINE:
            reading.error = f"a line of more than {LONGEST_LINE} bytes"
            break
        data = sock.recv(_CHUNK)
        stream.feed(data)
        if not data and not stream.message_complete:
            break
    reading.close()
    sample.error = reading.error
    if reading.first is not None:
        sample.ttft = reading.first - began
    sample.gap_mean, sample.gap_max = reading.gap_mean, reading.gap_max
    _note_usage(sample, reading.usage)
    if reading.start_usage is not None:
        sample.start_prompt = messages_usage(reading.start_usage).prompt
    text = reading.text
    sample.answer = text_hash(text)
    if outgoing.expects is not None:
        sample.recalled = outgoing.expects in text


def _note_usage(sample: Sample, usage: Any) -> None:
    sample.prompt, sample.cached = _possible(usage.prompt), _possible(usage.cached)
    sample.created, sample.output = _possible(usage.created), _possible(usage.output)


def _possible(count: int | None) -> int | None:
    """A count that can be added up; one that no prompt has says nothing."""
    return None if count is None or abs(count) > _MOST_TOKENS else count


def _whole(stream: Any) -> bytes:
    parts, size = [], 0
    while size < _LONGEST_PLAIN:
        part = stream.read(_CHUNK)
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _kind_of(body: bytes) -> str:
    try:
        return error_kind(orjson.loads(body))
    except orjson.JSONDecodeError:
        return "not JSON"


def _reason(error: Exception) -> str:
    """One line without anything a target or a prompt could have put there."""
    if isinstance(error, PrefixproofError):
        return str(error).split(":")[0]
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, ConnectionError | EOFError):
        return "the connection broke before the answer was whole"
    if isinstance(error, TimeoutError):
        return "no bytes within the connection's timeout"
    return f"the answer could not be read ({type(error).__name__})"
