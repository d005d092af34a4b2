"""The recorder answering in the engine's place: the right script, exact bytes, cuts, holds, and no engine at all."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import httpx
import orjson
import pytest
from recorder_rig import MARKER, Rig, pieces, rig

from conformance.recorder import Recorder, relay
from conformance.scripting import Forms, Hold, Script, ScriptedReply, Wait
from conformance.scripting.content import event_stream, json_answer

TOKEN = f"deadbeef-{MARKER.decode()}"
CHAT = "/v1/chat/completions"
PLAIN = json_answer({"it": "plain"})
STREAM = event_stream(b"data: {}\n\ndata: [DONE]\n\n")


def asked(token: str = TOKEN, **members: object) -> bytes:
    return orjson.dumps({"model": "m", "messages": [{"role": "user", "content": f"{token} Say it."}], **members})


def reply(plain: Script = PLAIN, stream: Script = STREAM, native: Script | None = None) -> ScriptedReply:
    messages = native or json_answer({"it": "native"})
    return ScriptedReply("a case", Forms(plain, stream), Forms(messages, messages))


@contextlib.contextmanager
def scripted(answer: ScriptedReply, token: str = TOKEN) -> Iterator[Rig]:
    with rig(pieces(b"relayed")) as running:
        running.recorder.scripts.put(token, answer)
        yield running


def test_a_token_gets_its_script_in_the_form_and_dialect_it_is_asked_in() -> None:
    with scripted(reply()) as r:
        assert r.post(asked()).json() == {"it": "plain"}
        assert r.post(asked(stream=False)).json() == {"it": "plain"}
        streamed = r.post(asked(stream=True))
        assert (streamed.content, streamed.headers["content-type"]) == (STREAM.body, "text/event-stream")
        assert r.post(asked(), "/v1/messages").json() == {"it": "native"}
        records = r.recorder.since(0)
        assert r.engine.asked == []
    assert [(record.script, record.status, record.complete) for record in records] == [("a case", 200, True)] * 4
    assert records[0].response_body == PLAIN.body


def test_every_other_request_is_relayed() -> None:
    with scripted(reply()) as r:
        for body in (asked(f"cafecafe-{MARKER.decode()}"), asked(TOKEN + "-longer"), asked("x" + TOKEN), b"other"):
            assert r.post(body).content == b"relayed"
        r.recorder.scripts.drop(TOKEN)
        assert r.post(asked()).content == b"relayed"
        assert [record.script for record in r.recorder.since(0)] == [None] * 4


def test_a_path_without_models_is_a_404_in_openai_shape() -> None:
    with scripted(reply()) as r:
        response = r.post(asked(), "/v1/responses")
    assert response.status_code == 404
    assert "/v1/responses" in response.json()["error"]["message"]


def read_to_its_end(r: Rig, body: bytes) -> bytes:
    """The bytes of an answer up to where its connection breaks, which it must."""
    got = b""
    with r.client.stream("POST", r.url + CHAT, content=body) as response:
        pieces_read = response.iter_raw()
        try:
            for piece in pieces_read:
                got += piece
        except httpx.RemoteProtocolError:
            return got
    raise AssertionError("the answer was whole")


@pytest.mark.parametrize("at", [0, 1, 10, len(STREAM.body) - 1, len(STREAM.body)])
def test_a_cut_answer_ends_at_its_byte(at: int) -> None:
    with scripted(reply(stream=STREAM.cut(at))) as r:
        got = read_to_its_end(r, asked(stream=True))
        (record,) = r.recorder.since(0)
    assert got == STREAM.body[:at] == record.response_body
    assert not record.complete


def test_a_cut_plain_answer_is_shorter_than_it_says() -> None:
    with scripted(reply(plain=PLAIN.cut(4))) as r, pytest.raises(httpx.RemoteProtocolError):
        r.post(asked())


def test_slow_bytes_arrive_whole() -> None:
    with scripted(reply(stream=STREAM.trickled(5, 0.001))) as r:
        assert r.post(asked(stream=True)).content == STREAM.body


def test_a_held_answer_waits_for_its_release_and_others_do_not() -> None:
    held = Script(headers=PLAIN.headers, steps=PLAIN.steps, before=(Hold(),))
    answers: list[httpx.Response] = []
    with scripted(reply(plain=held)) as r:
        thread = threading.Thread(
            target=lambda: answers.append(httpx.post(r.url + CHAT, content=asked(), trust_env=False))
        )
        thread.start()
        assert r.recorder.arrived(TOKEN, 0, 20)
        assert r.post(b"other").content == b"relayed"
        (record,) = r.recorder.since(0, settle_s=0)
        assert (record.status, record.complete, answers) == (None, False, [])
        r.recorder.scripts.release(TOKEN)
        thread.join(20)
        assert r.post(asked()).json() == {"it": "plain"}, "once released, a token holds no more"
    assert answers[0].json() == {"it": "plain"}


def test_a_client_that_leaves_a_held_answer_ends_it() -> None:
    held = Script(headers=STREAM.headers, steps=(b"data: {}\n\n", Hold(), b"data: [DONE]\n\n"))
    with scripted(reply(stream=held)) as r:
        with r.client.stream("POST", r.url + CHAT, content=asked(stream=True)) as response:
            assert next(response.iter_raw()) == b"data: {}\n\n"
        (record,) = r.recorder.since(0, settle_s=20)
    assert (record.complete, record.response_body) == (False, b"data: {}\n\n")


def test_what_has_not_arrived_is_waited_for_no_longer_than_asked() -> None:
    with scripted(reply()) as r:
        assert not r.recorder.arrived(TOKEN, 0, 0.01)


def test_a_recorder_that_stops_lets_go_of_what_it_holds() -> None:
    held = Script(before=(Hold(), Wait(0)), headers=PLAIN.headers, steps=PLAIN.steps)
    with scripted(reply(plain=held)) as r, httpx.Client(trust_env=False, timeout=0.2) as client:
        with pytest.raises(httpx.ReadTimeout):
            client.post(r.url + CHAT, content=asked())
        assert len(r.recorder.since(0, settle_s=20)) == 1


@pytest.fixture
def alone() -> Iterator[tuple[Recorder, httpx.Client]]:
    with relay(None, marker=MARKER) as recorder, httpx.Client(base_url=recorder.url or "", trust_env=False) as client:
        yield recorder, client


def test_without_an_engine_scripts_answer_and_the_rest_is_a_503(alone: tuple[Recorder, httpx.Client]) -> None:
    recorder, client = alone
    recorder.scripts.put(TOKEN, reply())
    assert client.post(CHAT, content=asked()).json() == {"it": "plain"}
    response = client.post(CHAT, content=b'{"messages": ["' + MARKER + b'/7"]}')
    assert response.status_code == 503
    assert response.json()["error"] == {
        "message": "prefixproof recorder: there is no engine behind this recorder; give one with --engine URL",
        "type": "no_engine", "param": None, "code": 503,
    }  # fmt: skip
    assert [record.status for record in recorder.since(0)] == [200, 503]


def test_without_an_engine_a_gateways_probes_find_one_alive(alone: tuple[Recorder, httpx.Client]) -> None:
    _, client = alone
    assert client.get("/health").status_code == 200
    assert client.get("/v1/models").json()["data"][0]["object"] == "model"
    assert client.get("/v1/other").status_code == 503
