"""What an engine says of itself: which vLLM it is, since some change a prompt, and whether it knows `top_k`."""

from __future__ import annotations

import re
from dataclasses import dataclass

import httpx

from conformance.wire.answers import members, object_of, text_of
from conformance.wire.endpoint import plain_client_options
from conformance.wire.jsontext import loads_or_none

STRIPS_ATTRIBUTION_FROM = (0, 32)
"""The first vLLM whose chat endpoint drops the attribution line itself (0.27 and 0.29 do so on /v1/messages only)."""

_HAVE_TOP_K = frozenset(("vllm", "prefixproof"))
"""Owners in model lists of engines whose chat endpoint documents `top_k`: vLLM, and this project's model of it."""

_TIMEOUT_S = 5.0
_MOST_BYTES = 4_000_000
_VERSION = re.compile(r"v?(\d+)\.(\d+)")
_IN_METRICS = re.compile(r"^vllm:\w*info\{[^}\n]*\bversion=\"([^\"\n]{1,60})\"", re.MULTILINE)


@dataclass(frozen=True)
class VllmVersion:
    """A vLLM release as it names itself."""

    name: str  # e.g. "0.32.0"

    @property
    def strips_attribution(self) -> bool:
        """True when its chat endpoint drops the attribution line from a system text before it renders the prompt."""
        found = _VERSION.match(self.name)
        return found is not None and (int(found[1]), int(found[2])) >= STRIPS_ATTRIBUTION_FROM


@dataclass(frozen=True)
class EngineSaid:
    """What is known of an engine by its own word; nothing where it cannot be asked."""

    vllm: VllmVersion | None = None
    has_top_k: bool = False
    """True when its chat endpoint takes `top_k`, which is none of OpenAI's parameters."""


def ask_engine(engine_url: str) -> EngineSaid:
    """The version from `/version` (of a server that is a vLLM by its model list) or `/metrics`, and its owner's name.

    Never raises: an engine that cannot be asked is one of which nothing is known.
    """
    url = engine_url.rstrip("/").removesuffix("/v1")
    try:
        with httpx.Client(timeout=_TIMEOUT_S, **plain_client_options(url)) as client:
            models = members(object_of(loads_or_none(_got(client, f"{url}/v1/models"))).get("data"))
            owners = {text_of(model.get("owned_by")) for model in models}
            version = _version(client, url, is_vllm="vllm" in owners)
    except httpx.HTTPError:
        return EngineSaid()
    return EngineSaid(version, has_top_k=version is not None or bool(owners & _HAVE_TOP_K))


def _version(client: httpx.Client, url: str, *, is_vllm: bool) -> VllmVersion | None:
    if is_vllm:
        name = text_of(object_of(loads_or_none(_got(client, f"{url}/version"))).get("version"))
        if _VERSION.match(name):
            return VllmVersion(name[:60])
    found = _IN_METRICS.search(_got(client, f"{url}/metrics").decode("utf-8", "replace"))
    return VllmVersion(found[1]) if found else None


def _got(client: httpx.Client, url: str) -> bytes:
    """The body of a 200 answer, as far as its first megabytes; empty for any other."""
    with client.stream("GET", url) as response:
        if response.status_code != 200:
            return b""
        body = b""
        for piece in response.iter_bytes():
            body += piece
            if len(body) > _MOST_BYTES:
                break
        return body
