"""Targets made of token ids: the embedded engine's core under noise, spoken to by the very evidence code of a run.

No HTTP, no text: only what a client's counts depend on. `python -m conformance.aa` runs the judgements on them.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from conformance.evidence.conversation import NO_EXTRA, Extra, Sent
from conformance.observe.variety import Variety
from engine.embedded import EngineConfig, EngineCore

BYTES_PER_TOKEN = 4
_POOL_TOKENS = 1 << 20


@lru_cache(maxsize=1)
def _random_ids() -> memoryview:
    """A fixed sea of token ids; texts are slices of it. Four bytes an id."""
    rng = random.Random("token ids")
    return memoryview(array("I", (rng.getrandbits(17) for _ in range(_POOL_TOKENS))).tobytes())


def text(seed: str, tokens: int) -> bytes:
    """`tokens` ids that no other seed's text shares more than by accident."""
    at = random.Random(seed).randrange(_POOL_TOKENS - tokens)
    return bytes(_random_ids()[4 * at : 4 * (at + tokens)])


class Server(ABC):
    """What answers: tokens in, (prompt, cached) out."""

    @abstractmethod
    def cached(self, prompt: bytes) -> int:
        """Serve one prompt; the cached tokens it reports."""


def core(block_size: int, pool_tokens: int) -> EngineCore:
    return EngineCore(EngineConfig(block_size=block_size, num_blocks=pool_tokens // block_size + 2))


class Engine(Server):
    """One engine. `draft` drops the last matched block, as EAGLE and MTP do."""

    def __init__(self, block_size: int, pool_tokens: int = 400_000, *, draft: bool = False) -> None:
        self._core = core(block_size, pool_tokens)
        self._drop = block_size if draft else 0

    def cached(self, prompt: bytes) -> int:
        return max(0, self._core.complete(prompt).cached_tokens - self._drop)


class Replicas(Server):
    """Several engines, one drawn for each request."""

    def __init__(self, engines: list[Server], rng: random.Random) -> None:
        self._engines = engines
        self._rng = rng

    def cached(self, prompt: bytes) -> int:
        return self._rng.choice(self._engines).cached(prompt)


class Neighbours(Server):
    """An engine others use too: before a request, with `chance`, a burst of 1 to 2 x `burst` of their prompts."""

    def __init__(self, engine: Server, rng: random.Random, *, chance: float, burst: int, tokens: int) -> None:
        self._engine, self._rng = engine, rng
        self._chance, self._burst, self._tokens = chance, burst, tokens

    def cached(self, prompt: bytes) -> int:
        if self._rng.random() < self._chance:
            for _ in range(self._rng.randint(1, 2 * self._burst)):
                self._engine.cached(text(str(self._rng.random()), self._tokens))
        return self._engine.cached(prompt)


class SecondSight(Server):
    """A cache that admits a block when it is seen for the second time: hits come from the third send on."""

    def __init__(self, block_size: int) -> None:
        self._block = 4 * block_size
        self._tokens = block_size
        self._seen: dict[int, int] = {}

    def cached(self, prompt: bytes) -> int:
        key, hits, hitting = 0, 0, True
        full = (len(prompt) - 4) // self._block
        for i in range(full):
            key = hash((key, prompt[i * self._block : (i + 1) * self._block]))
            seen = self._seen.get(key, 0)
            hitting = hitting and seen >= 2
            hits += hitting
            self._seen[key] = seen + 1
        return hits * self._tokens


Disturb = Callable[[list[bytes], bool, int], list[bytes]]
"""(sections, attribution, turn) -> sections: what a broken gateway does to a prompt."""


@dataclass(frozen=True)
class Shape:
    """Tokens of the parts of a simulated prompt, and which section the template renders first."""

    preamble: int = 300
    system_first: bool = False


class SimulatedLab:
    """Makes conversations of token ids (a `Lab`)."""

    sees_upstream = False
    sends_attribution = True
    variety = Variety()

    def __init__(self, server: Server, run: str, base_bytes: int, shape: Shape, disturb: Disturb | None = None) -> None:
        self.server = server
        self.run = run
        self.base_bytes = base_bytes
        self.shape = shape
        self.disturb = disturb
        self.tokens_per_byte = 1 / BYTES_PER_TOKEN
        self.salts = 0

    def fresh_salt(self) -> str:
        self.salts += 1
        return f"{self.run}/{self.salts}"

    def conversation(
        self, *, attribution: bool = False, extra: Extra = NO_EXTRA, scale: float = 1.0, tools: bool = True
    ) -> SimulatedConversation:
        base = round(self.base_bytes * scale / BYTES_PER_TOKEN)
        tool_tokens = (base // 3 + extra.tools // BYTES_PER_TOKEN) if tools else 0
        system_tokens = base // 2 + extra.system // BYTES_PER_TOKEN
        growths = [extra.message // BYTES_PER_TOKEN] if extra.message else []
        return SimulatedConversation(
            self, self.fresh_salt(), attribution, tool_tokens, system_tokens, base // 6, growths
        )


class SimulatedConversation:
    """One growing conversation of token ids (a `Conversation`)."""

    def __init__(
        self, lab: SimulatedLab, salt: str, attribution: bool, tools: int, system: int, message: int, growths: list[int]
    ) -> None:
        self._lab, self._salt, self._attribution = lab, salt, attribution
        self._tools, self._system, self._message, self._growths = tools, system, message, growths

    @property
    def content_bytes(self) -> int:
        return BYTES_PER_TOKEN * (self._tools + self._system + self._message + sum(self._growths))

    def send(self) -> Sent:
        prompt = self._prompt()
        return Sent(prompt=len(prompt) // 4, cached=self._lab.server.cached(prompt))

    def grow(self, tokens: int) -> None:
        self._growths = [*self._growths, tokens]

    def ahead(self, tokens: int) -> SimulatedConversation:
        copy = self._copy(self._salt)
        copy.grow(tokens)
        return copy

    def resalted(self) -> SimulatedConversation:
        return self._copy(self._lab.fresh_salt())

    def _copy(self, salt: str) -> SimulatedConversation:
        return SimulatedConversation(
            self._lab, salt, self._attribution, self._tools, self._system, self._message, list(self._growths)
        )

    def _prompt(self) -> bytes:
        shape = self._lab.shape
        tools, system = text(f"{self._salt}/tools", self._tools), text(f"{self._salt}/system", self._system)
        sections = [system, tools] if shape.system_first else [tools, system]
        messages = [text(f"{self._salt}/{i}", n) for i, n in enumerate((self._message, *self._growths))]
        sections = [text("preamble", shape.preamble), *sections, *messages]
        if self._lab.disturb is not None:
            sections = self._lab.disturb(sections, self._attribution, len(self._growths))
        return b"".join(sections)
