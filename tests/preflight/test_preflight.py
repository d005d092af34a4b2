from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from conformance.errors import TargetProblem, UsageProblem
from conformance.preflight import LOOKS, Preflight, check_target, nothing_arrived, preflight_token
from conformance.recorder import Recorder, relay
from conformance.servers import serve
from conformance.verdicts import Entry
from conformance.wire.limits import TokenLimit

KEY = "a-word-that-no-pattern-takes-for-a-key"
MODEL = "llm-prime"
MARKER = "prefixproof-run-9"
MESSAGES, CHAT = Entry.MESSAGES, Entry.CHAT

Answer = Callable[[Request, dict[str, Any]], Response]


def streamed(*events: dict[str, Any], named: bool) -> Response:
    lines = [f"event: {e.get('type')}\n" * named + f"data: {json.dumps(e)}\n\n" for e in events]
    return Response("".join(lines) + "data: [DONE]\n\n" * (not named), media_type="text/event-stream")


def message(request: Request, body: dict[str, Any]) -> Response:  # noqa: ARG001
    usage = {"input_tokens": 12, "output_tokens": 1}
    text = {"type": "text", "text": "ok"}
    whole = {"id": "m", "type": "message", "role": "assistant", "content": [text], "usage": usage}
    if not body.get("stream"):
        return JSONResponse(whole)
    return streamed(
        {"type": "message_start", "message": {**whole, "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": text},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
        named=True,
    )


def completion(request: Request, body: dict[str, Any]) -> Response:  # noqa: ARG001
    usage = {"prompt_tokens": 11, "completion_tokens": 1}
    said = {"role": "assistant", "content": "ok"}
    choice = {"index": 0, "finish_reason": "stop"}
    if not body.get("stream"):
        return JSONResponse({"id": "c", "choices": [{**choice, "message": said}], "usage": usage})
    return streamed({"id": "c", "choices": [{**choice, "delta": said}]}, {"choices": [], "usage": usage}, named=False)


def says(status: int, body: Any, **headers: str) -> Answer:
    def respond(request: Request, _: dict[str, Any]) -> Response:  # noqa: ARG001
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, str):
            return HTMLResponse(body, status, headers=named)
        return JSONResponse(body, status, headers=named)

    return respond


def openai_error(message: str, kind: str = "invalid_request_error", code: str = "400") -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


@dataclass
class Gateway:
    """A target by dialect; None is a path that does not exist."""

    messages: Answer | None = message
    chat: Answer | None = completion
    models: Answer | None = None
    asked: list[tuple[str, dict[str, Any], dict[str, str]]] = field(default_factory=list)

    def app(self) -> Starlette:
        routes = [
            Route(path, self._endpoint(answer), methods=["POST"])
            for path, answer in ((MESSAGES.path, self.messages), (CHAT.path, self.chat))
            if answer is not None
        ]
        if self.models is not None:
            routes.append(Route("/v1/models", self._endpoint(self.models)))
        return Starlette(routes=routes)

    def _endpoint(self, answer: Answer) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            body = await request.json() if request.method == "POST" else {}
            self.asked.append((request.url.path, body, dict(request.headers)))
            return answer(request, body)

        return endpoint


def lists(*ids: str) -> Answer:
    return says(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in ids]})


def check(target: str, **options: Any) -> Preflight:
    wanted: dict[str, Any] = {
        "model": MODEL,
        "api_key": KEY,
        "entries": None,
        "timeout_s": 20,
        "run_id": "run-9",
        "marker": MARKER,
    }
    return check_target(target, **{**wanted, **options})


def found(gateway: Gateway, **options: Any) -> Preflight:
    with serve(gateway.app()) as server:
        return check(server.url + options.pop("suffix", ""), **options)


def problem(gateway: Gateway, **options: Any) -> str:
    """The one line of the target problem, without the target's URL (which it begins with)."""
    with serve(gateway.app()) as server:
        with pytest.raises(TargetProblem) as raised:
            check(server.url + options.pop("suffix", ""), **options)
        line = str(raised.value)
        assert KEY not in line
        assert "\n" not in line
        assert line.startswith(server.url + " ")
        return line.removeprefix(server.url + " ")


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


def when(refuse: Callable[[dict[str, Any]], bool], refusal: Answer, otherwise: Answer) -> Answer:
    return lambda request, body: (refusal if refuse(body) else otherwise)(request, body)


