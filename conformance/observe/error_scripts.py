"""Scripted upstream errors: what comes back, plain and streamed, and what a client should be told."""

from __future__ import annotations

from dataclasses import dataclass

from conformance.scripting import Forms, Script, ScriptedReply, chat, messages
from conformance.scripting.content import event_stream, json_answer

RETRY_AFTER = "17"
_WORDS = "scripted trouble"


@dataclass(frozen=True)
class ErrorCase:
    """One upstream error. `status` is what the upstream says; `right` are the statuses an honest gateway may give."""

    name: str
    status: int
    right: frozenset[int]
    retry_after: bool = False
    inside_200: bool = False

    @property
    def said(self) -> str:
        """What the upstream answered, for a sentence."""
        return "an error inside an upstream 200" if self.inside_200 else f"upstream {self.status}"

    def reply(self, word: str) -> ScriptedReply:  # noqa: ARG002 - an error quotes nothing
        """The scripts of this error, in both dialects and forms."""
        openai_kind, anthropic_kind = _KINDS[self.status]
        if self.inside_200:
            body = chat.error_body(_WORDS, openai_kind, self.status)
            native = messages.error_body(_WORDS, anthropic_kind)
            return ScriptedReply(
                self.name,
                Forms(json_answer(body), event_stream(chat.sse([body], done=False))),
                Forms(json_answer(native), event_stream(messages.sse([native]))),
            )
        headers = (("retry-after", RETRY_AFTER),) if self.retry_after else ()
        script = chat.error(self.status, _WORDS, openai_kind, headers)
        native_script: Script = messages.error(self.status, _WORDS, anthropic_kind, headers)
        return ScriptedReply(self.name, Forms(script, script), Forms(native_script, native_script))


_KINDS = {
    400: ("invalid_request_error", "invalid_request_error"),
    429: ("rate_limit_error", "rate_limit_error"),
    500: ("server_error", "api_error"),
    503: ("service_unavailable", "overloaded_error"),
}
_SERVER = frozenset((500, 502, 503, 504, 529))

ERRORS = (
    ErrorCase("refused-400", 400, frozenset((400, 422))),
    ErrorCase("busy-429", 429, frozenset((429,)), retry_after=True),
    ErrorCase("down-503", 503, _SERVER, retry_after=True),
    ErrorCase("failed-500", 500, _SERVER),
    ErrorCase("error-in-200", 500, _SERVER, inside_200=True),
)
"""What ERR-01 is judged by, the most telling first: a gateway may disable a channel after the first failures."""
