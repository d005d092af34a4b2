"""A gateway made of chosen answers, and what the preflight says of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from conformance.errors import TargetProblem
from conformance.preflight import Preflight, check_target
from conformance.servers import serve
from conformance.verdicts import Entry

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


def when(refuse: Callable[[dict[str, Any]], bool], refusal: Answer, otherwise: Answer) -> Answer:
    return lambda request, body: (refusal if refuse(body) else otherwise)(request, body)


def no_tools(words: str, status: int = 400) -> Gateway:
    refusal = says(status, openai_error(words))
    return Gateway(
        messages=when(lambda body: "tools" in body, refusal, message),
        chat=when(lambda body: "tools" in body, refusal, completion),
    )
