"""Requests whose upstream answer the suite chose: one script a request, found by the request's own token."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.observe.lab import Salts
from conformance.observe.usage_case import UsageCase
from conformance.observe.usage_values import native, openai
from conformance.recorder import Recorder
from conformance.scripting import Forms, ScriptedReply, chat, messages
from conformance.scripting.content import MISSING, Content
from conformance.verdicts import Entry
from conformance.wire.answers import FailureKind
from conformance.wire.breaker import Breaker
from conformance.wire.client import Wire
from conformance.wire.exchange import Exchange, UpstreamRecord

MAX_TOKENS = 512

TOOLS = ("look_up", "list_files")
"""Names of the tools that scripted calls use; requests that may be answered with calls declare them."""


ASKED = "Say the word."
_ABOUT = {name: f"Runs {name} on a path." for name in TOOLS}


class ScriptedBreaker(Breaker):
    """Stops when the target falls silent; errors and cut streams are what scripts are for.

    `main` is the breaker of the requests that no script answers: where those have ended, scripts end too.
    """

    main: Breaker | None = None

    def check(self) -> None:
        """Raise `SendingStopped` once this breaker or `main` is open."""
        if self.main is not None:
            self.main.check()
        super().check()

    def note(self, *, status: int, failure: FailureKind | None, seconds: float, retry_after: str | None = None) -> None:
        """Take one finished request into account."""
        silent: FailureKind | None = "timeout" if failure == "timeout" else None
        super().note(status=status, failure=silent, seconds=0.0 if silent is None else seconds, retry_after=retry_after)


@dataclass(frozen=True)
class Played:
    """One scripted request and what came of it. `word` is in the scripted text, and nowhere else."""

    name: str
    word: str
    exchange: Exchange

    @property
    def records(self) -> tuple[UpstreamRecord, ...]:
        """The upstream requests that the script answered, in order; empty: the gateway answered by itself."""
        return tuple(r for r in self.exchange.upstream if r.script == self.name and r.status is not None)

    @property
    def reached(self) -> bool:
        return bool(self.records)

    @property
    def native(self) -> bool:
        """True where the gateway asked an upstream that speaks Messages."""
        return self.reached and self.records[-1].path.rstrip("/").endswith("/messages")


class ScriptedUpstream:
    """Plays scripts to one entry of the target. Each is sent once and kept by its name; usages named in `without` are
    left out.

    `wire` must be one whose breaker expects failures (`ScriptedBreaker`). Raises SendingStopped when the target has
    fallen silent.
    """

    def __init__(
        self, entry: Entry, wire: Wire, recorder: Recorder, salts: Salts, *, without: Collection[str] = ()
    ) -> None:
        self.entry = entry
        self.wire = wire
        self.recorder = recorder
        self.salts = salts
        self.seconds: list[float] = []  # what each answer took
        self._without = without
        self._own: list[str] = []
        self._played: dict[str, Played] = {}

    def usage(self, case: UsageCase) -> Played:
        """The answer to a request whose upstream reports the case's usage."""
        return self.play(case.name, lambda word: usage_reply(case, word), stream=case.form == "stream")

    def usages(self, cases: Sequence[UsageCase]) -> list[tuple[UsageCase, Played]]:
        """The cases that the target's upstream can say, played."""
        found = [(case, self.usage(case)) for case in cases if case.name not in self._without]
        return [(case, played) for case, played in found if not played.native or case.native is not None]

    def play(
        self,
        name: str,
        reply: Callable[[str], ScriptedReply],
        *,
        stream: bool,
        tools: bool = False,
        more: Mapping[str, Any] | None = None,
    ) -> Played:
        """Send one request under a fresh salt whose upstream answer is `reply` of a word made for it."""
        if name not in self._played:
            token, word = self.prepare(reply)
            try:
                exchange = self.wire.send(
                    self.entry,
                    self.body(token, stream=stream, tools=tools) | dict(more or {}),
                    stream=stream,
                    via="raw",
                )
            finally:
                self.recorder.scripts.drop(token)
            self.seconds.append(exchange.seconds)
            self._played[name] = Played(name, word, exchange)
        return self._played[name]

    def prepare(self, reply: Callable[[str], ScriptedReply]) -> tuple[str, str]:
        """A fresh token whose requests get `reply`, and the word of its answer. The caller drops the token."""
        token = self.salts.fresh()
        word = f"w{token[:8]}"
        answer = reply(word)
        self.recorder.scripts.put(token, answer)
        scripts = (*answer.chat, *answer.messages)
        self._own += [f"{token} {ASKED}", *(script.body.decode("utf-8", "replace") for script in scripts)]
        return token, word

    def own_text(self, text: str) -> bool:
        """True when `text` is part of a scripted request or answer."""
        return any(text in own for own in (*self._own, *_ABOUT.values()))

    def body(self, token: str, *, stream: bool, tools: bool = False) -> dict[str, Any]:
        """A short request that carries `token`; streamed chat clients ask for usage."""
        body: dict[str, Any] = {
            "model": self.wire.model,
            "max_tokens": MAX_TOKENS,
            "messages": [{"role": "user", "content": f"{token} {ASKED}"}],
        }
        if stream and self.entry is Entry.CHAT:
            body["stream_options"] = {"include_usage": True}
        if tools:
            body["tools"] = [_tool(self.entry, name) for name in TOOLS]
        return body


def usage_reply(case: UsageCase, word: str) -> ScriptedReply:
    """The case's usage in every form a gateway may ask for, the answer's text containing `word`."""
    content = Content(text=f"The word is {word}.", reasoning="Let me think." if case.reasoning else "")
    last = case.usages[-1] if case.usages else MISSING
    at = case.at if case.at is not None else chat.At.EXTRA
    usages = case.usages if case.at is not None or case.usages != (None,) else ()
    told = dict(case.native or native())
    return ScriptedReply(
        name=case.name,
        chat=Forms(chat.completion(content, last), chat.stream(content, usages, at)),
        messages=Forms(messages.message(content, told), messages.stream(content, told)),
    )


def hello() -> ScriptedReply:
    """The answer to a request that only asks whether there is one."""
    content, told = Content(text="Hello."), dict(native())
    return ScriptedReply(
        name="hello",
        chat=Forms(chat.completion(content, openai()), chat.stream(content, (openai(),))),
        messages=Forms(messages.message(content, told), messages.stream(content, told)),
    )


def _tool(entry: Entry, name: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    about = _ABOUT[name]
    if entry is Entry.MESSAGES:
        return {"name": name, "description": about, "input_schema": schema}
    return {"type": "function", "function": {"name": name, "description": about, "parameters": schema}}
