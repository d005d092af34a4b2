"""The day on the load generator's own cache model: what the fit is made with, and a second opinion on what is measured.

Prompts are rows of block keys by their structure; token counts follow from bytes at rates measured on the clients.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final

from load.day.acts import Act, day, neighbour_bytes
from load.day.inputs import Inputs
from load.lru import Cache

BYTES_PER_TOKEN: Final = {"claude": 4.117, "reasonix": 4.165, "opencode": 4.66, "neighbour": 4.2}
PREAMBLE: Final = 307
HEAD: Final = 32
"""Tokens of the attribution text before its varying part."""
TITLE_TOKENS: Final = 1_300
OUTPUT: Final = 14

FLOOR: Final = "floor"


@dataclass
class ArmCounts:
    """One arm: (prompt, cached) of every request by row, in order."""

    rows: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: {"claude": [], "reasonix": [], "opencode": []})
    neighbours: list[tuple[int, int]] = field(default_factory=list)

    def rate(self, who: str) -> float:
        """Token-weighted hit rate."""
        rows = self.rows[who]
        return sum(c for _, c in rows) / max(1, sum(p for p, _ in rows))

    def values(self, who: str = "claude") -> Counter[int]:
        """How often each cached count occurred."""
        return Counter(cached for _, cached in self.rows[who])

    def prompt(self, who: str) -> int:
        """Prompt tokens."""
        return sum(p for p, _ in self.rows[who])


def simulate(inputs: Inputs, *, strip: bool, acts: Sequence[Act] | None = None) -> ArmCounts:
    """Serve the day one request after the other."""
    size = inputs.block_size
    cache = Cache(size, inputs.pool_tokens // size, inputs.l2_tokens // size)
    found = ArmCounts()
    sizes = {"claude": 0, "reasonix": 0, "opencode": 0}
    epoch = serial = 0
    tools = (PREAMBLE + HEAD + int(inputs.tools_bytes / BYTES_PER_TOKEN["claude"])) // size

    def serve(who: str, prompt: int, keys: list[Hashable]) -> None:
        private = -(-(prompt + OUTPUT - 1) // size) - len(keys)
        served = cache.serve(keys, prompt, private=private)
        (found.neighbours if who == "neighbour" else found.rows[who]).append((prompt, served.cached))

    def main(who: str, own: tuple[Hashable, ...], shared: int, extra: int = 0) -> None:
        prompt = PREAMBLE + int((sizes[who] + extra) / BYTES_PER_TOKEN[who])
        blocks = prompt // size
        keys: list[Hashable] = [FLOOR]
        keys += [(who, "tools", i) for i in range(1, min(shared, blocks))]
        keys += [(*own, i) for i in range(max(1, shared), blocks)]
        serve(who, prompt, keys)

    for act in acts if acts is not None else day(inputs):
        serial += 1
        if act.who == "neighbour":
            prompt = int(neighbour_bytes(inputs, act.number) / BYTES_PER_TOKEN["neighbour"])
            serve("neighbour", prompt, [("n", act.number, i) for i in range(prompt // size)])
        elif act.what == "title":
            serve("claude", TITLE_TOKENS, [FLOOR, *(("title", act.number, i) for i in range(1, TITLE_TOKENS // size))])
        elif act.who == "claude":
            # Off, the attribution text changes right after the tools; on, tools and system stay for all conversations.
            shared = tools if not strip else tools + int(inputs.system_bytes / BYTES_PER_TOKEN["claude"]) // size

            def own(strip: bool = strip) -> tuple[Hashable, ...]:
                return ("claude", epoch) if strip else ("claude", serial)

            if act.what == "begin":
                sizes["claude"] = inputs.first_bytes
            elif act.what == "compact":
                main("claude", own(), shared, extra=6_000)
                epoch, serial = act.number, serial + 1
                sizes["claude"] = inputs.tools_bytes + inputs.system_bytes + act.bytes
            else:
                sizes["claude"] += act.bytes
            main("claude", own(), shared)
            serial += 1
        else:
            first = inputs.reasonix_first if act.who == "reasonix" else inputs.alias_bytes
            sizes[act.who] = first if act.what == "begin" else sizes[act.who] + act.bytes
            main(act.who, (act.who, act.number if act.who == "reasonix" else 0), 1)
    return found
