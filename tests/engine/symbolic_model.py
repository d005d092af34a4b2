"""A transformer of symbols, run over the core's own blocks: the answers are right only if every value read was.

A hidden state is a number that names everything it was computed from. Each layer writes one value per token into the
block its group's table says, and reads the values of all tokens it attends to from there; blocks keep what their last
owner left in them, copies to and from L2 move what the block holds, and nothing else is known. An answer equals the
cold one exactly when no stale, missing or foreign value was ever read.
"""

import random
from collections.abc import Sequence
from typing import Any

from engine.differential.scripts import Script
from engine.embedded.core import EngineCore
from engine.embedded.groups import KVGroup
from engine.embedded.offload import Offload
from engine.embedded.offload_state import Copies, OffloadState
from engine.embedded.requests import Request

Layers = tuple[int, ...]  # the group of each layer, bottom to top


def layers_of(groups: Sequence[KVGroup], rng: random.Random) -> Layers:
    """A model's layers in random order; the drafter's do not touch its answers."""
    found = [number for number, group in enumerate(groups) if not group.draft for _ in range(group.layers)]
    rng.shuffle(found)
    return tuple(found)


def cold(tokens: Sequence[int], groups: Sequence[KVGroup], layers: Layers) -> list[int]:
    """The top hidden state of every token, computed without any cache."""
    hidden = [hash(("token", token)) for token in tokens]
    for depth, number in enumerate(layers):
        window = groups[number].window
        values = [hash((depth, state)) for state in hidden]
        hidden = [
            hash((state, tuple(values[0 if window is None else max(0, place - window + 1) : place + 1])))
            for place, state in enumerate(hidden)
        ]
    return hidden


class CopyingOffload(Offload):
    """Moves what blocks hold."""

    memory: "Memory"

    def load(self, state: OffloadState, *args: Any) -> Copies:
        copies = super().load(state, *args)
        self.memory.copy_in(copies, self)
        return copies

    def store(self, state: OffloadState, *args: Any) -> tuple[Copies | None, bool]:
        copies, failed = super().store(state, *args)
        if copies is not None:
            self.memory.copy_out(copies, self)
        return copies, failed


class Memory:
    """What every block and chunk holds: for each depth a row of values by place in the block."""

    def __init__(self) -> None:
        self.blocks: dict[tuple[int, int], dict[int, int]] = {}  # (depth, block) -> place -> value
        self.chunks: dict[bytes, list[dict[int, dict[int, int]]]] = {}  # key -> block by block, depth -> row
        self.depths: list[int] = []

    def row(self, depth: int, block: int) -> dict[int, int]:
        """The values of a block at one depth."""
        return self.blocks.setdefault((depth, block), {})

    def copy_out(self, copies: Copies, offload: Offload) -> None:
        """A store: what the chunk's blocks hold now."""
        per = offload._chunk_blocks
        state = copies.owner
        for group in offload.groups:
            row = state.blocks[group.number]
            for chunk, key in enumerate(state.keys[group.number]):
                if key in copies.keys:
                    self.chunks[key] = [
                        {depth: dict(self.row(depth, block)) if block else {} for depth in self.depths}
                        for block in row[chunk * per : (chunk + 1) * per]
                    ]

    def copy_in(self, copies: Copies, offload: Offload) -> None:
        """A load: into the blocks of the request that waits for it."""
        for group, (start, rows) in self.plans[copies.owner.request_id].items():
            keys = copies.owner.keys[group]
            for place, block in enumerate(rows, start):
                chunk = keys[place // offload._chunk_blocks]
                if chunk in copies.keys and block:
                    held = self.chunks[chunk][place % offload._chunk_blocks]
                    for depth in self.depths:
                        self.blocks[depth, block] = dict(held[depth])

    @property
    def plans(self) -> dict[str, dict[int, tuple[int, list[int]]]]:
        """Set by the core before it loads: for each group where the load begins and the blocks from there."""
        return self._plans

    _plans: dict[str, dict[int, tuple[int, list[int]]]]


class SymbolicCore(EngineCore):
    """A core whose blocks hold symbols. `answers` collects the top state of each generated token's predecessor."""

    offload_class = CopyingOffload
    layers: Layers = ()
    tokens: dict[str, tuple[int, ...]]
    protects = True

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.memory = Memory()
        self.memory._plans = {}
        self.memory.depths = list(range(len(self.layers)))
        self.answers: list[tuple[str, int, int]] = []
        self.tokens = {}
        if isinstance(self.offload, CopyingOffload):
            self.offload.memory = self.memory

    def _load(self, offload: Offload, request: Request, state: OffloadState, local: int, external: int) -> None:
        plan: dict[int, tuple[int, list[int]]] = {}
        for number, (row, group) in enumerate(zip(request.tables.blocks, self._geometry.groups, strict=True)):
            first = -(-local // group.block)
            while first < len(row) and (not row[first] or self.pool.key_of(row[first]) is not None):
                first += 1
            plan[number] = (first, row[first:])
        self.memory._plans[request.id] = plan
        super()._load(offload, request, state, local, external)

    def _offload_step(self, offload: Offload, scheduled: Any, *args: Any) -> None:
        for request, count in scheduled:
            self._forward(request, count)
        super()._offload_step(offload, scheduled, *args)

    def _forward(self, request: Request, count: int) -> None:
        memory, groups = self.memory, self._geometry.groups
        text = self.tokens[request.id]
        start = request.computed
        promoted = request.offload.promoted if request.offload is not None else 0
        hidden = [hash(("token", text[place])) for place in range(start, start + count)]
        for depth, number in enumerate(self.layers):
            group, row = groups[number], request.tables.blocks[number]
            size = group.block
            fresh = []
            for place, state in enumerate(hidden, start):
                block = row[place // size]
                # What was loaded is exact; what is recomputed beside a hole is not.
                loaded = group.window is None and place < promoted and self.protects
                if block and not loaded:
                    memory.row(depth, block)[place % size] = hash((depth, state))
            for place, state in enumerate(hidden, start):
                first = 0 if group.window is None else max(0, place - group.window + 1)
                seen = tuple(
                    memory.row(depth, row[at // size]).get(at % size, -1) if row[at // size] else -2
                    for at in range(first, place + 1)
                )
                fresh.append(hash((state, seen)))
            hidden = fresh
        if start + count == request.length:
            self.answers.append((request.id, request.length - 1, hidden[-1]))


def wrong_answer(
    script: Script, layers: Layers, core_class: type[SymbolicCore], **changes: Any
) -> tuple[str | None, Any]:
    """Play a script; the first answer that differs from the cold one, and the core's statistics."""
    from dataclasses import replace

    core = type(core_class.__name__, (core_class,), {"layers": layers})(replace(script.config("0.32"), **changes))
    wanted: dict[str, list[int]] = {}
    events = list(script.events)
    now = 0
    while events or core.has_work:
        while events and events[0][0] <= now:
            _at, what, argument = events.pop(0)
            name = str(argument)
            if what == "add":
                asked = script.requests[int(argument)]
                core.tokens[name] = asked.prompt + asked.outputs
                wanted[name] = cold(core.tokens[name], script.groups, layers)
                core.add(name, asked.prompt, outputs=asked.outputs, cache_salt=asked.salt)
            elif what == "abort":
                core.abort(name)
            else:
                core.reset_prefix_cache(bool(argument))
        core.step()
        for name, place, answer in core.answers:
            if answer != wanted[name][place]:
                return f"request {name}, token {place}, step {now}", core.stats
        core.answers.clear()
        now += 1
        if now > script.max_steps:
            return "the script does not end", core.stats
    return None, core.stats
