"""Cores with one named fault each: the check that the real core passes must find every one of them."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from engine_sessions import Case, cases, disagreement
from hypothesis import HealthCheck, Phase, find, settings
from reference_cache import Sent

from engine.embedded import EngineCore
from engine.embedded.block_pool import BlockPool
from engine.embedded.faults import TIER_FAULTS
from engine.embedded.hashing import NONE_HASH, TOKEN_BYTES, block_hash, block_hashes, salt_key
from engine.embedded.host_tier import HostTier
from engine.embedded.local_cache import LocalCache
from engine.embedded.offload import Offload
from engine.embedded.offload_state import OffloadState


class UncappedCache(LocalCache):
    """L1 may serve the whole prompt."""

    def _limit(self, length: int) -> int:
        return length


class CapAtPrompt(EngineCore):
    cache_class = UncappedCache


class UnchainedHash(EngineCore):
    """A block's key knows its own tokens only."""

    def _hash(self, tokens: bytes, cache_salt: str | None) -> list[bytes]:
        width = self.config.block_size * TOKEN_BYTES
        first = salt_key(cache_salt)
        return [
            block_hash(NONE_HASH, tokens[end - width : end], first if end == width else b"")
            for end in range(width, len(tokens) + 1, width)
        ]


class SaltOnEveryBlock(EngineCore):
    """The salt is an extra key of all blocks."""

    def _hash(self, tokens: bytes, cache_salt: str | None) -> list[bytes]:
        width = self.config.block_size * TOKEN_BYTES
        hashes: list[bytes] = []
        for end in range(width, len(tokens) + 1, width):
            parent = hashes[-1] if hashes else NONE_HASH
            hashes.append(block_hash(parent, tokens[end - width : end], salt_key(cache_salt)))
        return hashes


class SaltIgnored(EngineCore):
    """Tenants share hits."""

    def _hash(self, tokens: bytes, cache_salt: str | None) -> list[bytes]:  # noqa: ARG002 - the fault is not to look at it
        return block_hashes(tokens, self.config.block_size)


class HeadFirstPool(BlockPool):
    """A request's blocks are freed head first."""

    def release(self, blocks: Sequence[int]) -> None:
        super().release(list(reversed(blocks)))


class HashedToFrontPool(BlockPool):
    """Freed blocks with a hash are reused first."""

    def release(self, blocks: Sequence[int]) -> None:
        super().release(blocks)
        for block in reversed(blocks):
            if block in self._free and self._hashes[block] is not None:
                self._free.move_to_end(block, last=False)


class UnhashedToBackPool(BlockPool):
    """Freed blocks without a hash are reused last."""

    def release(self, blocks: Sequence[int]) -> None:
        super().release(blocks)
        for block in reversed(blocks):
            if block in self._free and self._hashes[block] is None:
                self._free.move_to_end(block)


class ForgetOnFreePool(BlockPool):
    """A block loses its hash when it is freed, not when it is reused."""

    def release(self, blocks: Sequence[int]) -> None:
        super().release(blocks)
        for block in blocks:
            key = self._hashes[block]
            if key is not None and not self._refs[block]:
                self._forget(block, key)


class LastDuplicatePool(BlockPool):
    """Of blocks with equal content a lookup returns the one registered last."""

    def cached_prefix(self, hashes: Sequence[bytes], limit: int) -> list[int]:
        found = super().cached_prefix(hashes, limit)
        holders = [self._holders[key] for key in hashes[: len(found)]]
        return [holder if isinstance(holder, int) else next(reversed(holder)) for holder in holders]


class LastDuplicate(EngineCore):
    pool_class = LastDuplicatePool


class HeadFirstOrder(EngineCore):
    pool_class = HeadFirstPool


class HashedToFront(EngineCore):
    pool_class = HashedToFrontPool


class UnhashedToBack(EngineCore):
    pool_class = UnhashedToBackPool


class ForgetOnFree(EngineCore):
    pool_class = ForgetOnFreePool


class GainsPartialChunks(Offload):
    """The host tier serves gains below one chunk."""

    def gain(self, state: OffloadState, local: int, length: int) -> int | None:
        group = self.groups[0]
        reach = local // group.tokens
        for key in state.known_keys(group)[reach:]:
            if self.tier.state(key) is None:
                break
            reach += 1
        return min(max(0, reach * group.tokens - local), length - local)


class StoresOutputs(Offload):
    """Generated tokens go to L2 although only prompts should."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "prompt_only": False})


class L2LoadsPartialChunks(EngineCore):
    offload_class = GainsPartialChunks


class L2StoresOutputs(EngineCore):
    offload_class = StoresOutputs


class FifoTier(HostTier):
    """Use does not protect a chunk from eviction."""

    def touch(self, keys: Sequence[bytes]) -> None:  # noqa: ARG002 - the fault is not to look at it
        return


class ForwardTouchTier(HostTier):
    """A prompt's head goes before its tail."""

    def touch(self, keys: Sequence[bytes]) -> None:
        super().touch(list(reversed(keys)))


class UnboundedTier(HostTier):
    """The tier never evicts."""

    def reserve(self, keys: Sequence[bytes]) -> list[bytes] | None:
        self.capacity = 10**9
        return super().reserve(keys)


class LostStoresTier(HostTier):
    """Copies are gone when they should be readable."""

    def complete(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            self._readers.pop(key, None)


class L2Fifo(EngineCore):
    tier_class = FifoTier


class L2ForwardTouch(EngineCore):
    tier_class = ForwardTouchTier


class L2Unbounded(EngineCore):
    tier_class = UnboundedTier


class L2LosesStores(EngineCore):
    tier_class = LostStoresTier


class L1ResetKept(EngineCore):
    """A reset answers true and forgets nothing."""

    def reset_prefix_cache(self, reset_external: bool = False) -> bool:  # noqa: ARG002 - the fault is not to look at it
        return True


MUTANTS = [
    CapAtPrompt,
    UnchainedHash,
    SaltOnEveryBlock,
    SaltIgnored,
    HeadFirstOrder,
    HashedToFront,
    UnhashedToBack,
    ForgetOnFree,
    TIER_FAULTS["l2-write-only"].core_class,  # the host tier is written and never read
    L2LoadsPartialChunks,
    L2Fifo,
    L2ForwardTouch,
    L2Unbounded,
    L2LosesStores,
    L2StoresOutputs,
    L1ResetKept,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_mutant_is_caught(mutant: type[EngineCore]) -> None:
    case: Case = find(
        cases(),
        lambda case: disagreement(mutant, case) is not None,
        settings=settings(
            max_examples=2_000,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
    # The same case is no disagreement for the core itself: the check found the fault, not a bad case.
    assert disagreement(EngineCore, case) is None


def test_mutant_that_returns_the_last_duplicate_is_caught() -> None:
    """Random sessions hardly ever get here: a duplicate, another prompt between the two, and a pool just full."""
    prompts = [(0, 0), (1,) * 5, (0, 0), (0, 0, 5, 5, 5), (1,) * 5]
    case = Case(
        block=2,
        blocks=5,
        chunk_blocks=1,
        chunks=0,
        prompt_only=True,
        budget=100,
        requests=tuple(Sent(prompt, (9,)) for prompt in prompts),
        resets=(None,) * len(prompts),
    )
    assert disagreement(EngineCore, case) is None
    assert disagreement(LastDuplicate, case) is not None
