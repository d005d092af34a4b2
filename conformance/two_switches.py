"""The incident's two switches, on and off: how often a client compacts, how much it sends cold, what its hit rate is.

    python -m conformance.two_switches

prints the table of docs/compaction.md. One client with a small declared window plays the same number of turns through
the embedded pair under each setting; it compacts when its own reading of the answers' usage says that its context is
full. Everything is deterministic.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product

from conformance.pair import ALIAS, embedded_pair, engine_config
from conformance.recorder import Recorder
from conformance.sessions import ClaudeCodeSession
from conformance.sessions.compaction import ContextMeter
from conformance.verdicts import Entry
from conformance.wire.client import Wire
from conformance.wire.exchange import Exchange
from conformance.wire.upstream_usage import upstream_usage

WINDOW = 12_000
"""Tokens the client believes it has."""

TURNS = 40
GROWTH_BYTES = 2_600
"""About 600 tokens a turn."""

SUMMARY_BYTES = 2_000
MARKER = "prefixproof-switches"


@dataclass(frozen=True)
class Setting:
    """One of the eight runs: both switches, and whether the client streams."""

    strip: bool
    exclude: bool
    streamed: bool


@dataclass(frozen=True)
class Outcome:
    """What 40 turns came to. Sizes in tokens, by the upstream's own counts."""

    setting: Setting
    compacted_at: tuple[int, ...]
    prompt_tokens: int
    cached_tokens: int

    @property
    def compactions(self) -> int:
        return len(self.compacted_at)

    @property
    def cold_tokens(self) -> int:
        return self.prompt_tokens - self.cached_tokens

    @property
    def hit_rate(self) -> float:
        """Token-weighted."""
        return self.cached_tokens / self.prompt_tokens

    @property
    def mean_size(self) -> float:
        """True size of the context at which the client compacted."""
        return sum(self.compacted_at) / len(self.compacted_at) if self.compacted_at else 0.0


def play(setting: Setting) -> Outcome:
    """Play the session under one setting."""
    session = ClaudeCodeSession(seed="switches", salt=f"5a17-{MARKER}", model=ALIAS, collapse=False)
    meter = ContextMeter(WINDOW)
    sizes: list[int] = []
    prompt = cached = before = 0
    with _pair(setting) as (url, recorder), _wire(url, recorder) as wire:

        def sent(body: dict[str, object]) -> Exchange:
            nonlocal prompt, cached
            exchange = wire.send(Entry.MESSAGES, body, stream=setting.streamed, via="raw", headers=session.headers())
            assert exchange.ok, exchange.error
            usage = upstream_usage(exchange.upstream[-1])
            prompt, cached = prompt + (usage.prompt or 0), cached + (usage.cached or 0)
            return exchange

        for turn in range(TURNS):
            if turn:
                session.grow(GROWTH_BYTES)
            if meter.full:
                # As the client does: it finds itself full when it is about to send the next turn.
                exchange = sent(session.compaction_body())
                sizes.append(before)
                session.compact(SUMMARY_BYTES)
            exchange = sent(session.body())
            before = upstream_usage(exchange.upstream[-1]).prompt or 0
            start = exchange.start_usage.prompt if exchange.start_usage is not None else None
            meter.note(exchange.usage.prompt, start)
    return Outcome(setting, tuple(sizes), prompt, cached)


def outcomes() -> list[Outcome]:
    """All eight runs, plain before streamed, both switches off first."""
    return [
        play(Setting(strip, exclude, streamed))
        for streamed, strip, exclude in product((False, True), (False, True), (False, True))
    ]


def table(found: list[Outcome]) -> str:
    """The outcomes as a table in Markdown."""
    lines = [
        "| client | strip header | exclude cache | compactions | true size at compaction | cold tokens | hit rate |",
        "|---|---|---|---|---|---|---|",
    ]
    for o in found:
        s = o.setting
        lines.append(
            f"| {'streams' if s.streamed else 'plain'} | {_on(s.strip)} | {_on(s.exclude)} | {o.compactions} "
            f"| {o.mean_size:,.0f} | {o.cold_tokens:,} | {o.hit_rate:.1%} |"
        )
    return "\n".join(lines)


def _on(switch: bool) -> str:
    return "on" if switch else "off"


@contextmanager
def _pair(setting: Setting) -> Iterator[tuple[str, Recorder]]:
    engine = engine_config(template="tools-first", block_size=64, tokenizer="fast")
    with embedded_pair(
        engine=engine, marker=MARKER.encode(), strip_header=setting.strip, exclude_cache=setting.exclude
    ) as pair:
        assert pair.recorder is not None
        yield pair.gateway_url, pair.recorder


def _wire(url: str, recorder: Recorder) -> Wire:
    return Wire(url, api_key=None, model=ALIAS, timeout_s=60.0, recorder=recorder, run_id="switches")


def main() -> int:
    """Print the table."""
    print(table(outcomes()))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
