from __future__ import annotations

import pytest
from preflight_gateway import KEY, MODEL, Gateway, found, lists, openai_error, problem, says

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
