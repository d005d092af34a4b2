from __future__ import annotations

import json
import socket
import threading
from typing import Any

import pytest
from preflight_gateway import (
    CHAT,
    KEY,
    MARKER,
    MESSAGES,
    MODEL,
    Answer,
    Gateway,
    check,
    completion,
    found,
    lists,
    message,
    no_tools,
    openai_error,
    problem,
    says,
    when,
)

from conformance.errors import TargetProblem, UsageProblem
from conformance.preflight import preflight_token
from conformance.servers import serve
from conformance.verdicts import Entry
from conformance.wire.limits import TokenLimit


def test_a_gateway_with_both_entries_is_taken_with_one_marked_request_of_a_client_each() -> None:
    gateway = Gateway()
    preflight = found(gateway)
    assert (preflight.entries, preflight.missing, preflight.model) == ((MESSAGES, CHAT), {}, MODEL)
    assert (preflight.requests, preflight.prompt_tokens, preflight.notes) == (2, 23, ())
    assert [path for path, _, _ in gateway.asked] == [MESSAGES.path, CHAT.path]
    for entry, (_, body, headers) in zip(Entry, gateway.asked, strict=True):
        assert body["model"] == MODEL
        assert body["stream"] is True
        assert len(body["tools"]) == 3
        assert preflight_token(MARKER, entry) in json.dumps(body["messages"])
        assert len(json.dumps(body)) < 8_000
        assert headers["x-prefixproof-run"] == "run-9"
        assert headers["authorization"] == f"Bearer {KEY}"
    messages = gateway.asked[0][1]
    assert len(messages["system"]) == 3
    assert messages["system"][0]["text"].startswith("x-anthropic-billing-header:")
    assert messages["system"][-1]["cache_control"] == {"type": "ephemeral"}


@pytest.mark.parametrize("status", [400, 422, 500])
def test_a_gateway_that_takes_no_tools_is_found_before_anything_is_judged(status: int) -> None:
    line = problem(no_tools("tools are not supported by this model", status))
    assert line.startswith(
        "takes requests to /v1/messages only without tools, and coding clients send tools with every request "
        f"(HTTP {status}: tools are not supported by this model): choose a model and a channel that take tools"
    )
    vllm = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
    line = problem(no_tools(vllm), entries=(CHAT,))
    assert line.endswith(": start vLLM with --enable-auto-tool-choice and --tool-call-parser")


@pytest.mark.parametrize(
    "fails",
    [
        says(400, openai_error("streaming is not supported")),
        says(500, openai_error("boom")),
        lambda request, body: message(request, {**body, "stream": False}),
    ],
)
def test_streams_that_fail_where_plain_answers_come_are_for_the_rules_to_judge(fails: Answer) -> None:
    gateway = Gateway(messages=when(lambda body: bool(body.get("stream")), fails, message))
    preflight = found(gateway)
    assert preflight.entries == (MESSAGES, CHAT)
    [note] = preflight.notes
    assert note.startswith("/v1/messages takes plain requests and fails at streamed ones (")
    assert preflight.requests == 3


NEWER = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
LEAST = "Invalid 'max_tokens': integer below minimum value. Expected a value >= 64, but got 16 instead."


def too_short(body: dict[str, Any]) -> bool:
    return int(body.get("max_tokens", body.get("max_completion_tokens", 0))) < 64


@pytest.mark.parametrize(
    ("answer", "entry", "limit", "note"),
    [
        (
            when(lambda body: "max_tokens" in body, says(400, openai_error(NEWER)), completion),
            CHAT,
            TokenLimit("max_completion_tokens"),
            "requests to /v1/chat/completions carry their limit on the answer as max_completion_tokens: ",
        ),
        (
            when(too_short, says(400, openai_error(LEAST)), message),
            MESSAGES,
            TokenLimit(least=64),
            "requests to /v1/messages carry their limit on the answer of 64 tokens or more: ",
        ),
        (
            when(
                lambda body: "max_tokens" in body,
                says(400, openai_error(NEWER)),
                when(too_short, says(422, openai_error(LEAST)), completion),
            ),
            CHAT,
            TokenLimit("max_completion_tokens", 64),
            "requests to /v1/chat/completions carry their limit on the answer as max_completion_tokens of 64 tokens or",
        ),
    ],
)
def test_a_limit_the_target_insists_on_is_kept_and_said(
    answer: Answer, entry: Entry, limit: TokenLimit, note: str
) -> None:
    gateway = Gateway(messages=answer) if entry is MESSAGES else Gateway(chat=answer)
    preflight = found(gateway)
    assert (preflight.entries, preflight.limits) == ((MESSAGES, CHAT), {entry: limit})
    [said] = preflight.notes
    assert said.startswith(note)
    assert "the target asked for it (HTTP 4" in said


