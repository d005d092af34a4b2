"""Which vLLM answers at an engine's URL, where it says so: some releases change a prompt before they render it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import httpx

from conformance.wire.answers import members, object_of, text_of
from conformance.wire.endpoint import plain_client_options
from conformance.wire.jsontext import loads_or_none

STRIPS_ATTRIBUTION_FROM = (0, 32)
"""The first vLLM whose chat endpoint drops the attribution line itself (0.27 and 0.29 do so on /v1/messages only)."""

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


def vllm_version(engine_url: str) -> VllmVersion | None:
    """The version from `/version` (of a server that is a vLLM by its model list) or `/metrics`; None if untold.

    Never raises: an engine that cannot be asked is one whose version is not known.
    """
    url = engine_url.rstrip("/").removesuffix("/v1")
    try:
        with httpx.Client(timeout=_TIMEOUT_S, **plain_client_options(url)) as client:
            models = members(object_of(loads_or_none(_got(client, f"{url}/v1/models"))).get("data"))
            if any(model.get("owned_by") == "vllm" for model in models):
                name = text_of(object_of(loads_or_none(_got(client, f"{url}/version"))).get("version"))
                if _VERSION.match(name):
                    return VllmVersion(name[:60])
            found = _IN_METRICS.search(_got(client, f"{url}/metrics").decode("utf-8", "replace"))
            return VllmVersion(found[1]) if found else None
    except httpx.HTTPError:
        return None


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
