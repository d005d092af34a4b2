"""Random sessions for an engine core, and the one check that both the core and its mutants are put through."""

import random
from dataclasses import dataclass
from hashlib import sha256

from hypothesis import strategies as st
from reference_cache import ReferenceCache, Sent, expected_cached

from engine.embedded import EngineConfig, EngineCore


@dataclass(frozen=True)
class Case:
    """One engine and what is sent to it. A reset (`None`: none, else whether L2 too) comes before its request."""

    block: int
    blocks: int
    chunk_blocks: int
    chunks: int
    prompt_only: bool
    budget: int
    requests: tuple[Sent, ...]
    resets: tuple[bool | None, ...]

    @property
    def roomy(self) -> bool:
        """Whether neither tier can have evicted anything."""
        total = sum(-(-(len(sent.prompt) + len(sent.outputs)) // self.block) for sent in self.requests)
        return self.blocks >= total and (not self.chunks or self.chunks * self.chunk_blocks >= total)

    def config(self) -> EngineConfig:
        """The engine of this case."""
        return EngineConfig(
            block_size=self.block,
            num_blocks=self.blocks + 1,
            chunk_blocks=self.chunk_blocks,
            l2_chunks=self.chunks,
            offload_prompt_only=self.prompt_only,
            max_num_batched_tokens=self.budget,
        )


@st.composite
def cases(draw: st.DrawFn, *, roomy: bool | None = None) -> Case:
    """Sessions that extend, repeat, cut short and branch off each other, in pools that often are too small."""
    block = draw(st.integers(1, 6))
    chunk_blocks = draw(st.integers(1, 3))
    rng = random.Random(draw(st.integers(0, 2**32)))
    requests: list[Sent] = []
    for _ in range(draw(st.integers(2, 16))):
        requests.append(_next_request(rng, requests, block))
    longest = max(-(-(len(sent.prompt) + len(sent.outputs)) // block) for sent in requests)
    total = sum(-(-(len(sent.prompt) + len(sent.outputs)) // block) for sent in requests)
    large = draw(st.booleans()) if roomy is None else roomy
    blocks = total if large else longest + rng.randrange(longest + 3)
    chunks = rng.choice([0, total if large else 1 + rng.randrange(2 * longest)])
    return Case(
        block,
        blocks,
        chunk_blocks,
        chunks,
        draw(st.booleans()),
        rng.choice([1, 3, 7, 10_000]),
        tuple(requests),
        tuple(rng.choice([None] * 6 + [False, True]) for _ in requests),
    )


def _next_request(rng: random.Random, earlier: list[Sent], block: int) -> Sent:
    prompt: tuple[int, ...] = ()
    if earlier and rng.random() < 0.85:
        old = rng.choice(earlier[-4:])
        whole = old.prompt + old.outputs
        prompt = rng.choice([whole, old.prompt, whole[: rng.randrange(len(whole) + 1)], whole[block:]])
    # Runs of one token as long as a block: equal blocks turn up after different beginnings.
    for _ in range(rng.randrange(4)):
        prompt += (rng.randrange(3),) * rng.choice([block, block, rng.randrange(2 * block) + 1])
    outputs = tuple(rng.randrange(3) for _ in range(rng.choice([1, 1, 2, block, 2 * block + 1])))
    return Sent((prompt or (0,))[: 14 * block], outputs, rng.choice([None, None, None, "a", "b"]))


def disagreement(core_class: type[EngineCore], case: Case) -> str | None:
    """Run a case on a core and beside it on the reference model; what differs first, or None.

    Looked at for each request: tokens from L1 and from L2 against the model (and against the closed formula where
    nothing can have been evicted), sums, blocks all freed, and that full blocks lie in L1 under their documented keys.
    """
    core = core_class(case.config())
    model = ReferenceCache(case.block, case.blocks, case.chunk_blocks, case.chunks, case.prompt_only, case.budget)
    since_l1: list[Sent] = []
    since_l2: list[Sent] = []
    for number, (sent, reset) in enumerate(zip(case.requests, case.resets, strict=True)):
        if reset is not None:
            if not core.reset_prefix_cache(reset_external=reset):
                return f"reset before request {number} refused"
            model.reset(external=reset)
            since_l1 = []
            since_l2 = [] if reset else since_l2
        result = core.complete(sent.prompt, outputs=sent.outputs, cache_salt=sent.salt)
        got = (result.local_tokens, result.external_tokens)
        if case.roomy:
            formula = expected_cached(
                sent,
                since_l1,
                since_l2,
                block=case.block,
                chunk=case.block * case.chunk_blocks if case.chunks else 0,
                prompt_only=case.prompt_only,
            )
            if got != formula:
                return f"request {number}: {got} from (L1, L2), the formula says {formula}"
        expected = model.send(sent)
        if got != expected:
            return f"request {number}: {got} from (L1, L2), the model says {expected}"
        if result.cached_tokens != sum(got) or result.prompt_tokens != len(sent.prompt):
            return f"request {number}: counts do not add up: {result}"
        if core.pool.num_free != case.blocks:
            return f"request {number} left {case.blocks - core.pool.num_free} blocks held"
        keys = documented_keys(sent, case.block)
        if len(core.pool.cached_prefix(keys, len(keys))) != len(keys):
            return f"request {number}: its full blocks are not cached under their documented keys"
        since_l1.append(sent)
        since_l2.append(sent)
    return None


def documented_keys(sent: Sent, block: int) -> list[bytes]:
    """Block keys as the engine documents them: sha256 over parent, token words, and the salt in the first block."""
    tokens = (sent.prompt + sent.outputs)[:-1]
    parent = sha256(b"prefixproof: no parent block").digest()
    keys: list[bytes] = []
    for end in range(block, len(tokens) + 1, block):
        words = b"".join(token.to_bytes(4, "little") for token in tokens[end - block : end])
        salt = b"salt:" + sent.salt.encode() if sent.salt is not None and not keys else b""
        parent = sha256(parent + words + salt).digest()
        keys.append(parent)
    return keys
