"""The incident in small, over real HTTP: ten growing turns of a real-sized client, one switch off and on.

Every expected count is computed here, from the recorder's bytes, by this test's own rendering of the template and its
own tokenisation with DeepSeek's public vocabulary (`incident_rendering`); nothing is asked of the engine.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anthropic
import pytest
from incident_rendering import encode, rendered

from conformance.pair import ALIAS, Pair, embedded_pair, engine_config
from conformance.sessions import ATTRIBUTION_PREFIX, ClaudeCodeSession

TURNS = 10
TOOLS_BYTES = 72_700
"""A tool section of the real shape: preamble, tools and the block's constant head fill 70 blocks of 256 tokens."""

MARKER = "prefixproof-incident"


def common_prefix(a: list[int], b: list[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


@contextmanager
def pair(fault: str | None, *, block: int, template: str) -> Iterator[Pair]:
    config = engine_config(template=template, block_size=block, tokenizer="deepseek")
    with embedded_pair(engine=config, fault=fault, marker=MARKER.encode()) as running:
        yield running


class Day:
    """Ten turns of one session: what usage said, and the prompts the recorder saw, tokenised."""

    def __init__(
        self,
        running: Pair,
        *,
        template: str = "tools-first",
        growth: int = 5_000,
        base_bytes: int | None = None,
        tools: int = TOOLS_BYTES,
    ) -> None:
        session = ClaudeCodeSession(
            seed="incident",
            salt=f"1c0ffee1-{MARKER}",
            shape="full",
            model=ALIAS,
            tools_bytes=tools,
            base_bytes=base_bytes,
        )
        assert running.recorder is not None
        mark = running.recorder.mark()
        self.cached: list[int] = []
        self.prompts: list[int] = []
        with anthropic.Anthropic(base_url=running.gateway_url, api_key="none", max_retries=0) as client:
            for turn in range(TURNS):
                if turn:
                    session.grow(growth)
                usage = self._send(client, session)
                self.cached.append(usage.cache_read_input_tokens or 0)
                self.prompts.append(usage.input_tokens + (usage.cache_read_input_tokens or 0))
        self.texts = [rendered(template, record.json) for record in running.recorder.since(mark)]
        self.tokens = [encode(text) for text in self.texts]

    @staticmethod
    def _send(client: anthropic.Anthropic, session: ClaudeCodeSession) -> anthropic.types.Usage:
        body = session.body()
        known = {k: body.pop(k) for k in ("model", "max_tokens", "system", "messages", "tools", "metadata")}
        message = client.messages.create(**known, extra_body=body, extra_headers=session.headers())
        assert isinstance(message, anthropic.types.Message)
        return message.usage

    def plateau(self, block: int) -> int:
        """floor(tokens up to the first varying character / block) x block, the same for every pair of turns."""
        shared = {common_prefix(a, b) for a, b in zip(self.tokens, self.tokens[1:], strict=False)}
        assert len({n // block for n in shared}) == 1, shared
        return min(shared) // block * block


def test_what_counts_the_tokens_here_is_not_the_engine() -> None:
    for path in (Path(__file__), Path(__file__).with_name("incident_rendering.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not [name for name in names if name.split(".")[0] == "engine"]


@pytest.mark.parametrize(
    ("block", "template", "expected"),
    [
        pytest.param(256, "tools-first", 17_920, id="as in the incident"),
        pytest.param(64, "tools-first", None, id="block 64"),
        pytest.param(256, "system-first", None, id="system text first"),
    ],
)
def test_a_kept_attribution_block_pins_every_turn(block: int, template: str, expected: int | None) -> None:
    with pair("keep-billing-header", block=block, template=template) as running:
        day = Day(running, template=template)
    assert day.prompts == [len(tokens) for tokens in day.tokens], "usage counts the prompt as this test does"
    where = [text.index(ATTRIBUTION_PREFIX) for text in day.texts]
    first_change = common_prefix([ord(c) for c in day.texts[0]], [ord(c) for c in day.texts[1]])
    assert where[0] < first_change < where[0] + 120, "the first varying character is in the attribution block"
    plateau = day.plateau(block)
    assert day.cached[1:] == [plateau] * (TURNS - 1)
    if expected is not None:
        assert plateau == expected
    else:
        assert plateau != 17_920, "another block size or template order gives another plateau"


@pytest.mark.parametrize("block", [256, 64])
def test_with_the_switch_on_every_turn_keeps_what_the_last_one_computed(block: int) -> None:
    with pair(None, block=block, template="tools-first") as running:
        day = Day(running)
    assert all(ATTRIBUTION_PREFIX not in text for text in day.texts)
    expected = []
    for before, after in zip(day.tokens, day.tokens[1:], strict=False):
        shared = common_prefix(before, after)
        # facts: G = floor(min(L, P + O - 1, P' - 1) / block) x block; scripted answers make L the previous prompt.
        assert shared >= len(before)
        expected.append(min(shared, len(before) + 15, len(after) - 1) // block * block)
    assert day.cached[1:] == expected


def test_long_sessions_come_almost_whole_from_the_cache() -> None:
    with pair(None, block=256, template="tools-first") as running:
        day = Day(running, growth=5_200, base_bytes=430_000)
    growths = [b - a for a, b in zip(day.prompts, day.prompts[1:], strict=False)]
    assert min(day.prompts) > 100_000
    assert max(growths) <= 1_300
    for before, prompt, cached in zip(day.prompts, day.prompts[1:], day.cached[1:], strict=False):
        assert cached >= before // 256 * 256
        assert cached / prompt >= 0.98
