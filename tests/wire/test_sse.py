from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.wire.exchange import StreamEvent
from conformance.wire.sse import SSEParser, stream_event


def events(*chunks: bytes) -> list[tuple[str, str]]:
    parser = SSEParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


def by_the_standard(text: bytes) -> list[tuple[str, str]]:
    """The standard's algorithm, character by character and all at once: slow, and nothing like the parser's."""
    decoded = text.decode("utf-8", "replace").removeprefix("\ufeff")
    lines, line, position = [], "", 0
    while position < len(decoded):
        character = decoded[position]
        if character in "\r\n":
            lines.append(line)
            line = ""
            if decoded[position : position + 2] == "\r\n":
                position += 1
        else:
            line += character
        position += 1
    found, name, data = [], "", ""
    for line in lines:
        if line == "":
            if data != "":
                found.append((name, data.removesuffix("\n")))
            name = data = ""
        elif not line.startswith(":"):
            field, colon, value = line.partition(":")
            value = value[1:] if colon and value.startswith(" ") else value
            if field == "event":
                name = value
            elif field == "data":
                data += value + "\n"
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"data: a\n\n", [("", "a")]),
        (b"data:a\r\n\r\n", [("", "a")]),
        (b"data: a\r\rdata: b\r\r", [("", "a"), ("", "b")]),
        (b"event: x\ndata: 1\ndata: 2\n\n", [("x", "1\n2")]),
        (b": comment\n\ndata: a\n: more\n\n", [("", "a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [("", "a")]),
        (b"data\n\ndata\ndata\n\n", [("", ""), ("", "\n")]),
        (b"event: nothing\n\ndata: a\n\n", [("", "a")]),
        (b"data:  two spaces\n\n", [("", " two spaces")]),
        (b"id: 7\nretry: 10\ndata: a\n\n", [("", "a")]),
        (b"data: unfinished\n", []),
        ("data: ü€\n\n".encode(), [("", "ü€")]),
        (b"data: \xff\n\n", [("", "\ufffd")]),
    ],
)
def test_the_rules_of_the_standard(text: bytes, expected: list[tuple[str, str]]) -> None:
    assert events(text) == expected == by_the_standard(text)


LINES = st.sampled_from(
    [b"data: x", b"data", b"data:", b"event: ping", b"event", b": c", b"", b"\xef\xbb\xbfdata: y", "data: é".encode()]
)
TEXTS = st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=20).map(
    lambda pairs: b"".join(line + end for line, end in pairs)
)


@given(st.one_of(TEXTS, st.binary(max_size=60)), st.data())
def test_however_the_bytes_are_cut_the_events_are_those_of_the_standard(text: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert events(*pieces) == by_the_standard(text)
    assert events(*(text[i : i + 1] for i in range(len(text)))) == by_the_standard(text)


def test_a_stream_cut_inside_an_event_is_pending() -> None:
    parser = SSEParser()
    parser.feed(b"data: a\n\n")
    assert not parser.pending
    parser.feed(b"data: b")
    assert parser.pending


def test_data_is_parsed_where_it_is_json() -> None:
    assert stream_event("x", '{"n": 18446744073709551616}') == StreamEvent("x", {"n": 18446744073709551616})
    assert stream_event("", "[DONE]") == StreamEvent("", "[DONE]")