def no_tools(words: str, status: int = 400) -> Gateway:
    refusal = says(status, openai_error(words))
    return Gateway(
        messages=when(lambda body: "tools" in body, refusal, message),
        chat=when(lambda body: "tools" in body, refusal, completion),
    )


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


REFUSALS = {
    "litellm, wrong key": (
        401,
        openai_error("Authentication Error, Invalid proxy server token passed.", "auth_error", "401"),
    ),
    "litellm without a database": (400, openai_error("No connected db.", "no_db_connection")),
    "anthropic": (401, {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}),
    "vllm": (401, {"error": "Unauthorized"}),
    "proxy": (403, "<html><h1>403 Forbidden</h1></html>"),
    "gemini": (400, openai_error("API key not valid. Please pass a valid API key.")),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_wrong_or_missing_key(refusal: str) -> None:
    status, body = REFUSALS[refusal]
    gateway = Gateway(messages=says(status, body), chat=says(status, body))
    line = problem(gateway)
    assert line.startswith(f"rejects the API key (HTTP {status}: ")
    assert line.endswith("): check --api-key or PREFIXPROOF_API_KEY")
    line = problem(gateway, api_key=None)
    assert line.startswith(f"wants an API key (HTTP {status}: ")
    assert line.endswith("): give it in PREFIXPROOF_API_KEY, or with --api-key")


def test_a_key_that_the_target_repeats_is_not_shown() -> None:
    echo = says(401, openai_error(f"Authentication Error, LiteLLM Virtual Key expected. Received={KEY}", "auth_error"))
    assert problem(Gateway(messages=echo)).startswith("rejects the API key (HTTP 401: Authentication Error, LiteLLM")


UNKNOWN = {
    "litellm": (400, openai_error("/chat/completions: Invalid model name passed in model=nope. Call `/v1/models`")),
    "litellm router": (400, openai_error("litellm.BadRequestError: no healthy deployments for model=nope")),
    "vllm": (404, {"object": "error", "message": "The model `nope` does not exist.", "type": "NotFoundError"}),
    "anthropic": (404, {"type": "error", "error": {"type": "not_found_error", "message": "model: nope"}}),
    "openai": (404, openai_error("The model 'nope' does not exist or you do not have access to it.")),
    "new-api": (503, openai_error("No available channel for model nope under group default")),
    "new-api, key without the model": (403, openai_error("This token has no access to model nope")),
}


@pytest.mark.parametrize("refusal", UNKNOWN)
def test_an_unknown_model(refusal: str) -> None:
    status, body = UNKNOWN[refusal]
    unknown = says(status, body)
    line = problem(Gateway(messages=unknown, chat=unknown, models=lists("a", "b")), model="nope")
    assert line.startswith(f"knows no model 'nope' (HTTP {status}: ")
    assert line.endswith("): it lists a, b")
    line = problem(Gateway(messages=unknown, chat=unknown), model="nope")
    assert line.startswith(f"knows no model 'nope' (HTTP {status}: ")
    assert line.endswith("): check --model")


def test_an_unknown_model_that_the_error_does_not_name() -> None:
    unknown = says(404, openai_error("no such model"))
    line = problem(Gateway(messages=unknown, chat=unknown, models=lists("a")), model="nope")
    assert line.startswith("knows no model 'nope'")
    assert problem(Gateway(messages=unknown, chat=unknown), model="nope").startswith("has no /v1/messages")


def test_an_error_that_only_mentions_the_model_is_not_about_the_model() -> None:
    error = openai_error("litellm.BadRequestError: max_tokens is too small. Received Model Group=llm-prime")
    gateway = Gateway(chat=says(400, error), models=lists(MODEL))
    assert problem(gateway).startswith(
        "refuses a client's usual request to /v1/chat/completions (HTTP 400: litellm.Bad"
    )
    error = openai_error("litellm.InternalServerError: Connection error. Received Model Group=llm-prime")
    assert "with HTTP 500: litellm.Internal" in problem(Gateway(chat=says(500, error), models=lists(MODEL)))
    assert "with HTTP 500: litellm.Internal" in problem(Gateway(chat=says(500, error)))


def test_a_model_known_on_one_entry_only() -> None:
    status, body = UNKNOWN["vllm"]
    line = problem(Gateway(messages=says(status, body)), model="nope")
    assert line.endswith(": check --model (add --entry chat to judge only that one)")


def test_without_a_model_the_only_one_listed_is_taken() -> None:
    gateway = Gateway(models=lists("only"))
    preflight = found(gateway, model=None)
    assert preflight.model == "only"
    assert preflight.notes == (f"model only: the only one that {preflight.target} lists",)
    assert [body["model"] for path, body, _ in gateway.asked if body] == ["only", "only"]


def test_without_a_model_several_or_none_listed_ask_for_one() -> None:
    many = [f"m{number}" for number in range(1, 15)]
    line = problem(Gateway(models=lists(*many)), model=None)
    assert line == "lists 14 models: choose one with --model: m1, m2, m3, m4, m5, m6, m7, m8, m9, m10 and 4 more"
    assert problem(Gateway(models=lists()), model=None) == (
        "does not say which models it has (GET /v1/models: lists no model): give --model"
    )
    assert problem(Gateway(), model=None) == (
        "does not say which models it has (GET /v1/models: HTTP 404: Not Found): give --model"
    )
    refused = says(401, openai_error("Authentication Error, No api key passed in.", "auth_error", "401"))
    assert problem(Gateway(models=refused), model=None, api_key=None) == (
        "wants an API key (HTTP 401: Authentication Error, No api key passed in.): "
        "give it in PREFIXPROOF_API_KEY, or with --api-key"
    )


@contextlib.contextmanager
def relayed(engine: Starlette, *, through: bool, strip: bool = False) -> Iterator[tuple[str, Recorder]]:
    """(gateway, recorder): a gateway that forwards to the recorder, or answers by itself."""
    with serve(engine) as engine_server, relay(engine_server.url, marker=MARKER.encode()) as recorder:

        def forward(request: Request, body: dict[str, Any]) -> Response:
            if not through:
                return completion(request, body)
            if strip:
                body = {**body, "messages": [{"role": "user", "content": "something else"}], "tools": []}
            upstream = httpx.post(f"{recorder.url}{request.url.path}", json=body, trust_env=False)
            return Response(upstream.content, upstream.status_code, media_type=upstream.headers["content-type"])

        async def endpoint(request: Request) -> Response:
            body = await request.json()
            # The relay is served by this very loop.
            import anyio.to_thread

            return await anyio.to_thread.run_sync(forward, request, body)

        with serve(Starlette(routes=[Route(CHAT.path, endpoint, methods=["POST"])])) as gateway:
            yield gateway.url, recorder


def test_the_recorder_sees_the_requests_or_a_note_says_that_it_does_not() -> None:
    engine = Gateway().app()
    with relayed(engine, through=True) as (url, recorder):
        preflight = check(url, recorder=recorder, entries=(CHAT,))
        assert (preflight.recorder_sees, preflight.notes, preflight.requests) == (frozenset((CHAT,)), (), 1)
    with relayed(engine, through=False) as (url, recorder):
        preflight = check(url, recorder=recorder, entries=(CHAT,))
        assert (preflight.recorder_sees, preflight.requests) == (frozenset(), LOOKS)
        assert preflight.notes == (nothing_arrived(recorder.url or "", preflight.model),)
        assert (
            f"no request of the target arrived at {(recorder.url or '').removeprefix('http://')}: "
            in preflight.notes[0]
        )
    with relayed(engine, through=True, strip=True) as (url, recorder):
        (note,) = check(url, recorder=recorder, entries=(CHAT,)).notes
        assert note.endswith("(requests without the suite's marker that passed meanwhile: 3)")
    assert not found(Gateway()).recorder_sees


def test_tools_that_fail_behind_the_recorder_are_for_the_rules_to_judge() -> None:
    with relayed(no_tools("tools[0].type must be function").app(), through=True) as (url, recorder):
        preflight = check(url, recorder=recorder, entries=(CHAT,))
    assert preflight.recorder_sees
    assert preflight.notes == (
        "/v1/chat/completions fails with tools and works without (HTTP 400: tools[0].type must be function)",
    )


def test_an_engine_that_is_down_behind_the_recorder_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        engine_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with relay(engine_url, marker=MARKER.encode()) as recorder:
        assert recorder.url is not None
        with pytest.raises(TargetProblem) as raised:
            check(recorder.url, recorder=recorder, entries=(CHAT,))
    assert str(raised.value) == (
        f"{recorder.url} works, but the engine at {engine_url} does not answer the recorder: is --engine right?"
    )
