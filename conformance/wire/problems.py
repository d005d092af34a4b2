"""Trouble on the wire, as one line that says what to do. No line carries a key."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from conformance.keys import hider
from conformance.redact import hide_secrets
from conformance.vocabulary import spoken
from conformance.wire.answers import Answer, FailureKind, object_of
from conformance.wire.jsontext import loads_or_none

CUT = 300
"""Characters of a target's own error message that are shown."""

Kind = Literal["refused", "dns", "tls", "connect timeout", "timeout", "reset", "not http"]

_TAGS = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Broken:
    """Why no (whole) HTTP answer came."""

    kind: Kind
    detail: str


def _chain(exc: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = exc
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def broken(exc: BaseException) -> Broken | None:
    """What went wrong on the wire, or None when `exc` is not about the wire.

    Both httpx and the SDKs' httpx2 wrap the system's error; names are compared because their classes differ.
    """
    chain = list(_chain(exc))
    names = {type(link).__name__ for link in chain}
    # A client quotes what it cannot read: the words of whoever answers there.
    detail = one_line(spoken(hide_secrets(str(chain[-1]))) or type(chain[-1]).__name__, 120)
    if any(isinstance(link, socket.gaierror) for link in chain):
        return Broken("dns", detail)
    if any(isinstance(link, ssl.SSLError) for link in chain):
        return Broken("tls", detail)
    if names & {"ConnectTimeout", "PoolTimeout"}:
        return Broken("connect timeout", detail)
    if names & {"ReadTimeout", "WriteTimeout"}:
        return Broken("timeout", detail)
    if names & {"ConnectError", "ProxyError"}:
        return Broken("refused", detail)
    if "RemoteProtocolError" in names and "illegal" in detail.lower():
        return Broken("not http", detail)
    if names & {"RemoteProtocolError", "ReadError", "WriteError", "CloseError", "DecodingError"}:
        return Broken("reset", detail)
    return None


def broken_off(why: Broken) -> Answer:
    """The answer that stands for one that broke off after its head had come."""
    failure: FailureKind | None = "timeout" if why.kind == "timeout" else None
    return Answer(error=f"the answer broke off ({why.kind}: {why.detail})", failure=failure)


def unreachable(url: str, why: Broken, timeout_s: float, answered: int = 0) -> str:
    """The line of a `TargetProblem` for a target that gives no HTTP answer; `answered` counts earlier answers."""
    if answered and why.kind == "refused":
        so_far = f"{answered} request{'s' if answered > 1 else ''}"
        return f"{url} answered {so_far} and then refused to connect: did the gateway stop or crash?"
    match why.kind:
        case "refused":
            what = "connection refused" if "refused" in why.detail.lower() else why.detail
            return f"{url} does not answer ({what}): is the gateway running, and is the port right?"
        case "dns":
            return f"{url}: the host name does not resolve: check its spelling, or the network"
        case "tls":
            return (
                f"{url}: no TLS connection ({why.detail}): should the URL begin with http://, "
                "or is the certificate not trusted on this machine?"
            )
        case "connect timeout":
            return f"{url} does not answer (no connection in time): is the address right, and is a firewall in between?"
        case "timeout":
            return (
                f"{url} accepted the request but sent no answer within {timeout_s:g} s: does the gateway or its "
                "upstream hang?"
            )
        case "not http":
            return f"{url} answers, but not in HTTP ({why.detail}): is the port right?"
        case "reset":
            return f"{url} closed the connection without an answer: does this port speak plain HTTP, or only https?"


def redact(text: str, *secrets: str | None) -> str:
    """`text` without the given secrets in any form, and without anything that looks like a credential."""
    return hide_secrets(hider(*secrets).hide(text))


def one_line(text: str, limit: int = CUT) -> str:
    """`text` on one line, white space collapsed, cut to `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def error_text(body: bytes | Any) -> str:
    """A target's own words in an error answer: the message of its JSON error, or the text of its page; may be "".

    Knows the shapes of both dialects (`error.message`), vLLM's older one (`message`), FastAPI's (`detail`) and a
    plain `error` string.
    """
    parsed = loads_or_none(body) if isinstance(body, bytes) else body
    if isinstance(parsed, dict):
        error = parsed.get("error")
        for found in (object_of(error).get("message"), error, parsed.get("message"), parsed.get("detail")):
            if isinstance(found, str) and found.strip():
                return found
    if isinstance(body, bytes):
        return _TAGS.sub(" ", body[:4000].decode("utf-8", "replace"))
    return body if isinstance(body, str) else ""


def error_line(status: int, body: bytes | Any, *secrets: str | None) -> str:
    """One line for an HTTP error answer: its status and the target's own words, cut, keys redacted."""
    words = one_line(redact(error_text(body), *secrets))
    return f"HTTP {status}: {words}" if words else f"HTTP {status} with an empty body"
