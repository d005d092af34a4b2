"""Cores with one named fault each. A differential that is worth its time finds every one of them."""

from dataclasses import replace

from engine.embedded.config import EngineConfig
from engine.embedded.core import EngineCore
from engine.embedded.local_cache import LocalCache, Tables
from engine.embedded.offload import Offload
from engine.embedded.offload_search import ChunkGroup
from engine.embedded.offload_state import OffloadState
from engine.embedded.store_plan import StorePlan


class WholeWindow(StorePlan):
    """Window groups store every chunk they have blocks for, so that nothing is vetoed for want of a tail."""

    def _worthy(
        self,
        state: OffloadState,
        group: ChunkGroup,
        first: int,
        count: int,
        start: int,
        again: bool,
        junction: int,
    ) -> list[int]:
        del start, again, junction
        per, row = self._chunk_blocks, state.blocks[group.number]
        return [chunk for chunk in range(first, count) if row[chunk * per + per - 1]]


class StoringAll(Offload):
    plan_class = WholeWindow


class NoVeto(EngineCore):
    """The tier holds more of a window than vLLM stores."""

    offload_class = StoringAll


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
