"""The least of a chat client: conversations to one engine, greedy, one at a time."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any

import httpx

TIMEOUT_S = 180.0


class ProbeError(Exception):
    """An engine that cannot be probed; the message says what to do."""


@dataclass(frozen=True)
class Conversation:
    """Messages, as roles and texts."""

    messages: tuple[tuple[str, str], ...]

    def followed(self, answer: str, question: str) -> Conversation:
        """The conversation one turn later."""
        return Conversation((*self.messages, ("assistant", answer), ("user", question)))


@dataclass(frozen=True)
class Answer:
    """An answer's text, and what its usage says; `cached` is None where it says nothing."""

    text: str
    prompt_tokens: int
    cached: int | None
    seconds: float


class ChatClient:
    """Asks one engine. Close it, or use it as a context."""

    def __init__(self, url: str, *, model: str | None = None, api_key: str | None = None, timeout_s: float = TIMEOUT_S):
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self.url = url.rstrip("/").removesuffix("/v1")
        self._client = httpx.Client(trust_env=False, timeout=timeout_s, headers=headers)
        try:
            self.model, self.max_model_len = self._look(model)
        except BaseException:
            self._client.close()
            raise

    def __enter__(self) -> ChatClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def ask(self, conversation: Conversation, *, output_tokens: int = 24) -> Answer:
        """One answer. Raises `httpx.HTTPError` for a broken connection, `ProbeError` for a refusal."""
        body = {
            "model": self.model,
            "messages": [{"role": role, "content": text} for role, text in conversation.messages],
            "max_tokens": output_tokens,
            "temperature": 0,
        }
        answer = self._client.post(f"{self.url}/v1/chat/completions", json=body)
        if not answer.is_success:
            raise ProbeError(f"{self.url} answers {answer.status_code}: {_reason(answer)}")
        held = answer.json()
        usage = held.get("usage") or {}
        details = usage.get("prompt_tokens_details") or {}
        return Answer(
            text=held["choices"][0]["message"].get("content") or "",
            prompt_tokens=int(usage.get("prompt_tokens") or 0),
            cached=details.get("cached_tokens"),
            seconds=answer.elapsed.total_seconds(),
        )

    def reset_prefix_cache(self) -> None:
        """Empty L1. Raises `ProbeError` where the engine has no such path, or holds blocks."""
        answer = self._client.post(f"{self.url}/reset_prefix_cache")
        if answer.status_code in (404, 405):
            raise ProbeError("the engine has no /reset_prefix_cache: start it with VLLM_SERVER_DEV_MODE=1")
        if not answer.is_success:
            raise ProbeError(f"/reset_prefix_cache answers {answer.status_code}: {_reason(answer)}")

    def _look(self, model: str | None) -> tuple[str, int | None]:
        try:
            answer = self._client.get(f"{self.url}/v1/models")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ProbeError(f"{self.url} does not answer ({type(error).__name__})") from None
        if not answer.is_success:
            raise ProbeError(f"{self.url}/v1/models answers {answer.status_code}: name an engine's base URL")
        try:
            listed: list[dict[str, Any]] = list(answer.json()["data"])
            found = [entry for entry in listed if model is None or entry["id"] == model]
        except (ValueError, KeyError, TypeError):
            raise ProbeError(f"{self.url}/v1/models lists no models: name an engine's base URL") from None
        if not found:
            raise ProbeError(f"the engine has no model {model!r}: {', '.join(str(e['id']) for e in listed[:10])}")
        return str(found[0]["id"]), found[0].get("max_model_len")


def _reason(answer: httpx.Response) -> str:
    try:
        held = answer.json()
    except ValueError:
        return answer.text[:200]
    error = held.get("error", held) if isinstance(held, dict) else held
    return str(error.get("message", error) if isinstance(error, dict) else error)[:300]
