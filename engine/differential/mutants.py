"""Cores with one named fault each. A differential that is worth its time finds every one of them."""

from dataclasses import replace

from engine.embedded.config import EngineConfig
from engine.embedded.core import EngineCore
from engine.embedded.local_cache import LocalCache, Tables
from engine.embedded.offload import Offload
from engine.embedded.offload_search import ChunkGroup


class WholeWindow(Offload):
    """The store keeps the whole window's chunks, so that a window of one token more than a chunk loads after all."""

    def _worthy(  # noqa: PLR0913 - as it is called
        self,
        state: "object",
        group: ChunkGroup,
        first: int,
        count: int,
        start: int,
        again: bool,
        prompt: int,
        junction: int,
    ) -> list[int]:
        row = state.blocks[group.number]  # type: ignore[attr-defined]
        per = self._chunk_blocks
        return [chunk for chunk in range(first, count) if row[chunk * per + per - 1]]


class NoVeto(EngineCore):
    """Window groups store every chunk they have, so that nothing is ever vetoed for want of a tail."""

    offload_class = WholeWindow


class KeptDraft(EngineCore):
    """A draft group gives up no block after a hit."""

    def __init__(self, config: EngineConfig) -> None:
        groups = tuple(replace(group, draft=False) for group in config.groups)
        super().__init__(replace(config, groups=groups))


class HeldWindow(LocalCache):
    """Window groups give their blocks back only when the request ends."""

    def leave_window(self, tables: Tables, computed: int) -> None:
        del tables, computed


class HoardingWindow(EngineCore):
    cache_class = HeldWindow


class EagerRecency(EngineCore):
    """Chunks count as used at each lookup and store, as up to 0.30, whatever the release."""

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config)
        if self.offload is not None:
            self.offload._family = replace(self.offload._family, recency_at_end=False)


MUTANTS = (NoVeto, KeptDraft, HoardingWindow, EagerRecency)
