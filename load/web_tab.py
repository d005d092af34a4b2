"""A tab of Locust's web page with the caches' figures, live, and a page with the charts behind it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import orjson
from flask import Blueprint, Response, request
from locust.env import Environment

from load.page import page
from load.record import Record

if TYPE_CHECKING:
    from load.coordinator import Leader

KEY: Final = "caches"
CHARTS: Final = "/caches"
_COLUMNS: Final = (
    ("name", "Of"), ("requests", "# Requests"), ("errors", "# Errors"), ("prompt", "Prompt tokens"),
    ("cached", "Cached tokens"), ("rate", "Hit rate"),
)  # fmt: skip


def add_tab(environment: Environment, leader: Leader) -> None:
    """Add the tab "Caches" to Locust's page, and the charts at `/caches`."""
    web_ui = environment.web_ui
    if web_ui is None:
        return
    web_ui.template_args["extended_tabs"] = [{"title": "Caches", "key": KEY}]
    structure = [{"key": key, "title": title} for key, title in _COLUMNS]
    web_ui.template_args["extended_tables"] = [{"key": KEY, "structure": structure}]
    extension = Blueprint("prefixproof", __name__)

    @extension.after_app_request
    def _with_rows(response: Response) -> Response:
        if request.path.endswith("/stats/requests") and leader.record is not None and response.is_json:
            told = orjson.loads(response.get_data())
            told["extended_stats"] = [{"key": KEY, "data": rows(leader.record)}]
            response.set_data(orjson.dumps(told))
        return response

    @extension.get(CHARTS)
    def _charts() -> Response:
        record = leader.record
        if record is None:
            return Response("No run yet.", mimetype="text/plain")
        running = record.last is None and record.stopped is None and not record.seconds
        if running:
            record.seconds = time.time() - record.began
        shown = page(record, live=running)
        if running:
            record.seconds = 0.0
        return Response(shown, mimetype="text/html")

    app = web_ui.app
    assert app is not None, "Locust makes it with its page"
    app.register_blueprint(extension)


def rows(record: Record) -> list[dict[str, Any]]:
    """The tab's table: all, phases, entries, clients, and what the engine's metrics say of both tiers."""
    samples = record.samples
    named = [("all requests", samples.total())]
    named += [(f"phase {name}", samples.total(phase=name)) for name in samples.values(0)]
    named += [(f"entry {name}", samples.total(entry=name)) for name in samples.values(1)]
    named += [(f"client {name}", samples.total(client=name)) for name in samples.values(2)]
    found: list[dict[str, Any]] = [
        {"name": name, "requests": f"{t.requests:,}", "errors": f"{t.errors:,}", "prompt": f"{t.prompt:,}",
         "cached": f"{t.cached:,}", "rate": _rate(t.cached, t.rated)}
        for name, t in named
    ]  # fmt: skip
    last = next((p.tiers for p in reversed(record.series) if p.tiers is not None), None)
    if last is not None and record.first is not None:
        delta = last.since(record.first)
        for tier, key in (("L1", "l1"), ("L2", "l2")):
            asked, hits = delta[f"{key}_queries"], delta[f"{key}_hits"]
            if asked is not None and hits is not None:
                found.append({"name": f"engine {tier}", "requests": "", "errors": "", "prompt": f"{asked:,.0f}",
                              "cached": f"{hits:,.0f}", "rate": _rate(hits, asked)})  # fmt: skip
        if delta["store_bytes"] is not None:
            moved = f"{delta['store_bytes']:,.0f} B stored, {delta['load_bytes'] or 0:,.0f} B loaded"
            found.append(
                {"name": "engine L2 traffic", "requests": "", "errors": "", "prompt": "", "cached": moved, "rate": ""}
            )
    return found


def _rate(part: float, whole: float) -> str:
    return f"{part / whole:.2%}" if whole else "-"
