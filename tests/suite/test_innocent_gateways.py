"""Legitimate translations that differ from the reference gateway's are accused of nothing, over real HTTP."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from conformance.matrix import run_cell
from conformance.verdicts import Status
from reference_gateway import FAULTS
from reference_gateway.faults.base import Fault
from reference_gateway.jsontext import loads
from reference_gateway.messages.content import ERROR_MARK
from reference_gateway.seams import JSONObject, Mutations


def each_message(body: JSONObject, change: Any) -> JSONObject:
    return {**body, "messages": [change(message) for message in body["messages"]]}


class OtherNames(Mutations):
    """`developer` for system, ids renamed, defaults spelled out, a tenant before each salt, a key for each session."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        def named(old: str) -> str:
            return f"call_{hashlib.sha256(old.encode()).hexdigest()[:24]}"

        def changed(message: JSONObject) -> JSONObject:
            new = dict(message)
            if new["role"] == "system":
                new["role"] = "developer"
            if new.get("tool_calls"):
                new["tool_calls"] = [{**call, "id": named(call["id"])} for call in new["tool_calls"]]
            if "tool_call_id" in new:
                new["tool_call_id"] = named(new["tool_call_id"])
            return new

        body = {"temperature": 1.0, "top_p": 1, "n": 1, "presence_penalty": 0, **each_message(body, changed)}
        if "max_tokens" in body:
            body["max_completion_tokens"] = body.pop("max_tokens")
        if "cache_salt" in body:
            body["cache_salt"] = f"tenant-7/{body['cache_salt']}"
        if "user" in body:
            session = hashlib.sha256(str(body["user"]).encode()).hexdigest()
            body = {"prompt_cache_key": session, **body}
        if "tools" in body:
            body = {"tool_choice": "auto", "parallel_tool_calls": True, **body}
        return body


class OtherForms(Mutations):
    """Contents are always lists, cache marks stay on their blocks, later system notes become user text."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        def changed(at: int, message: JSONObject) -> JSONObject:
            new = dict(message)
            if isinstance(new.get("content"), str):
                new["content"] = [{"type": "text", "text": new["content"]}]
            if new["role"] == "system" and at > 0:
                new["role"] = "user"
            return new

        messages = [changed(at, message) for at, message in enumerate(body["messages"])]
        last = messages[-1]["content"]
        if isinstance(last, list) and b"cache_control" in self.received:
            messages[-1]["content"] = [*last[:-1], {**last[-1], "cache_control": {"type": "ephemeral"}}]
        return {**body, "messages": messages}


class OtherSpelling(Mutations):
    """Arguments with spaces and escapes, 1.0 as 1; results in call order; the failed flag as a field; a strict flag."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        order = [call["id"] for message in body["messages"] for call in message.get("tool_calls") or ()]
        messages: list[JSONObject] = []
        for message in body["messages"]:
            messages.append(self._changed(message))
            run = 0
            while run < len(messages) and messages[-1 - run]["role"] == "tool":
                run += 1
            if run > 1:
                messages[-run:] = sorted(messages[-run:], key=lambda m: order.index(m["tool_call_id"]))
        tools = [{**tool, "function": {**tool["function"], "strict": False}} for tool in body.get("tools") or ()]
        return {**body, "messages": messages, **({"tools": tools} if tools else {})}

    @staticmethod
    def _changed(message: JSONObject) -> JSONObject:
        if message.get("tool_calls"):
            calls = []
            for call in message["tool_calls"]:
                value = json.loads(call["function"]["arguments"], parse_float=_short)
                calls.append({**call, "function": {**call["function"], "arguments": json.dumps(value)}})
            return {**message, "tool_calls": calls}
        content = message.get("content")
        if message["role"] == "tool" and isinstance(content, str) and content.startswith(ERROR_MARK):
            return {**message, "content": content.removeprefix(ERROR_MARK), "is_error": True}
        return message


def _short(raw: str) -> int | float:
    value = float(raw)
    return int(value) if value.is_integer() else value


class OtherPlaces(Mutations):
    """Reasoning always kept, found tools appended, images of a result in a user message behind it."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        sent = loads(self.received)
        thoughts = [
            "".join(block.get("thinking", "") for block in message["content"] if isinstance(block, dict))
            for message in sent["messages"]
            if message["role"] == "assistant" and isinstance(message.get("content"), list)
        ]
        messages: list[JSONObject] = []
        for message in body["messages"]:
            if message["role"] == "assistant" and thoughts and (thought := thoughts.pop(0)):
                message = {**message, "reasoning_content": thought}
            content = message.get("content")
            if message["role"] == "tool" and isinstance(content, list):
                pictures = [part for part in content if part["type"] == "image_url"]
                words = [part for part in content if part["type"] != "image_url"]
                messages.append({**message, "content": words})
                messages += [{"role": "user", "content": pictures}] if pictures else []
            else:
                messages.append(message)
        found = [t for t in sent.get("tools") or () if t.get("defer_loading") and t["name"] == "mail_reader"]
        extra = [{"type": "function", "function": {"name": t["name"], "parameters": t["input_schema"]}} for t in found]
        tools = [*(body.get("tools") or ()), *extra]
        return {**body, "messages": messages, **({"tools": tools} if tools else {})}


class SplitSystem(Mutations):
    """A Messages client's system blocks become system messages of their own at the head."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        system = loads(self.received).get("system")
        if not isinstance(system, list):
            return body
        texts = [block["text"] for block in system if not block["text"].startswith("x-anthropic-billing-header:")]
        return {**body, "messages": [*({"role": "system", "content": text} for text in texts), *body["messages"][1:]]}


@pytest.mark.parametrize("mutations", [OtherNames, OtherForms, OtherSpelling, OtherPlaces, SplitSystem])
@pytest.mark.parametrize("seed", [0, 1])
def test_nothing_is_held_against_it(mutations: type[Mutations], seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Fault("innocent", "a legitimate translation", frozenset(), "", mutations)
    monkeypatch.setitem(FAULTS, fault.name, fault)
    cell = run_cell(fault.name, seed)
    bad = (Status.FAIL, Status.WARN, Status.ERROR)
    assert [(v.rule, v.entry.value, v.reason) for v in cell.verdicts if v.status in bad] == []
    silent = [(v.rule, v.entry.value, v.reason) for v in cell.verdicts if v.status is Status.INCONCLUSIVE]
    assert silent == []
