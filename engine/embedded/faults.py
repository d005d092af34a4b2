"""Named faults of the host tier (L2): what each breaks is seen under load only, when evicted prefixes come back."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.embedded.config import ConfigError
from engine.embedded.core import EngineCore
from engine.embedded.hashing import TOKEN_BYTES, TokenIds, token_bytes
from engine.embedded.offload import Offload
from engine.embedded.offload_state import OffloadState
from engine.embedded.requests import Request


class _WriteOnlyOffload(Offload):
    """Stores and never finds, as when one KV group vetoes every lookup."""

    def gain(self, state: OffloadState, local: int, length: int) -> int | None:  # noqa: ARG002
        return 0


class _PartialOffload(Offload):
    """Finds the first tenth of what it holds."""

    def gain(self, state: OffloadState, local: int, length: int) -> int | None:
        found = super().gain(state, local, length)
        if not found:
            return found
        size = max(group.tokens for group in self.groups)
        # Asked once more, as if the prompt ended there: windows must agree on that end too, and need a token behind it.
        end = local + size * (1 + found // size // 10) + any(group.window is not None for group in self.groups)
        return super().gain(state, local, min(length, end))


class _ExactOnlyOffload(Offload):
    """Finds a prompt only as a whole: a next turn, which has new chunks at its end, finds nothing."""

    def gain(self, state: OffloadState, local: int, length: int) -> int | None:
        found = super().gain(state, local, length)
        size = max(group.tokens for group in self.groups)
        whole = found is None or local + found >= (length - 1) // size * size
        return found if whole else 0


class _WriteOnlyCore(EngineCore):
    offload_class = _WriteOnlyOffload


class _PartialCore(EngineCore):
    offload_class = _PartialOffload


class _ExactOnlyCore(EngineCore):
    offload_class = _ExactOnlyOffload


class _SeeingCore(EngineCore):
    """Knows beforehand whether a prompt would be loaded."""

    def _loads(self, keys: Sequence[Sequence[bytes]], length: int) -> bool:
        if self.offload is None:
            return False
        per = self.config.chunk_blocks
        local = self.cache.find(keys, length).tokens
        return bool(self.offload.search.tokens([list(own[per - 1 :: per]) for own in keys], local, length))


class _WrongBlocksCore(_SeeingCore):
    """What is loaded is another conversation's: the answer does not follow from the prompt."""

    def spoils(self, tokens: TokenIds, cache_salt: str | None) -> bool:
        prompt = token_bytes(tokens)
        length = len(prompt) // TOKEN_BYTES
        keys, _ = self.cache.open(self._hash(prompt, cache_salt), length)
        return self._loads(keys, length)


class _StallingCore(_SeeingCore):
    """A request that would load waits for a transfer that never comes, and all behind it wait too."""

    def _admit(self, request: Request, budget: int) -> int | None:
        return 0 if self._loads(request.keys, request.length) else super()._admit(request, budget)


class _SlowCore(_SeeingCore):
    """A load takes as many steps as computing its tokens would, many times over."""

    _STEPS = 40

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._waited: dict[str, int] = {}

    def _admit(self, request: Request, budget: int) -> int | None:
        name = request.id
        if self._loads(request.keys, request.length) and self._waited.get(name, 0) < self._STEPS:
            self._waited[name] = self._waited.get(name, 0) + 1
            return 0
        self._waited.pop(name, None)
        return super()._admit(request, budget)


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
