"""Faults in how the conversation's messages are translated."""

import base64
import json
import random
import string
from collections.abc import Callable
from typing import Any

from ..jsontext import loads
from ..messages.content import ERROR_MARK
from ..seams import JSONObject, Mutations

_OLD = 8
"""Messages from the end of a conversation after which one counts as old."""


def _mapped(body: JSONObject, change: Callable[[JSONObject], JSONObject]) -> JSONObject:
    return {**body, "messages": [change(message) for message in body["messages"]]}


def _texts(content: Any, change: Callable[[str], str]) -> Any:
    """Content in either form with its texts changed."""
    if isinstance(content, str):
        return change(content)
    if not isinstance(content, list):
        return content
    return [{**part, "text": change(part["text"])} if part.get("type") == "text" else part for part in content]


def _runs(messages: list[JSONObject]) -> list[tuple[int, int]]:
    """Half-open ranges of neighbouring tool messages."""
    found: list[tuple[int, int]] = []
    for i, message in enumerate(messages):
        if message.get("role") != "tool":
            continue
        if found and found[-1][1] == i:
            found[-1] = (found[-1][0], i + 1)
        else:
            found.append((i, i + 1))
    return found


class HoistSystem(Mutations):
    """Later system messages are appended to the first one."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        systems = [m for m in body["messages"] if m.get("role") == "system"]
        if len(systems) < 2 or not isinstance(systems[0]["content"], str):
            return body
        head = {**systems[0], "content": "\n\n".join(str(m["content"]) for m in systems)}
        return {**body, "messages": [head, *(m for m in body["messages"] if m.get("role") != "system")]}


class AssistantAsUser(Mutations):
    """What the assistant said, calls aside, is sent as the user's words."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        def said(message: JSONObject) -> JSONObject:
            own = message.get("role") == "assistant" and not message.get("tool_calls")
            return {**message, "role": "user"} if own else message

        return _mapped(body, said)


class UserAsAssistant(Mutations):
    """The user's messages behind the first are sent as the assistant's."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        first = next((i for i, m in enumerate(body["messages"]) if m.get("role") == "user"), 0)
        turned = [
            {**m, "role": "assistant"} if m.get("role") == "user" and i > first else m
            for i, m in enumerate(body["messages"])
        ]
        return {**body, "messages": turned}


class DropLaterSystem(Mutations):
    """Only the first system message is sent."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        first, *rest = body["messages"]
        return {**body, "messages": [first, *(m for m in rest if m.get("role") != "system")]}


class ListTextsEndLines(Mutations):
    """A text that came as a block of a list ends in a line break; one that came as a string does not."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        listed: set[str] = set()
        for message in loads(self.received)["messages"]:
            _collect(message.get("content"), listed)
        return _mapped(body, lambda m: {**m, "content": _texts(m.get("content"), lambda t: self._end(t, listed))})

    @staticmethod
    def _end(text: str, listed: set[str]) -> str:
        return f"{text}\n" if text in listed else text


def _collect(content: Any, found: set[str]) -> None:
    for block in content if isinstance(content, list) else ():
        if isinstance(block.get("text"), str):
            found.add(block["text"])
        _collect(block.get("content"), found)


class EncodeListResults(Mutations):
    """A tool result in list form is sent as the JSON text of the list."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        listed = {}
        for message in loads(self.received)["messages"]:
            if message.get("role") == "tool" and isinstance(message.get("content"), list):
                listed[message["tool_call_id"]] = message["content"]
            for block in message["content"] if isinstance(message.get("content"), list) else ():
                if block.get("type") == "tool_result" and isinstance(block.get("content"), list):
                    listed[block["tool_use_id"]] = block["content"]

        def encoded(message: JSONObject) -> JSONObject:
            content = listed.get(message.get("tool_call_id"))
            return message if content is None else {**message, "content": json.dumps(content, ensure_ascii=False)}

        return _mapped(body, encoded)


class TextBeforeResults(Mutations):
    """The text behind tool results is put in front of them."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        messages = list(body["messages"])
        for start, end in _runs(messages):
            if end < len(messages) and messages[end].get("role") == "user":
                messages[start : end + 1] = [messages[end], *messages[start:end]]
        return {**body, "messages": messages}


class LoseErrorFlag(Mutations):
    """A failed tool result looks like any other."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        def cleaned(message: JSONObject) -> JSONObject:
            if message.get("role") != "tool":
                return message
            return {**message, "content": _texts(message.get("content"), lambda t: t.removeprefix(ERROR_MARK))}

        return _mapped(body, cleaned)


class ReverseResults(Mutations):
    """Parallel tool results come last first."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        messages = list(body["messages"])
        for start, end in _runs(messages):
            messages[start:end] = reversed(messages[start:end])
        return {**body, "messages": messages}


class SortOldResults(Mutations):
    """Old parallel results are put into the order of their calls, recent ones are not."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        messages = list(body["messages"])
        order = [call["id"] for m in messages for call in m.get("tool_calls") or ()]
        for start, end in _runs(messages):
            if len(messages) - start > _OLD - 2:
                messages[start:end] = sorted(messages[start:end], key=lambda m: order.index(m["tool_call_id"]))
        return {**body, "messages": messages}


