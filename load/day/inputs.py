"""What is put into the day, read from `fit.toml`: the engine's pool, the neighbours, and how the user works.

Nothing here says that a request is cold. A prompt is cold when its blocks were given to others meanwhile.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from importlib import resources

from load.errors import LoadProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """One day. Tokens, seconds of the day, or bytes, as said.

    `messages`, `chat` and `alias` are the numbers of requests of the report's three rows. The neighbours are
    `neighbours` tenants with a cache salt of their own, whose contexts of `neighbour_low` to `neighbour_high` bytes
    are sent in turn, one every `neighbour_every` seconds. The user changes between clients in stints of about
    `stint_turns` turns, `gap` seconds apart; between stints lie pauses of `pause` seconds, and with a share of
    `long_share` of `long_pause` seconds (medians of log-normal draws of `pause_sigma`).
    """

    seed: int = 1
    block_size: int = 256
    pool_tokens: int = 450_000
    l2_tokens: int = 0
    messages: int = 451
    chat: int = 444
    alias: int = 7
    neighbours: int = 24
    neighbour_low: int = 60_000
    neighbour_high: int = 140_000
    neighbour_every: float = 40.0
    stint_turns: float = 6.4
    gap: float = 25.0
    pause: float = 120.0
    long_pause: float = 700.0
    long_share: float = 0.3
    pause_sigma: float = 0.5
    tools_bytes: int = 72_700
    system_bytes: int = 26_051
    first_bytes: int = 165_000
    """Of a Claude Code conversation's first prompt, tools and system included."""
    summary_bytes: int = 58_000
    """Of what stands for the messages after a compaction: the summary and the files read again."""
    compact_bytes: int = 735_000
    claude_growth: float = 8_900.0
    claude_titles: int = 8
    reasonix_first: int = 80_000
    reasonix_most: int = 980_000
    reasonix_growth: float = 9_800.0
    alias_bytes: int = 850_000
    growth_sigma: float = 0.7


def read_inputs() -> Inputs:
    """The committed fit."""
    data = tomllib.loads((resources.files(__package__) / "fit.toml").read_text("utf-8"))
    return Inputs(**data)


def part_of(inputs: Inputs, part: float) -> Inputs:
    """The same day with a share of its requests. Raises `LoadProblem` for a share that leaves none."""
    if not 0 < part <= 1:
        raise LoadProblem(f"--part {part:g}: give a share above 0, at most 1")
    if part == 1:
        return inputs
    return replace(
        inputs, messages=max(12, round(inputs.messages * part)), chat=max(12, round(inputs.chat * part)),
        alias=max(2, round(inputs.alias * part)), claude_titles=max(1, round(inputs.claude_titles * part)),
    )  # fmt: skip
