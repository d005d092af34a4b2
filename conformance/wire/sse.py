"""Server-sent events from bytes, by the rules of the WHATWG HTML standard ("Interpreting an event stream")."""

from __future__ import annotations

from conformance.wire.exchange import StreamEvent
from conformance.wire.jsontext import loads

_BOM = b"\xef\xbb\xbf"


class SSEParser:
    """Feed it the body in pieces of any size; it gives the same events however the bytes were cut.

    An event without a data field is not dispatched, and what follows the last blank line is not an event: both as the
    standard says. `id` and `retry` are read over, for no client of this suite reconnects.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        self._data: list[str] = []
        self._at_start = True
        self._swallow_lf = False

    def feed(self, chunk: bytes) -> list[tuple[str, str]]:
        """The (name, data) of every event that `chunk` completes, in order; name "" when the event has none."""
        if self._swallow_lf and chunk:
            self._swallow_lf = False
            chunk = chunk.removeprefix(b"\n")
        buffer = self._rest + chunk
        if not buffer:
            return []
        lines = buffer.splitlines(keepends=True)
        # A CR ends its line at once; if the next chunk opens with LF, the two were one line end.
        self._rest = b"" if buffer.endswith((b"\n", b"\r")) else lines.pop()
        self._swallow_lf = buffer.endswith(b"\r")
        events = []
        for raw in lines:
            if self._at_start:
                self._at_start = False
                raw = raw.removeprefix(_BOM)
            event = self._line(raw.rstrip(b"\r\n"))
            if event is not None:
                events.append(event)
        return events

    @property
    def pending(self) -> bool:
        """True when the stream so far ends inside an event."""
        return bool(self._rest or self._data or self._name)

    def _line(self, raw: bytes) -> tuple[str, str] | None:
        if not raw:
            name, data = self._name, self._data
            self._name, self._data = "", []
            return (name, "\n".join(data)) if data else None
        field, _, value = raw.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value
        return None


def stream_event(name: str, data: str) -> StreamEvent:
    """The event with its data parsed where it is JSON, and as text (`[DONE]`) where it is not."""
    try:
        return StreamEvent(name, loads(data))
    except (ValueError, RecursionError):
        return StreamEvent(name, data)
