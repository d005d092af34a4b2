"""Is the host tier read back? Sessions are sent, pushed out of L1 and sent once more, exactly and as a follow-up turn.

Straight to one quiet engine, by its own counters and its own usage. Puts pressure on the pool: not for an engine that
users share, unless the few tokens that `reset` needs are all that is sent.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import httpx

from engine.chat_client import Answer, ChatClient, Conversation, ProbeError
from engine.metrics import Counters, Reading, between, read
from engine.scrape import MetricsError, fetch

Say = Callable[[str], None]

SESSIONS = 3
"""The first and the last are sent again exactly, the one between gets a follow-up turn."""

PRESSURE = 1.6
"""Times the pool's tokens that are sent to push the sessions out."""

SETTLE_S = 0.7
"""Counters of the host tier are reported with the step after the copy."""

WORDS = (
    *("the", "cache", "of", "a", "server", "keeps", "every", "block", "until", "pressure"),
    *("evicts", "old", "data", "from", "memory", "import", "return", "value", "index", "class"),
)


@dataclass(frozen=True)
class Settings:
    """How one probe is made. Sizes in tokens; `session_tokens` None is chosen from the pool and the model's length."""

    session_tokens: int | None = None
    budget_tokens: int = 500_000
    reset: bool = False
    """Empty L1 by `POST /reset_prefix_cache` (an engine in development mode has it) instead of by pressure."""
    output_tokens: int = 24


@dataclass
class Sent:
    """One session: what was sent first, its first answer and, later, the answer after it was pushed out."""

    conversation: Conversation
    cold: Answer
    again: Answer | None = None
    counted: Counters | None = None
    follow_up: bool = False


@dataclass
class Observed:
    """All that a probe saw. `steps` are counters of its phases; None where the engine restarted in between."""

    pool_tokens: int
    block_size: int
    has_tier: bool
    sessions: list[Sent] = field(default_factory=list)
    warm: Answer | None = None
    fillers: int = 0
    filler_tokens: int = 0
    failures: list[str] = field(default_factory=list)
    whole: Counters | None = None


class Probe:
    """One probe of one engine."""

    def __init__(self, client: ChatClient, metrics: str, settings: Settings, say: Say) -> None:
        self._client = client
        self._metrics = metrics
        self._settings = settings
        self._say = say
        self._rng = random.Random(secrets.token_hex(8))

    def run(self) -> Observed:
        """Send everything. Raises `ProbeError` or `MetricsError` where nothing can be probed.

        A request that fails while the tier is under pressure is an observation, no error.
        """
        before = self._read()
        if not before.block_size or not before.num_blocks:
            raise ProbeError("the engine's metrics do not tell the pool's size (vllm:cache_config_info)")
        if before.prefix_caching is False:
            raise ProbeError("prefix caching is off: nothing is ever read back")
        # At least as many as the blocks hold for sure: short prompts of a hybrid model may fill fewer of them.
        pool = before.block_size * before.num_blocks * len(before.replicas)
        seen = Observed(pool, before.block_size, before.has_tier)
        tokens = self._session_tokens(pool, before.block_size)
        self._check_budget(pool, tokens)
        words = self._words(tokens)
        self._say(f"pool {pool:,} tokens, {SESSIONS} sessions of about {tokens:,}")
        seen.sessions = [self._first(words) for _ in range(SESSIONS)]
        seen.warm = self._client.ask(seen.sessions[-1].conversation)
        self._push_out(seen, words, pool)
        for number, session in enumerate(seen.sessions):
            session.follow_up = number == 1
            self._again(session, seen)
        after = self._read()
        seen.has_tier = after.has_tier  # some engines show a tier's series with its first copy only
        seen.whole = between(before, after)
        return seen

    def _session_tokens(self, pool: int, block: int) -> int:
        longest = self._client.max_model_len or pool
        room = longest - 4 * self._settings.output_tokens - 64
        chosen = self._settings.session_tokens or max(4 * block, min(pool // 6, longest // 3, 8_192))
        if chosen > room:
            raise ProbeError(f"sessions of {chosen:,} tokens do not fit the model's length of {longest:,}")
        return chosen

    def _check_budget(self, pool: int, tokens: int) -> None:
        needed = (2 * SESSIONS + 1) * tokens + (0 if self._settings.reset else int(PRESSURE * pool))
        if needed > self._settings.budget_tokens:
            raise ProbeError(
                f"pushing {pool:,} tokens out of L1 takes about {needed:,} prompt tokens, more than the budget of "
                f"{self._settings.budget_tokens:,}: raise --budget, or use --reset on an engine with "
                "VLLM_SERVER_DEV_MODE=1"
            )

    def _words(self, tokens: int) -> int:
        """How many words make a session of that size, measured on one prompt."""
        sample = 200
        used = self._client.ask(self._conversation(sample)).prompt_tokens
        return max(8, int(sample * tokens / max(used, 1)))

    def _conversation(self, words: int) -> Conversation:
        salt = f"{self._rng.getrandbits(64):016x}"
        text = " ".join(f"{self._rng.choice(WORDS)}{self._rng.randrange(100)}" for _ in range(words))
        return Conversation((("system", f"{salt} {text}"), ("user", "Go on.")))

    def _first(self, words: int) -> Sent:
        conversation = self._conversation(words)
        return Sent(conversation, self._client.ask(conversation))

    def _push_out(self, seen: Observed, words: int, pool: int) -> None:
        if self._settings.reset:
            self._client.reset_prefix_cache()
            return
        self._say(f"pushing them out with about {int(PRESSURE * pool):,} tokens")
        while seen.filler_tokens < PRESSURE * pool:
            try:
                answer = self._client.ask(self._conversation(words), output_tokens=2)
            except httpx.HTTPError as error:
                seen.failures.append(f"a filler request failed: {type(error).__name__}")
                if len(seen.failures) > 3:
                    raise ProbeError("the engine does not answer under pressure") from None
                continue
            seen.fillers += 1
            seen.filler_tokens += answer.prompt_tokens

    def _again(self, session: Sent, seen: Observed) -> None:
        before = self._settled()
        conversation = session.conversation
        if session.follow_up:
            conversation = conversation.followed(session.cold.text, "And what follows from this?")
        try:
            session.again = self._client.ask(conversation)
        except (httpx.HTTPError, ProbeError) as error:
            seen.failures.append(f"a session sent again failed: {error}")
            return
        session.counted = between(before, self._settled())

    def _settled(self) -> Reading:
        time.sleep(SETTLE_S)
        return self._read()

    def _read(self) -> Reading:
        return read(fetch(self._metrics))


def evicted(seen: Observed) -> Iterator[Sent]:
    """Sessions that were sent again exactly and answered."""
    return (session for session in seen.sessions if session.again is not None and not session.follow_up)


__all__ = ["MetricsError", "Observed", "Probe", "ProbeError", "Sent", "Settings", "evicted"]
