"""Client keys: who is let in, and what the others are told."""

from collections.abc import Iterator

import httpx
import pytest
from gateway_rig import gateway, scripted_upstream

BODY = {"model": "real", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with (
        scripted_upstream() as (_, url),
        gateway(url, client_keys=("k1", "k2")) as base,
        httpx.Client(base_url=base, trust_env=False, timeout=20) as client,
    ):
        yield client


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"authorization": "Bearer k1"}, 200),
        ({"authorization": "bearer k2"}, 200),
        ({"x-api-key": "k2"}, 200),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "Basic k1"}, 401),
        ({"x-api-key": "wröng"}, 401),
        ({"x-api-key": "k"}, 401),
        ({}, 401),
    ],
)
def test_client_keys(client: httpx.Client, headers: dict[str, str], status: int) -> None:
    sent = httpx.Headers([(name.encode(), value.encode()) for name, value in headers.items()])
    answers = [client.post(path, json=BODY, headers=sent) for path in ("/v1/messages", "/v1/chat/completions")]
    answers += [client.get(path, headers=sent) for path in ("/v1/models", "/v1/models/real")]
    assert [answer.status_code for answer in answers] == [status] * 4
    if status == 401:
        assert answers[0].json()["type"] == "error"
        assert answers[0].json()["error"]["type"] == "authentication_error"
        assert answers[1].json()["error"]["code"] == "invalid_api_key"
        assert "k1" not in answers[0].text
    assert client.get("/health").status_code == 200
