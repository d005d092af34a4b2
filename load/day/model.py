"""The day on the load generator's own cache model: what the fit is made with, and a second opinion on what is measured.

Prompts are rows of block keys by their structure. Their lengths follow from the acts' bytes at rates that were measured
once on these clients with DeepSeek's vocabulary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import orjson

from load.day.acts import Act, day, neighbour_bytes
from load.day.inputs import Inputs
from load.lru import Cache

BYTES_PER_TOKEN: Final = {"claude": 4.758, "reasonix": 4.183, "opencode": 4.747, "neighbour": 4.695}
"""Of what a conversation grows by; of a neighbour, of its whole prompt."""

FIRST_TOKENS: Final = {"claude": 39_992, "reasonix": 19_390, "opencode": 178_505}
"""First prompts of `first_bytes` 165,000, `reasonix_first` 80,000 and `alias_bytes` 850,000; others in proportion."""

FIRST_BYTES: Final = {"claude": 165_000, "reasonix": 80_000, "opencode": 850_000}
COMPACTED_TOKENS: Final = 39_760
"""After a compaction with a summary of 58,000 bytes."""

REQUEST_TOKENS: Final = 1_344
"""What a request for a summary adds."""

TITLE_TOKENS: Final = 552
TOOLS_TOKENS: Final = 18_056
"""Up to the attribution text's first varying character: preamble, 72,700 bytes of tools, the text's head."""

SYSTEM_TOKENS: Final = 24_400
"""Up to the end of the instructions, once the attribution text is gone."""

OUTPUT: Final = 14

FLOOR: Final = "floor"


@dataclass
class ArmCounts:
    """One arm: (prompt, cached) of every request by row, in order."""

    rows: dict[str, list[tuple[int, int]]] = field(
        default_factory=lambda: {"claude": [], "reasonix": [], "opencode": [], "neighbour": []}
    )

    def rate(self, who: str) -> float:
        """Token-weighted hit rate."""
        return sum(c for _, c in self.rows[who]) / max(1, self.prompt(who))

    def values(self, who: str = "claude") -> Counter[int]:
        """How often each cached count occurred."""
        return Counter(cached for _, cached in self.rows[who])

    def prompt(self, who: str) -> int:
        """Prompt tokens."""
        return sum(p for p, _ in self.rows[who])


@dataclass
class _Day:
    """The day as it is served."""

    inputs: Inputs
    strip: bool
    cache: Cache
    found: ArmCounts = field(default_factory=ArmCounts)
    tokens: dict[str, int] = field(default_factory=dict)
    epoch: int = 0
    serial: int = 0
    served: list[tuple[int, list[Hashable]]] | None = None

    def serve(self, who: str, prompt: int, keys: list[Hashable]) -> None:
        private = -(-(prompt + OUTPUT - 1) // self.inputs.block_size) - len(keys)
        served = self.cache.serve(keys, prompt, private=private)
        self.found.rows[who].append((prompt, served.cached))
        if self.served is not None:
            self.served.append((prompt, keys))

    def conversation(self, who: str, own: tuple[Hashable, ...], shared: int, extra: int = 0) -> None:
        """The present prompt: the template floor, `shared` tokens that all of the client's prompts have, its own."""
        size = self.inputs.block_size
        prompt = self.tokens[who] + extra
        head = min(shared // size, prompt // size)
        keys: list[Hashable] = [FLOOR, *((who, "head", i) for i in range(1, head))]
        keys += [(*own, i) for i in range(max(1, head), prompt // size)]
        self.serve(who, prompt, keys)

    def claude(self, act: Act) -> None:
        """On, tools and system stay for all conversations; off, everything behind the tools is each request's own."""
        shared = SYSTEM_TOKENS if self.strip else TOOLS_TOKENS
        if act.what == "begin":
            self.tokens["claude"] = _first("claude", self.inputs.first_bytes)
        elif act.what == "compact":
            self.conversation("claude", self._own(), shared, extra=REQUEST_TOKENS)
            self.epoch = act.number
            self.tokens["claude"] = COMPACTED_TOKENS + int((act.bytes - 58_000) / BYTES_PER_TOKEN["claude"])
        else:
            self.tokens["claude"] += int(act.bytes / BYTES_PER_TOKEN["claude"])
        self.conversation("claude", self._own(), shared)

    def _own(self) -> tuple[Hashable, ...]:
        self.serial += 1
        return ("claude", self.epoch) if self.strip else ("request", self.serial)

    def chat(self, act: Act) -> None:
        first = self.inputs.reasonix_first if act.who == "reasonix" else self.inputs.alias_bytes
        if act.what == "begin":
            self.tokens[act.who] = _first(act.who, first)
        else:
            self.tokens[act.who] += int(act.bytes / BYTES_PER_TOKEN[act.who])
        self.conversation(act.who, (act.who, act.number if act.who == "reasonix" else 0), 0)

    def act(self, act: Act) -> None:
        size = self.inputs.block_size
        if act.who == "neighbour":
            prompt = int(neighbour_bytes(self.inputs, act.number) / BYTES_PER_TOKEN["neighbour"])
            self.serve("neighbour", prompt, [("neighbour", act.number, i) for i in range(prompt // size)])
        elif act.what == "title":
            # One text for all titles, behind the attribution text, which varies where it is sent.
            varying = 0 if self.strip else act.number
            keys: list[Hashable] = [FLOOR, *(("title", varying, i) for i in range(1, TITLE_TOKENS // size))]
            self.serve("claude", TITLE_TOKENS, keys)
        elif act.who == "claude":
            self.claude(act)
        else:
            self.chat(act)


def simulate(inputs: Inputs, *, strip: bool, acts: Sequence[Act] | None = None) -> ArmCounts:
    """Serve the day one request after the other."""
    size = inputs.block_size
    served = _Day(inputs, strip, Cache(size, inputs.pool_tokens // size, inputs.l2_tokens // size))
    for act in acts if acts is not None else day(inputs):
        served.act(act)
    return served.found


def write_traffic(inputs: Inputs, path: Path, *, strip: bool) -> None:
    """The day as the model shapes it, as a trace: a line of JSON a request, `{at, session, prompt, block, ids}`."""
    served = _Day(inputs, strip, Cache(inputs.block_size), served=[])
    for act in day(inputs):
        served.act(act)
    numbers: dict[Hashable, int] = {}
    with path.open("wb") as file:
        for at, (prompt, keys) in enumerate(served.served or ()):
            ids = [numbers.setdefault(key, len(numbers) + 1) for key in keys]
            row = {"at": at, "session": 0, "prompt": prompt, "block": inputs.block_size, "ids": ids}
            file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))


def _first(who: str, n_bytes: int) -> int:
    return FIRST_TOKENS[who] + int((n_bytes - FIRST_BYTES[who]) / BYTES_PER_TOKEN[who])
