"""What a turn costs, as ratios within one run: warm against cold, through the pair against straight to the engine.

    .venv/bin/python benchmarks/turn_cost.py

CPU seconds of one process that holds client, gateway, recorder and engine: neighbours on the machine cancel out.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median

import httpx
import orjson

from conformance.pair import MODEL, embedded_pair, engine_config
from conformance.sessions import ChatCodingSession

TURNS = 8
BASE_BYTES = 430_000  # about 100 k tokens
GROWTH_BYTES = 5_000


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of this process for one call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def session(salt: str) -> ChatCodingSession:
    return ChatCodingSession(seed=salt, salt=f"{salt}-bench", shape="full", model=MODEL, base_bytes=BASE_BYTES)


def turns(client: httpx.Client, url: str, salt: str) -> list[float]:
    """CPU of each turn of one growing conversation; the first is cold."""
    talk, costs = session(salt), []
    for _ in range(TURNS):
        body = orjson.dumps(talk.body())
        costs.append(cpu(lambda body=body: client.post(url, content=body).raise_for_status()))  # type: ignore[misc]
        talk.grow(GROWTH_BYTES)
    return costs


def main() -> int:
    config = engine_config(template="tools-first", block_size=256, tokenizer="deepseek")
    with embedded_pair(engine=config) as pair, httpx.Client(trust_env=False, timeout=60) as client:
        path = "/v1/chat/completions"
        turns(client, pair.engine_url + path, "warmup00")
        direct = turns(client, pair.engine_url + path, "direct00")
        through = turns(client, pair.gateway_url + path, "through0")
    warm, warm_through = median(direct[1:]), median(through[1:])
    rows = (
        ("warm turn / cold turn, straight to the engine", warm / direct[0]),
        ("warm turn through gateway and recorder / straight to the engine", warm_through / warm),
    )
    print(f"turns of about 100 k tokens; a warm one costs {1000 * warm:.0f} ms of CPU here, client included")  # noqa: T201
    for name, ratio in rows:
        print(f"{ratio:6.2f}  {name}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
