"""Faults in the members of a body beside its prompt, and in texts made from them."""

import hashlib
import uuid

from ..jsontext import dumps, loads
from ..seams import JSONObject, Mutations
from .prompts import at_system_head


class DropStop(Mutations):
    """Stop sequences are not sent."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        return {name: value for name, value in body.items() if name != "stop"}


class DropTopK(Mutations):
    """`top_k` is not sent."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        return {name: value for name, value in body.items() if name != "top_k"}


class ChoiceAny(Mutations):
    """``tool_choice`` "any" is sent by that name."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        return {**body, "tool_choice": "any"} if body.get("tool_choice") == "required" else body


class OwnTemperature(Mutations):
    """A temperature of the gateway's own where the client names none."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        return {"temperature": 0.2, **body}


class RandomCacheSalt(Mutations):
    """Every request without a salt gets a random one."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        return {"cache_salt": uuid.uuid4().hex, **body}


class DropCacheSalt(Mutations):
    """A client's ``cache_salt`` is not sent."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        return {name: value for name, value in body.items() if name != "cache_salt"}


class DropCacheKey(Mutations):
    """A client's ``prompt_cache_key`` is not sent."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        return {name: value for name, value in body.items() if name != "prompt_cache_key"}


class KeyFromBody(Mutations):
    """``prompt_cache_key`` is made from the whole body where the client names none."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        return {"prompt_cache_key": hashlib.sha256(self.received).hexdigest()[:16], **body}


class SessionNote(Mutations):
    """A number made from the first question stands before the system text."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        first: JSONObject = next((m for m in body["messages"] if m.get("role") == "user"), {})
        content = first.get("content")
        text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())
        digest = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % 10**18
        return at_system_head(body, f"You serve session {digest:018d}.")


class AliasParameters(Mutations):
    """An alias carries template parameters of its own."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        if loads(self.received).get("model") == body["model"]:
            return body
        return {**body, "chat_template_kwargs": {"thinking": True}}


class EffortInSystem(Mutations):
    """The effort a client asks for is written before the system text."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        sent = loads(self.received)
        effort = sent.get("reasoning_effort") or (sent.get("output_config") or {}).get("effort")
        return at_system_head(body, f"Reasoning effort: {effort}.") if effort else body


class MessagesBodyHash(Mutations):
    """On /v1/messages a number made from the body stands before the system text."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        sent = loads(self.received)
        if sent.get("messages") == body["messages"] or "system" not in sent:
            return body
        digest = int.from_bytes(hashlib.sha256(dumps(sent)).digest()[:8], "big") % 10**18
        return at_system_head(body, f"The reference of this request is {digest:018d}.")
