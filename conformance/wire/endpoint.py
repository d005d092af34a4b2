"""Where a target is and how to talk to it: the base URL, the headers of synthetic traffic, proxies and TLS."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from conformance import __version__
from conformance.errors import TargetProblem, UsageProblem

API_KEY_VARIABLE = "PREFIXPROOF_API_KEY"
"""The environment variable that holds the target's key."""

RUN_HEADER = "x-prefixproof-run"
USER_AGENT = f"prefixproof/{__version__} (gateway conformance suite; synthetic traffic)"
CONNECT_TIMEOUT_S = 10.0
ANSWER_FACTOR = 5
KEPT_ALIVE_S = 2.0
"""How long an idle connection is used again: uvicorn and Node drop theirs after 5 s, and what is sent then is lost."""

_PATHS = ("/v1/messages/count_tokens", "/v1/messages", "/v1/chat/completions", "/v1/models", "/v1")


def base_url(url: str) -> tuple[str, str | None]:
    """(base URL without a trailing slash or API path, a note when a path was taken off).

    `http://gw:3000`, `.../v1`, `.../v1/messages` and `.../v1/chat/completions` all name the same target. Raises
    `TargetProblem` for anything that is no http(s) URL, or that carries credentials, a query or a fragment.
    """
    text = url.strip()
    if "@" in text.partition("://")[2].partition("/")[0]:
        raise TargetProblem("the target URL carries credentials: take them out and give the key with --api-key")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise TargetProblem(f"{text!r} is no URL: write it like http://127.0.0.1:3000") from None
    if parts.scheme not in ("http", "https") or not host:
        hint = f"http://{text}" if "://" not in text and text else "http://127.0.0.1:3000"
        raise TargetProblem(f"{text!r} is no http(s) URL: write it like {hint}")
    if parts.query or parts.fragment:
        raise TargetProblem(f"the target URL has a query or a fragment: give only its base, {parts.scheme}://{host}")
    if port == 0:
        raise TargetProblem(f"{text!r} names port 0: give the port the gateway listens on")
    path = parts.path.rstrip("/")
    kept = next((path[: -len(known)] for known in _PATHS if path.endswith(known)), path)
    base = f"{parts.scheme}://{parts.netloc}{kept}"
    note = f"the target is taken as {base}: API paths such as {path[len(kept) :]} are added by the suite"
    return base, (note if kept != path else None)


def is_loopback(url: str) -> bool:
    """True for localhost, 127.0.0.0/8 and ::1."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def environment_proxy(url: str) -> str | None:
    """The environment's proxy for `url`, or None; this machine needs none."""
    parts = urlsplit(url)
    if is_loopback(url) or proxy_bypass(parts.netloc):
        return None
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


def plain_client_options(url: str) -> dict[str, Any]:
    """Options for an httpx or httpx2 client that talks to `url` only.

    Environment proxies are for other hosts than this one. A plain http target needs no trust store, and loading one
    costs 30 ms a client: a context that trusts nothing keeps a stray https hop impossible.
    """
    options: dict[str, Any] = {"trust_env": not is_loopback(url), "follow_redirects": False}
    if url.startswith("http://"):
        options["verify"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return options


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A target and everything needed to send to it.

    `api_key` None sends no credentials at all. `timeout_s` bounds each wait for bytes; a whole answer may take
    `answer_timeout_s`. Raises `UsageProblem` for a key or a run id that no HTTP header can carry.
    """

    url: str
    api_key: str | None = field(repr=False)
    timeout_s: float
    run_id: str

    def __post_init__(self) -> None:
        for name, value in (("API key", self.api_key or ""), ("run id", self.run_id)):
            if not (value.isascii() and value.isprintable()) or value != value.strip():
                raise UsageProblem(f"the {name} has characters no HTTP header can carry (a space or a line break?)")

    @property
    def marks(self) -> dict[str, str]:
        """The headers by which an owner of the target tells the suite's traffic from users' traffic."""
        return {RUN_HEADER: self.run_id, "user-agent": USER_AGENT}

    @property
    def credentials(self) -> dict[str, str]:
        """The key in both forms that gateways look for: Anthropic clients have used either."""
        return {"authorization": f"Bearer {self.api_key}", "x-api-key": self.api_key} if self.api_key else {}

    @property
    def client_options(self) -> dict[str, Any]:
        """Options for an httpx or httpx2 client."""
        return plain_client_options(self.url)

    @property
    def answer_timeout_s(self) -> float:
        """The longest a whole answer may take once its head has come, however it dribbles."""
        return ANSWER_FACTOR * self.timeout_s

    @property
    def connect_timeout_s(self) -> float:
        return min(self.timeout_s, CONNECT_TIMEOUT_S)
