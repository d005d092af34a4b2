"""Faults in how tools are offered."""

import json
from typing import Any

from ..jsontext import loads
from ..seams import JSONObject, Mutations

_OWN = {
    "type": "function",
    "function": {
        "name": "platform_search",
        "description": "Search the platform team's documents.",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
    },
}
_LONG = 6
"""Messages from which on a conversation is long."""


def _translated(tool: JSONObject) -> JSONObject:
    function = {"name": tool["name"], "description": tool.get("description"), "parameters": tool["input_schema"]}
    return {"type": "function", "function": function}


def _client_tools(received: bytes) -> list[JSONObject]:
    """The tools of a Messages client; none where the body is a chat client's."""
    return [tool for tool in loads(received).get("tools") or () if "input_schema" in tool]


class SortTools(Mutations):
    """Tools are sorted by name."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        if "tools" not in body:
            return body
        return {**body, "tools": sorted(body["tools"], key=lambda tool: str(tool["function"]["name"]))}


class SortKeys(Mutations):
    """The keys of schemas and of arguments are sorted."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        changed = {**body, "messages": [self._message(message) for message in body["messages"]]}
        return {**changed, "tools": _sorted(body["tools"])} if "tools" in body else changed

    @staticmethod
    def _message(message: JSONObject) -> JSONObject:
        if not message.get("tool_calls"):
            return message
        calls = []
        for call in message["tool_calls"]:
            arguments = json.dumps(json.loads(call["function"]["arguments"]), sort_keys=True, ensure_ascii=False)
            calls.append({**call, "function": {**call["function"], "arguments": arguments}})
        return {**message, "tool_calls": calls}


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


class OwnTool(Mutations):
    """A tool of the gateway's own is offered beside the client's."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        return {**body, "tools": [*body["tools"], _OWN]} if body.get("tools") else body


class ToolInsertedLate(Mutations):
    """A tool of the gateway's own appears between the client's once a conversation is long."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        tools = body.get("tools")
        if not tools or len(body["messages"]) < _LONG:
            return body
        middle = len(tools) // 2
        return {**body, "tools": [*tools[:middle], _OWN, *tools[middle:]]}


class ListDeferred(Mutations):
    """``defer_loading`` is not known: such tools stand in the list where the client put them."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        tools = _client_tools(self.received)
        if not any(tool.get("defer_loading") for tool in tools):
            return body
        return {**body, "tools": [_translated(tool) for tool in tools]}


class InsertFound(Mutations):
    """A deferred tool is put into the list, at its place, once a tool result refers to it."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        tools = _client_tools(self.received)
        found = self.received.decode(errors="replace").split('"tool_name":"')[1:]
        names = {text.partition('"')[0] for text in found}
        if not names:
            return body
        return {**body, "tools": [_translated(t) for t in tools if not t.get("defer_loading") or t["name"] in names]}


class MarksInTools(Mutations):
    """A tool keeps the client's own keys, cache marks among them."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        extra = {
            tool["name"]: {k: v for k, v in tool.items() if k in ("cache_control", "eager_input_streaming")}
            for tool in _client_tools(self.received)
        }
        if not any(extra.values()):
            return body
        return {**body, "tools": [{**tool, **extra.get(tool["function"]["name"], {})} for tool in body["tools"]]}
