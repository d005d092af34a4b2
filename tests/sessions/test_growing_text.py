"""A growing conversation's text: written a piece at a time or at once, it is the same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import orjson
import pytest

from conformance.sessions import CLIENTS, Session, body_cch
from conformance.sessions.growing import GrowingText


def grown(client: str, look: Callable[[Session], object]) -> bytes:
    """A conversation after turns of all kinds, `look`ed at after each."""
    session = CLIENTS[client].start(seed="grown", salt="salt-grown", shape="scaled", model="m", max_tokens=5)
    able = session.profile.dialect == "messages"
    for number in range(8):
        session.grow(500 + 17 * number, None if number % 3 else "text")
        look(session)
        if able and number in (2, 3):
            session.note(300)
            look(session)
    return session.encoded()


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_how_often_it_was_encoded_changes_no_byte(client: str) -> None:
    once = grown(client, lambda _: None)
    assert grown(client, lambda session: session.encoded()) == once
    body = orjson.loads(once)
    assert orjson.dumps(body) == once
    if client.startswith("claude-code") and "cch=" in body["system"][0]["text"] and "cch=00000" not in str(body):
        assert f"cch={body_cch(body)};" in body["system"][0]["text"]


def test_marks_stand_on_the_last_messages_alone_however_the_session_got_there() -> None:
    body = orjson.loads(grown("claude-code-2.1.332", lambda session: session.encoded()))
    marked = [i for i, message in enumerate(body["messages"]) if "cache_control" in str(message)]
    assert marked
    assert min(marked) >= len(body["messages"]) - 3


def test_members_behind_the_body_are_no_part_of_it() -> None:
    session = CLIENTS["opencode-1.18.33"].start(seed="s", salt="salty", shape="scaled", model="m", max_tokens=5)
    more = orjson.loads(session.encoded(b',"stream":true'))
    assert more.pop("stream") is True
    assert more == session.body()


def test_a_digest_reads_what_is_new_and_is_that_of_the_whole() -> None:
    text = GrowingText()
    for number in range(4):
        text.settle([{"role": "user", "content": f"{number}"}] * 2, number + 1)
        for first in ("a", "b"):
            ends = text.around({"model": first, "messages": None, "system": "s"}, [{"role": "user", "content": "now"}])
            assert text.digest(ends) == hashlib.sha256(text.body(ends)).hexdigest()
            assert len(orjson.loads(text.body(ends))["messages"]) == 2 * number + 3
