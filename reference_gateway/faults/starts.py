"""Faults in what is drawn when the gateway starts: the same for all requests of a process, and another in the next."""

import hashlib
import secrets
from typing import Any, ClassVar, Self

from ..seams import JSONObject, Mutations
from .base import Fault
from .prompts import at_system_head


class _Drawn(Mutations):
    """Every start draws a number of its own, of always 18 digits."""

    drawn: ClassVar[int] = 10**17

    @classmethod
    def started(cls) -> type[Self]:
        return type(cls.__name__, (cls,), {"drawn": 10**17 + secrets.randbelow(9 * 10**17)})

    def _ordered(self, names: list[str]) -> list[str]:
        """The names in the order that a process' hashes give them; never the one they came in."""
        found = sorted(names, key=lambda name: hashlib.blake2b(f"{self.drawn}/{name}".encode()).digest())
        return found[::-1] if found == names else found


class ToolsByStart(_Drawn):
    """Tools come in an order that is drawn when the gateway starts."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        tools = body.get("tools")
        if not isinstance(tools, list):
            return body
        named = {str(tool["function"]["name"]): tool for tool in tools}
        return {**body, "tools": [named[name] for name in self._ordered(list(named))]}


class SchemaKeysByStart(_Drawn):
    """The parameters inside each tool's schema come in an order that is drawn when the gateway starts."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        return {**body, "tools": self._reordered(body["tools"])} if "tools" in body else body

    def _reordered(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._reordered(value[name]) for name in self._ordered(list(value))}
        return [self._reordered(item) for item in value] if isinstance(value, list) else value


class InstanceNote(_Drawn):
    """The number of this start stands before the system text."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        return at_system_head(body, f"You are served by instance {self.drawn}.")


class SaltByStart(_Drawn):
    """Requests without a ``cache_salt`` of their own get one that is drawn when the gateway starts."""

    def chat_body(self, body: JSONObject) -> JSONObject:
        return {"cache_salt": f"gateway-{self.drawn}", **body}


def _ids(text: str) -> frozenset[str]:
    return frozenset(text.split())


STARTS = (
    Fault(
        "tools-by-start",
        "tools are sent in an order that is drawn when the gateway starts",
        _ids("CON-04"),
        "tools kept in a set: Python's order of strings is another in every process (PYTHONHASHSEED)",
        ToolsByStart,
        breaks_across_restart=_ids("PFX-09 PFX-14"),
    ),
    Fault(
        "schema-keys-by-start",
        "the keys of tool schemas are sent in an order that is drawn when the gateway starts",
        _ids("CON-04"),
        "schemas kept in a map whose hash is seeded at the start of a process",
        SchemaKeysByStart,
        breaks_across_restart=_ids("PFX-09 PFX-14"),
    ),
    Fault(
        "instance-note",
        "a number that is drawn when the gateway starts stands before the system text",
        _ids("CON-01"),
        "process ids, start times and pod names written into the prompt: a deploy makes every session cold",
        InstanceNote,
        breaks_across_restart=_ids("PFX-14"),
    ),
    Fault(
        "salt-by-start",
        "requests without a cache_salt get one that is drawn when the gateway starts",
        frozenset(),
        "isolation by a random salt of the process: replicas share nothing, and a deploy makes every session cold",
        SaltByStart,
        breaks_across_restart=_ids("PFX-14"),
    ),
)