class RandomCallIds(Mutations):
    """Tool calls get new ids on every request."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        new: dict[str, str] = {}

        def named(old: str) -> str:
            return new.setdefault(old, "call_" + "".join(random.choices(string.ascii_letters + string.digits, k=24)))

        def renamed(message: JSONObject) -> JSONObject:
            changed = dict(message)
            if message.get("tool_calls"):
                changed["tool_calls"] = [{**call, "id": named(call["id"])} for call in message["tool_calls"]]
            if "tool_call_id" in message:
                changed["tool_call_id"] = named(message["tool_call_id"])
            return changed

        return _mapped(body, renamed)


class _Arguments(Mutations):
    """Arguments of tool calls are written anew."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        count = len(body["messages"])

        def rewritten(at: int, message: JSONObject) -> JSONObject:
            if not message.get("tool_calls"):
                return message
            calls = [
                {
                    **call,
                    "function": {
                        **call["function"],
                        "arguments": self.written(call["function"]["arguments"], count - at),
                    },
                }
                for call in message["tool_calls"]
            ]
            return {**message, "tool_calls": calls}

        return {**body, "messages": [rewritten(at, message) for at, message in enumerate(body["messages"])]}

    def written(self, arguments: str, age: int) -> str:
        """Arguments of a message `age` messages from the end."""
        raise NotImplementedError


class NumbersThroughDoubles(_Arguments):
    """Every number passes through a 64-bit float, as in JavaScript."""

    def written(self, arguments: str, age: int) -> str:
        def number(raw: str) -> int | float:
            value = float(raw)
            return int(value) if value.is_integer() else value

        value = json.loads(arguments, parse_int=number, parse_float=number)
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class RespellOldArguments(_Arguments):
    """Old calls' arguments are written with spaces, recent ones without."""

    def written(self, arguments: str, age: int) -> str:
        return json.dumps(json.loads(arguments), ensure_ascii=False) if age > _OLD else arguments


class ThinkingOfLastAnswer(Mutations):
    """Only the last answer keeps its reasoning."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        thoughts = []
        for message in loads(self.received)["messages"]:
            if message.get("role") == "assistant":
                blocks = message["content"] if isinstance(message.get("content"), list) else ()
                own = [block["thinking"] for block in blocks if block.get("type") == "thinking"]
                thoughts.append(message.get("reasoning_content") or "".join(own))
        messages, left = [], len(thoughts)
        for message in body["messages"]:
            changed = {name: value for name, value in message.items() if name != "reasoning_content"}
            if message.get("role") == "assistant":
                left -= 1
                if left == 0 and thoughts[-1]:
                    changed["reasoning_content"] = thoughts[-1]
            messages.append(changed)
        return {**body, "messages": messages}


class TruncateOldResults(Mutations):
    """A tool result of more than 3,500 characters is cut once it is not the last message any more."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        *earlier, last = body["messages"]

        def cut(message: JSONObject) -> JSONObject:
            if message.get("role") != "tool":
                return message
            return {**message, "content": _texts(message["content"], lambda t: t if len(t) <= 3_500 else t[:1_000])}

        return {**body, "messages": [*map(cut, earlier), last]}


class DropImages(Mutations):
    """Pictures are left out."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        return _mapped(body, lambda m: {**m, "content": self._without(m.get("content"))})

    @staticmethod
    def _without(content: Any) -> Any:
        if not isinstance(content, list):
            return content
        return [part for part in content if part.get("type") != "image_url"]


class ImagesAsText(Mutations):
    """A picture is sent as the text of its address."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        return _mapped(body, lambda m: {**m, "content": _parts(m.get("content"), self._spelled)})

    @staticmethod
    def _spelled(part: JSONObject) -> JSONObject:
        return {"type": "text", "text": part["image_url"]["url"]} if part.get("type") == "image_url" else part


class ReencodeImages(Mutations):
    """A picture's bytes are written anew."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        return _mapped(body, lambda m: {**m, "content": _parts(m.get("content"), self._anew)})

    @staticmethod
    def _anew(part: JSONObject) -> JSONObject:
        if part.get("type") != "image_url":
            return part
        head, _, data = part["image_url"]["url"].partition(",")
        anew = base64.b64encode(base64.b64decode(data) + b"\n").decode()
        return {"type": "image_url", "image_url": {"url": f"{head},{anew}"}}


def _parts(content: Any, change: Callable[[JSONObject], JSONObject]) -> Any:
    return [change(part) for part in content] if isinstance(content, list) else content


class MarksInText(Mutations):
    """A text with a cache mark says so."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        marked: set[str] = set()
        for message in loads(self.received)["messages"]:
            for block in message["content"] if isinstance(message.get("content"), list) else ():
                if "cache_control" in block and isinstance(block.get("text"), str):
                    marked.add(block["text"])
        return _mapped(body, lambda m: {**m, "content": _texts(m.get("content"), lambda t: self._said(t, marked))})

    @staticmethod
    def _said(text: str, marked: set[str]) -> str:
        return f"{text} (cache_control: ephemeral)" if text in marked else text


class CollapseBlankLines(Mutations):
    """Blank lines in texts are taken out."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        return _mapped(body, lambda m: {**m, "content": _texts(m.get("content"), self._collapsed)})

    @staticmethod
    def _collapsed(text: str) -> str:
        while "\n\n" in text:
            text = text.replace("\n\n", "\n")
        return text
