"""The numbers of `thresholds.toml`, typed."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class HotPairThresholds:
    pairs: int
    min_valid: int
    fail_misses: int
    pass_losses: int
    slack_granules: float
    slack_share: float
    growth_granules: float
    min_growth_tokens: int

    def slack(self, granularity: int, prompt: int) -> float:
        """Tokens by which a turn may fall short of its repeat without having lost the prefix."""
        return max(self.slack_granules * granularity, self.slack_share * prompt)


@dataclass(frozen=True)
class QualifyThresholds:
    repeat_hit_share: float
    end_slack_granules: float
    end_slack_share: float
    tokens_per_byte_low: float
    preamble_rate_share: float
    invented_share: float
    invented_tokens: int
    shared_spread: float
    shared_share: float
    min_counts: int

    def end_slack(self, granularity: int, prompt: int) -> float:
        """Tokens by which an exact repeat may fall short of its prompt (last block, draft model) and still be whole."""
        return max(self.end_slack_granules * granularity, self.end_slack_share * prompt)


@dataclass(frozen=True)
class PinnedThresholds:
    turns: int
    growth_granules: float
    growth_planned: float
    above_floor_granules: float


@dataclass(frozen=True)
class UsageThresholds:
    total_slack_tokens: int
    total_slack_share: float
    output_slack_tokens: int
    output_slack_share: float
    dialect_slack_tokens: int
    dialect_slack_share: float
    dialect_upstream_slack_tokens: int
    dialect_upstream_slack_share: float
    moved_tokens: int
    compaction_share: float

    def total_slack(self, prompt: int) -> float:
        """Tokens by which two totals of one request may differ."""
        return max(self.total_slack_tokens, self.total_slack_share * prompt)

    def output_slack(self, output: int) -> float:
        return max(self.output_slack_tokens, self.output_slack_share * output)

    def dialect_slack(self, prompt: int, *, upstream_known: bool) -> float:
        """Tokens by which the totals of one text may differ between the two dialects."""
        if upstream_known:
            return self.dialect_upstream_slack_tokens + self.dialect_upstream_slack_share * prompt
        return self.dialect_slack_tokens + self.dialect_slack_share * prompt


@dataclass(frozen=True)
class Thresholds:
    hot_pair: HotPairThresholds
    qualify: QualifyThresholds
    pinned: PinnedThresholds
    usage: UsageThresholds


def thresholds_text() -> str:
    """`thresholds.toml` as it stands, comments and sources included."""
    return (files("conformance.evidence") / "thresholds.toml").read_text(encoding="utf-8")


def _load() -> Thresholds:
    data = tomllib.loads(thresholds_text())
    return Thresholds(
        hot_pair=HotPairThresholds(**data["hot_pair"]),
        qualify=QualifyThresholds(**data["qualify"]),
        pinned=PinnedThresholds(**data["pinned"]),
        usage=UsageThresholds(**data["usage"]),
    )


THRESHOLDS = _load()
"""The thresholds every judgement uses."""
