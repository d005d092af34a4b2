"""Named faults of the host tier (L2): what each breaks is seen under load only, when evicted prefixes come back."""

from collections.abc import Iterable
from dataclasses import dataclass

from engine.embedded.config import ConfigError
from engine.embedded.core import EngineCore
from engine.embedded.hashing import TokenIds, block_hashes, token_bytes
from engine.embedded.host_tier import HostTier


class _WriteOnlyTier(HostTier):
    """Stores and never finds, as when one KV group vetoes every lookup."""

    def count_ready(self, keys: Iterable[bytes]) -> int:  # noqa: ARG002
        return 0


class _PartialTier(HostTier):
    """Finds the first tenth of what it holds."""

    def count_ready(self, keys: Iterable[bytes]) -> int:
        found = super().count_ready(keys)
        return min(found, 1 + found // 10)


class _ExactOnlyTier(HostTier):
    """Finds a prompt only as a whole: a next turn, which has new chunks at its end, finds nothing."""

    def count_ready(self, keys: Iterable[bytes]) -> int:
        asked = list(keys)
        found = super().count_ready(asked)
        return found if found == len(asked) else 0


class _WriteOnlyCore(EngineCore):
    tier_class = _WriteOnlyTier


class _PartialCore(EngineCore):
    tier_class = _PartialTier


class _ExactOnlyCore(EngineCore):
    tier_class = _ExactOnlyTier


class _WrongBlocksCore(EngineCore):
    """What is loaded is another conversation's: the answer does not follow from the prompt."""

    def spoils(self, tokens: TokenIds, cache_salt: str | None) -> bool:
        if self.tier is None:
            return False
        size, step = self.config.block_size, self.config.chunk_blocks
        hashes = block_hashes(token_bytes(tokens), size, cache_salt)
        local = len(self.pool.cached_prefix(hashes, len(hashes)))
        ends = hashes[step - 1 :: step]
        first = local // step
        return self.tier.count_ready(ends[first:]) > 0


class _StallingCore(EngineCore):
    """A request that would load waits for a transfer that never comes, and all behind it wait too."""

    def _admit(self, request: object, budget: int) -> int:
        if self._loads(request):
            return 0
        return super()._admit(request, budget)  # type: ignore[arg-type]

    def _loads(self, request: object) -> bool:
        if self.tier is None:
            return False
        hashes: list[bytes] = request.hashes  # type: ignore[attr-defined]
        local = len(self.pool.cached_prefix(hashes, len(hashes)))
        ends = hashes[self.config.chunk_blocks - 1 :: self.config.chunk_blocks]
        return self.tier.count_ready(ends[local // self.config.chunk_blocks :]) > 0


class _SlowCore(_StallingCore):
    """A load takes as many steps as computing its tokens would, many times over."""

    _STEPS = 40

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._waited: dict[str, int] = {}

    def _admit(self, request: object, budget: int) -> int:
        name: str = request.id  # type: ignore[attr-defined]
        if self._loads(request) and self._waited.get(name, 0) < self._STEPS:
            self._waited[name] = self._waited.get(name, 0) + 1
            return 0
        self._waited.pop(name, None)
        return EngineCore._admit(self, request, budget)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class TierFault:
    """One fault: what it puts in the place of the right behaviour."""

    name: str
    core_class: type[EngineCore]
    byte_series: bool = True


NO_FAULT = TierFault("", EngineCore)

_ALL = (
    TierFault("l2-write-only", _WriteOnlyCore),
    TierFault("l2-partial", _PartialCore),
    TierFault("l2-exact-only", _ExactOnlyCore),
    TierFault("l2-wrong-blocks", _WrongBlocksCore),
    TierFault("l2-stalls", _StallingCore),
    TierFault("l2-slow", _SlowCore),
    TierFault("l2-unmetered", EngineCore, byte_series=False),
)

TIER_FAULTS = {fault.name: fault for fault in _ALL}
"""Fault name -> fault."""


def tier_fault(name: str | None) -> TierFault:
    """The fault of that name; the right behaviour for None. Raises `ConfigError` for a name nobody knows."""
    if name is None:
        return NO_FAULT
    if name not in TIER_FAULTS:
        raise ConfigError(f"fault={name!r}: choose one of {', '.join(TIER_FAULTS)}")
    return TIER_FAULTS[name]
