"""Which script answers one upstream request, and what a recorder without an engine says to the others."""

from __future__ import annotations

from conformance.scripting.chat import error
from conformance.scripting.content import MODEL, json_answer
from conformance.scripting.script import Script, ScriptedReply
from conformance.wire.jsontext import loads_or_none


def scripted_answer(reply: ScriptedReply, path: str, body: bytes) -> Script:
    """The script in the dialect of `path` and the form that `body` asks for; a 404 on a path no model answers on."""
    streamed = False
    if b'"stream"' in body:
        parsed = loads_or_none(body)
        streamed = isinstance(parsed, dict) and parsed.get("stream") is True
    script = reply.to(path, streamed=streamed)
    return script or error(404, f"prefixproof recorder: no script answers {path}", "not_found")


def stand_in(method: str, path: str) -> Script:
    """What a live engine would say to a gateway's probes, and a 503 to anything else."""
    trimmed = path.rstrip("/")
    if method == "GET" and trimmed.endswith("/models"):
        return json_answer({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "prefixproof"}]})
    if method == "GET" and trimmed.endswith("/health"):
        return json_answer({"status": "ok"})
    message = "prefixproof recorder: there is no engine behind this recorder; give one with --engine URL"
    return error(503, message, "no_engine")
