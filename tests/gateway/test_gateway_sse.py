"""The event-stream reader."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from reference_gateway.sse import SSEReader, data_event, named_event


def read(*pieces: bytes) -> list[str]:
    reader = SSEReader()
    return [event for piece in pieces for event in reader.feed(piece)]


def test_fields_comments_and_line_ends() -> None:
    assert read(b": hello\n\nevent: x\ndata: a\ndata:b\nid: 1\n\ndata:  c\r\n\r\ndata: d\r\rdata: cut off\n") == [
        "a\nb",
        " c",
        "d",
    ]


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])), max_size=5), st.data())
def test_any_cut_of_the_bytes_gives_the_same_events(texts: list[str], data: st.DataObject) -> None:
    newline = data.draw(st.sampled_from(["\n", "\r\n"]))
    wire = "".join(f"data: {text}{newline}{newline}" for text in texts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=8)))
    pieces = [wire[start:end] for start, end in zip([0, *cuts], [*cuts, len(wire)], strict=True)]
    assert read(*pieces) == texts


def test_writers_give_what_the_reader_reads() -> None:
    event = {"type": "ping", "text": "é"}
    assert named_event(event).startswith(b"event: ping\ndata: ")
    assert [json.loads(found) for found in read(named_event(event))] == [event]
    assert read(data_event(b"[DONE]")) == ["[DONE]"]
