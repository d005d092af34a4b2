"""HTTP headers as the recorder passes them on, and as a record shows them."""

from __future__ import annotations

import re
from collections.abc import Iterable

RawHeaders = list[tuple[bytes, bytes]]

HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding"
    b" upgrade".split()
)
NOT_FORWARDED = HOP_BY_HOP | {b"host", b"content-length", b"accept-encoding", b"expect"}
_SECRET = re.compile(r"auth|api-?key|token|secret|cookie|password|credential|signature")


def forwarded(headers: Iterable[tuple[bytes, bytes]], without: frozenset[bytes]) -> RawHeaders:
    """The end-to-end headers: without `without` and whatever `Connection` names (RFC 9110, 7.6.1)."""
    pairs = [(name.lower(), value) for name, value in headers]
    named = {token.strip().lower() for name, value in pairs if name == b"connection" for token in value.split(b",")}
    return [(name, value) for name, value in pairs if name not in without and name not in named]


def shown(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers as text by lower-case name, repeated ones joined, secrets replaced."""
    found: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name = raw_name.decode("latin-1").lower()
        value = "[redacted]" if _SECRET.search(name) else raw_value.decode("latin-1")
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found
