"""Server-sent events: an incremental reader and the two writers the dialects need.

The line rules are those of the HTML standard's event stream; ids and retry times are not used by either dialect.
"""

from typing import Any

from .jsontext import dumps


class SSEReader:
    """Feed bytes as they arrive, get the ``data`` of each complete event."""

    def __init__(self) -> None:
        self._buffer = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[str]:
        """The events that ``chunk`` completes. An event cut off by the stream's end is never delivered."""
        self._buffer += chunk
        if b"\r" in self._buffer:
            held = b"\r" if self._buffer.endswith(b"\r") else b""
            body = self._buffer[:-1] if held else self._buffer
            self._buffer = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n") + held
        *lines, self._buffer = self._buffer.split(b"\n")
        events = []
        for line in lines:
            if not line:
                if self._data:
                    events.append(b"\n".join(self._data).decode("utf-8", "replace"))
                    self._data = []
            elif line.startswith(b"data:"):
                self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
        return events


def named_event(event: dict[str, Any]) -> bytes:
    """An Anthropic event: the name repeats the payload's ``type``."""
    return b"event: " + str(event["type"]).encode() + b"\ndata: " + dumps(event) + b"\n\n"


def data_event(data: bytes) -> bytes:
    """An OpenAI event: data only."""
    return b"data: " + data + b"\n\n"
