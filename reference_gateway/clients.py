"""The HTTP connections to the upstreams.

aiohttp, not httpx: a gateway is paid for by the request, and here a call through httpx costs more than the rest.
"""

import io
import ipaddress
from collections.abc import Iterable
from contextlib import suppress
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from .config import Channel

CALL_FAILURES = (aiohttp.ClientError, TimeoutError)
"""What a call to an upstream raises: it cannot be reached, fell silent or broke off."""

_IDLE_S = 2.0
"""Below the 5 s after which common servers close an idle connection, so that no request meets a closed one."""

_LONGEST_HEADER = 64 * 1024
_ALL_AT_ONCE = 2**20
"""Bytes that aiohttp sends without a warning; a longer body it wants as a file."""


def is_loopback(url: str) -> bool:
    """Whether the address is this machine, where a proxy from the environment has no business."""
    host = urlsplit(url).hostname or ""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def body_of(body: bytes) -> bytes | io.BytesIO:
    """The body as aiohttp sends it without a warning."""
    return body if len(body) < _ALL_AT_ONCE else io.BytesIO(body)


class Clients:
    """The app's connections, shared by all requests. Make it on the loop it is used on."""

    def __init__(self, channels: Iterable[Channel]) -> None:
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("accept", "user-agent"),
            max_line_size=_LONGEST_HEADER,
            max_field_size=_LONGEST_HEADER,
        )
        urls = {url for channel in channels for url in (channel.url, *channel.replicas)}
        self._proxies = {url: _proxy_of(url) for url in urls}

    def proxy_of(self, channel: Channel) -> str | None:
        """The environment's proxy for a channel's upstream, if it has one; none for this machine."""
        return self._proxies[channel.url]

    async def aclose(self) -> None:
        """Close all connections."""
        await self.session.close()


def _proxy_of(url: str) -> str | None:
    # Not aiohttp's own trust_env, which would also take a password from the user's .netrc.
    parts = urlsplit(url)
    if is_loopback(url) or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")
