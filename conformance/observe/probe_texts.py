"""What the translation probes say: every text is told apart from every other, so that each can be found upstream."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

from conformance.sessions import ATTRIBUTION_PREFIX, filler
from conformance.verdicts import Entry

Json = dict[str, Any]


def attribution(cch: str, suffix: str = "abc", *, more: str = "") -> str:
    """An attribution text as Claude Code 2.1.116 writes it; `cch` "" leaves that key out, `more` adds keys."""
    tail = f" cch={cch};" if cch else ""
    return f"{ATTRIBUTION_PREFIX} cc_version=2.1.116.{suffix}; cc_entrypoint=cli;{tail}{more}"


QUOTED_IN = {
    "the middle of a system text": attribution("5757a", "1de"),
    "a user message": attribution("05e4a", "2de"),
    "an assistant message": attribution("a5515", "3de"),
    "a tool result": attribution("7001e", "4de"),
}
"""Where a conversation about Claude Code itself quotes the text, and how: never at the head of a system text."""

ARGUMENTS: Json = {
    "zeta": 1.0,
    "alpha": 12345678901234567890,
    "name": 'Grüße, 世界 🚀 "quoted" <b>&amp;</b> a\tb\u2028c',
    "nested": {"b": [0.1, 100, True, None], "a": {}},
    "empty": "",
}
"""A call's arguments: keys out of alphabetical order, a float that is whole, an integer beyond 2**53, unicode."""

SPACED = (
    '{"zeta": 1.0, "alpha": 12345678901234567890, "name": "Gr\\u00fc\\u00dfe, 世界 🚀", '
    '"nested": {"b": [0.1, 1e2], "a": {}}}'
)
"""The same kind of arguments as a chat model may have written them: spaces, escapes and an exponent."""

CALL_IDS = ("toolu_01ReadPartAAAAAAAAAAAA", "toolu_01WeighPartsBBBBBBBBBB", "toolu_01AskOwnerCCCCCCCCCCC")
LONG_RESULT = filler("probe/long result", 4_200)
SESSION_ID = "7b1f0d52-3c5e-4a67-9e21-5d1c7a40b6f3"


def tools(entry: Entry) -> list[Json]:
    """Three definitions, neither they nor their keys in alphabetical order."""
    return [
        definition(entry, "weigh_parts", {"unit": {"type": "string"}, "parts": {"type": "array", "items": {}}}),
        definition(entry, "read_part", {"zeta": {"type": "number"}, "alpha": {"type": "integer"}, "name": {}}),
        definition(entry, "ask_owner", {"why": {"type": "string"}, "owner": {"enum": ["x", "a"], "default": "x"}}),
    ]


def definition(entry: Entry, name: str, properties: Json) -> Json:
    """One tool in the entry's dialect."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    said = f"The tool {name} of the probe."
    if entry is Entry.MESSAGES:
        return {"name": name, "description": said, "input_schema": schema}
    return {"type": "function", "function": {"name": name, "description": said, "parameters": schema}}


def picture(shade: int) -> str:
    """A one-pixel PNG as base64; another shade is another picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    data = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes((0, shade)))) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + data).decode()


PICTURE_HEAD = picture(0)[:40]
"""How every such picture begins, as base64."""


def image_block(entry: Entry, data: str) -> Json:
    """An inline image in the entry's dialect."""
    if entry is Entry.MESSAGES:
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


def text_block(text: str) -> Json:
    return {"type": "text", "text": text}
