"""Engines on real sockets, for tests that speak HTTP."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import uvicorn

from engine.embedded import EngineConfig, EngineCore, create_app
from engine.embedded.server import listen, url_of


@dataclass(frozen=True)
class RunningEngine:
    """An engine that answers at `url`; `core` is the one inside it."""

    url: str
    core: EngineCore
    http: httpx.Client

    def chat(self, **body: object) -> httpx.Response:
        """A chat request; `model` and one message are filled in."""
        message = {"role": "user", "content": "hello"}
        return self.http.post("/v1/chat/completions", json={"model": "embedded", "messages": [message]} | body)

    def cached(self, **body: object) -> tuple[int, int]:
        """(prompt tokens, cached tokens) of a chat request that must succeed."""
        answered = self.chat(**body)
        assert answered.status_code == 200, answered.text
        usage = answered.json()["usage"]
        return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]

    def metric(self, series: str) -> float | None:
        """A sample of `/metrics` by the start of its line; None if there is none."""
        for line in self.http.get("/metrics").text.splitlines():
            if line.startswith(series):
                return float(line.rsplit(" ", 1)[1])
        return None


@contextmanager
def running(config: EngineConfig) -> Iterator[RunningEngine]:
    """An engine in a thread, stopped at the end."""
    app = create_app(config)
    with listen("127.0.0.1", 0) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="on"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            wait_until(lambda: server.started)
            url = url_of(listener)
            with httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
                yield RunningEngine(url, app.state.core, client)
        finally:
            server.should_exit = True
            thread.join()


def wait_until(true: Callable[[], bool], seconds: float = 20) -> None:
    """Wait for a condition that must come; the limit only keeps a broken engine from hanging the tests."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)