def test_a_refusal_that_names_a_limit_out_of_reach_stays_one() -> None:
    words = "max_tokens must be at least 32000"
    line = problem(Gateway(messages=says(400, openai_error(words))), entries=(MESSAGES,))
    assert line.startswith(f"refuses a client's usual request to /v1/messages (HTTP 400: {words})")


def test_words_nobody_knows_are_not_repeated() -> None:
    error = openai_error("user Quuxwellington has no credit left")
    line = problem(Gateway(messages=says(402, error), chat=None), entries=(MESSAGES,))
    assert "(HTTP 402: user aaaaaaaaaaaaaa has no credit left)" in line
    listed = lists("one", "two", "Dear Quuxwellington, your parcel")
    assert problem(Gateway(models=listed), model=None) == "lists 2 models: choose one with --model: one, two"


def test_only_the_entries_asked_for_are_tried() -> None:
    gateway = Gateway()
    assert found(gateway, entries=(CHAT,)).entries == (CHAT,)
    assert [path for path, _, _ in gateway.asked] == [CHAT.path]


@pytest.mark.parametrize("suffix", ["/", "/v1", "/v1/", "/v1/messages", "/v1/chat/completions"])
def test_a_url_with_an_api_path_is_the_same_target_with_a_note(suffix: str) -> None:
    preflight = found(Gateway(), suffix=suffix)
    assert preflight.entries == (MESSAGES, CHAT)
    assert preflight.target.count("/") == 2
    assert len(preflight.notes) == (0 if suffix == "/" else 1)


def test_a_refused_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(TargetProblem) as raised:
        check(url)
    assert str(raised.value) == (
        f"{url} does not answer (connection refused): is the gateway running, and is the port right?"
    )


def test_a_host_that_does_not_resolve() -> None:
    with pytest.raises(TargetProblem, match="does not resolve: check its spelling"):
        check("http://gateway.invalid:3000/v1")


def test_https_to_a_plain_port() -> None:
    with serve(Gateway().app()) as server, pytest.raises(TargetProblem, match=r"should the URL begin with http://"):
        check(server.url.replace("http://", "https://"))


def test_a_target_that_hangs_or_hangs_up() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with listener:
        with pytest.raises(TargetProblem, match=r"sent no answer within 0\.2 s: does the gateway or its upstream hang"):
            check(url, timeout_s=0.2)

        def hang_up() -> None:
            for _ in range(2):  # the first connection is the one that timed out
                listener.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(TargetProblem, match="closed the connection without an answer: does this port speak plain"):
            check(url)
        thread.join()


def test_a_port_that_speaks_something_else() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def greet() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"220 mail ready\r\n\r\n")
            while connection.recv(65536):
                pass

    thread = threading.Thread(target=greet)
    thread.start()
    with (
        listener,
        pytest.raises(TargetProblem, match=r"answers, but not in HTTP \(.*220 mail.*\): is the port right\?"),
    ):
        check(f"http://127.0.0.1:{listener.getsockname()[1]}")
    thread.join()


def test_something_that_is_no_url_and_a_key_that_fits_no_header() -> None:
    with pytest.raises(TargetProblem, match=r"write it like http://127.0.0.1:3000"):
        check("127.0.0.1:3000")
    with pytest.raises(UsageProblem, match="API key"):
        check("http://127.0.0.1:1", api_key="sk-a\nb")
