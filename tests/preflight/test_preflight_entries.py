from __future__ import annotations

from typing import Any

import pytest
from preflight_gateway import CHAT, MESSAGES, Answer, Gateway, completion, found, openai_error, problem, says
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "HTTP 404: Not Found"),
        (says(404, openai_error("Invalid URL (POST /v1/messages)")), "HTTP 404: Invalid URL (POST /v1/messages)"),
        (says(404, {"detail": "Not Found"}), "HTTP 404: Not Found"),
        (says(405, {"detail": "Method Not Allowed"}), "HTTP 405: Method Not Allowed"),
        (says(501, openai_error("not implemented")), "HTTP 501: not implemented"),
        (says(200, "<!doctype html><html><title>Console</title></html>"), "HTTP 200 with a web page"),
    ],
)
def test_an_entry_that_is_not_there(answer: Answer | None, why: str) -> None:
    gateway = Gateway(messages=answer)
    preflight = found(gateway)
    assert preflight.entries == (CHAT,)
    (line,) = preflight.missing.values()
    assert line == f"{preflight.target} has no /v1/messages ({why})"
    assert preflight.notes == (f"/v1/messages is not judged: {line}",)
    for entries in ((MESSAGES, CHAT), (MESSAGES,)):
        said = problem(gateway, entries=entries)
        assert said.startswith(f"has no /v1/messages ({why})")
        assert said.endswith(
            " (add --entry chat to judge only that one)" if CHAT in entries else ", and is the URL right?"
        )


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "HTTP 404: Not Found"),
        (says(200, "<html>welcome</html>"), "HTTP 200 with a web page"),
        (says(404, "<html><style>x{}</style><h1>404</h1></html>"), "HTTP 404: 404"),
    ],
)
def test_a_server_that_is_no_gateway(answer: Answer | None, why: str) -> None:
    line = problem(Gateway(messages=answer, chat=answer))
    assert line == (f"has no /v1/messages ({why}), nor /v1/chat/completions: is this the base URL of an LLM gateway?")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (says(200, {"hello": "world"}), "does not speak the protocol of /v1/messages (HTTP 200): the answer is no"),
        (completion, "does not speak the protocol of /v1/messages (HTTP 200): the answer is no message"),
        (says(200, ["a", "list"]), "does not speak the protocol of /v1/messages"),
        (says(200, openai_error("no credit")), "(HTTP 200): an error inside a 200 answer: no credit"),
        (
            says(400, openai_error("messages: field required")),
            "refuses a client's usual request to /v1/messages (HTTP 400: ",
        ),
        (
            says(307, {}, location="https://gw/v1/messages"),
            "redirects /v1/messages to https://gw/v1/messages (HTTP 307",
        ),
        (
            says(500, openai_error("boom")),
            "answers a client's usual request to /v1/messages with HTTP 500: boom: is its engine",
        ),
        (says(502, "<html><h1>Bad Gateway</h1></html>"), "with HTTP 502: Bad Gateway: is its engine up?"),
        (says(503, {}), "with HTTP 503: {}: is its engine up?"),
        (says(429, openai_error("slow down"), retry_after="30"), "with HTTP 429: slow down: try again in 30 s"),
        (says(429, openai_error("slow down")), "with HTTP 429: slow down: try again later"),
    ],
)
def test_an_entry_that_is_there_but_cannot_be_judged_is_never_left_out(answer: Answer, why: str) -> None:
    line = problem(Gateway(messages=answer))
    assert why in line
    assert line.endswith(" (add --entry chat to judge only that one)")
    assert "--entry" not in problem(Gateway(messages=answer, chat=None))
    assert found(Gateway(messages=answer), entries=(CHAT,)).entries == (CHAT,)


def test_an_answer_that_is_no_json_or_a_stream_is_another_protocol() -> None:
    def text(request: Request, body: dict[str, Any]) -> Response:  # noqa: ARG001
        return Response("pong", media_type="text/plain")

    def stream(request: Request, body: dict[str, Any]) -> Response:  # noqa: ARG001
        return Response("data: {}\n\n", media_type="text/event-stream")

    assert "does not speak the protocol of /v1/chat/completions (HTTP 200): the answer is no JSON (text/plain)" in (
        problem(Gateway(chat=text))
    )
    assert "answers a plain request to /v1/chat/completions with an event stream" in problem(Gateway(chat=stream))


def test_a_redirect_from_the_models_list_is_not_followed() -> None:
    gateway = Gateway(models=lambda *_: RedirectResponse("/elsewhere"))
    assert "GET /v1/models: HTTP 307" in problem(gateway, model=None)
