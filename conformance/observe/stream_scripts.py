"""Scripted streams that are no whole answers, and answers of several content blocks."""

from __future__ import annotations

from collections.abc import Callable

from conformance.observe.usage_values import native, openai
from conformance.scripting import Forms, Script, ScriptedReply, chat, messages
from conformance.scripting.content import Content, ToolCall, event_stream
from conformance.wire.jsontext import dumps

Make = Callable[[str], ScriptedReply]

_TEXT = "The word is {word}, and there is more to say of it than fits into one chunk."


def _content(word: str) -> Content:
    return Content(text=_TEXT.format(word=word))


def _whole(word: str) -> tuple[Script, Script]:
    content = _content(word)
    return chat.stream(content, (openai(),)), messages.stream(content, dict(native()))


def aborted(name: str, where: Callable[[bytes], int]) -> Make:
    """A stream whose connection is cut at the byte that `where` finds in its body; so is the plain answer."""

    def make(word: str) -> ScriptedReply:
        content = _content(word)
        plain = chat.completion(content, openai()), messages.message(content, dict(native()))
        chat_plain, messages_plain = (script.cut(len(script.body) // 2) for script in plain)
        chat_stream, messages_stream = (script.cut(where(script.body)) for script in _whole(word))
        return ScriptedReply(name, Forms(chat_plain, chat_stream), Forms(messages_plain, messages_stream))

    return make


def between_events(body: bytes) -> int:
    """Right behind an event in the first half of a stream."""
    return body.index(b"\n\n", len(body) // 3) + 2


def inside_event(body: bytes) -> int:
    """In the middle of an event."""
    return between_events(body) + 12


def before_end(body: bytes) -> int:
    """Behind the last content, before anything says that the answer is finished."""
    marks = [body.find(mark) for mark in (b'"finish_reason":"stop"', b"event: message_delta")]
    finish = min(at for at in marks if at >= 0)
    return body.rindex(b"\n\n", 0, finish) + 2


ABORTED: dict[str, Make] = {
    name: aborted(name, where)
    for name, where in (
        ("cut-between-events", between_events),
        ("cut-inside-event", inside_event),
        ("cut-before-finish", before_end),
    )
}
"""Streams cut at a byte, by name."""


def _unfinished(name: str, *, done: bool) -> Make:
    def make(word: str) -> ScriptedReply:
        content = Content(text=_TEXT.format(word=word), finish=None)
        whole = chat.stream(content, (), chat.At.NEVER, done=done)
        told = messages.stream(content, dict(native()))
        plain = Forms(chat.completion(content, openai()), whole)
        return ScriptedReply(name, plain, Forms(messages.message(content, dict(native())), told))

    return make


UNFINISHED: dict[str, Make] = {
    "ends-without-finish": _unfinished("ends-without-finish", done=False),
    "done-without-finish": _unfinished("done-without-finish", done=True),
}
"""Streams that HTTP ends as it should, without a word that the answer is finished, by name."""


def _blocks(name: str, content: Callable[[str], Content]) -> Make:
    def make(word: str) -> ScriptedReply:
        said = content(word)
        told = dict(native())
        return ScriptedReply(
            name,
            Forms(chat.completion(said, openai()), chat.stream(said, (openai(),))),
            Forms(messages.message(said, told), messages.stream(said, told)),
        )

    return make


def calls(word: str) -> tuple[ToolCall, ToolCall]:
    """Two parallel calls whose arguments carry the word."""
    first, second = ({"path": f"{word}/{place}"} for place in ("first", "second"))
    return (
        ToolCall("call_a", "look_up", dumps(first).decode()),
        ToolCall("call_b", "list_files", dumps(second).decode()),
    )


BLOCKS: dict[str, Make] = {
    "two-calls": _blocks("two-calls", lambda word: Content(calls=calls(word), finish="tool_calls")),
    "text-and-calls": _blocks(
        "text-and-calls", lambda word: Content(text=f"Let me see: {word}.", calls=calls(word), finish="tool_calls")
    ),
    "thinking-and-text": _blocks(
        "thinking-and-text", lambda word: Content(reasoning="First this, then that.", text=f"It is {word}.")
    ),
}
"""Answers of several blocks, by name."""

CALLS_STREAMED = "two-calls"

CALLS_PLAIN = _blocks("calls-plain", lambda word: Content(calls=calls(word), finish="tool_calls"))

LENGTH: dict[str, Make] = {
    name: _blocks(name, lambda word: Content(text=f"The word is {word}, and then", finish="length"))
    for name in ("length-plain", "length-streamed")
}
"""Answers that end because their tokens are used up, by name."""


def error_event(word: str) -> ScriptedReply:
    """A stream that begins well and carries an error in its middle."""
    text = _content(word)
    begun = chat.chunks(text)[:3]
    body = chat.sse([*begun, chat.error_body("the engine ran out of memory", "server_error", 500)], done=False)
    told = messages.events(text, dict(native()))[:3]
    native_body = messages.sse([*told, messages.error_body("the engine ran out of memory", "api_error")])
    return ScriptedReply(
        "error-event",
        Forms(chat.error(500, "the engine ran out of memory", "server_error"), event_stream(body)),
        Forms(messages.error(500, "the engine ran out of memory", "api_error"), event_stream(native_body)),
    )
