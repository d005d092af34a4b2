"""What L1 alone, and L1 with L2, would have given the requests that were really sent, by the cache model of `lru.py`.

Only what the prompts' structure says goes in: a conversation's turn begins with its last prompt, and all prompts share
a template floor, which is measured on the first turns. A turn of a client that rewrites its history takes its place in
the cache, and is in no row: how much of it stayed is not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from conformance.sessions.clients import CLIENTS
from load.lru import Cache
from load.samples import Sample


@dataclass(frozen=True, slots=True)
class Prediction:
    """Token-weighted hit rates of one phase. `n` requests; None where nothing could be predicted."""

    phase: str
    n: int
    measured: float | None
    endless: float | None
    l1: float | None
    with_l2: float | None


def predictions(
    samples: Sequence[Sample], *, block_size: int, pool_tokens: int, l2_tokens: int | None
) -> list[Prediction]:
    """One row a phase. Requests that failed or reported no counts are left out, as are conversations beside the main
    one: nothing is known of what those share."""
    used = [s for s in samples if s.conversation == "main" and s.error is None and s.prompt and s.cached is not None]
    floor = template_floor(used, block_size)
    endless = Cache(block_size)
    small = Cache(block_size, pool_tokens // block_size)
    chunks = (l2_tokens or 0) // block_size
    both = Cache(block_size, pool_tokens // block_size, chunks) if chunks else None
    rows: dict[str, list[tuple[Sample, int, int, int | None]]] = {}
    epochs: dict[int, int] = {}
    for sample in used:
        rewritten = sample.kind == "turn" and sample.session in epochs and _rewrites(sample.client)
        epochs.setdefault(sample.session, 0)
        if rewritten or sample.kind == "compaction":
            epochs[sample.session] += 1
        keys = _keys(sample, floor, epochs[sample.session], block_size)
        prompt = sample.prompt or 0
        private = -(-(prompt + (sample.output or 1) - 1) // block_size) - len(keys)
        found = [cache.serve(keys, prompt, private=private) for cache in (endless, small)]
        with_l2 = both.serve(keys, prompt, private=private).cached if both is not None else None
        if rewritten:
            continue
        rows.setdefault(sample.phase, []).append((sample, found[0].cached, found[1].cached, with_l2))
    return [_row(phase, served) for phase, served in rows.items()]


def template_floor(samples: Sequence[Sample], block_size: int) -> int:
    """Full blocks that every prompt shares: the commonest count among the sessions' first requests but the very first.

    0 where fewer than four sessions began.
    """
    first: dict[int, int] = {}
    for sample in samples:
        first.setdefault(sample.session, sample.cached or 0)
    counts = list(first.values())[1:]
    if len(counts) < 3:
        return 0
    return Counter(counts).most_common(1)[0][0] // block_size


def _rewrites(client: str) -> bool:
    """Whether turns of this client do not only append. Requests of no recorded client are taken to append."""
    return client in CLIENTS and not CLIENTS[client].appends


def _keys(sample: Sample, floor: int, epoch: int, block_size: int) -> list[tuple[int, int, int]]:
    full = (sample.prompt or 0) // block_size
    own = [(sample.session, epoch, i) for i in range(floor, full)]
    return [(-1, 0, i) for i in range(min(floor, full))] + own


def _row(phase: str, served: list[tuple[Sample, int, int, int | None]]) -> Prediction:
    prompt = sum(s.prompt or 0 for s, *_ in served)
    if not prompt:
        return Prediction(phase, len(served), None, None, None, None)
    l2 = [with_l2 for *_, with_l2 in served if with_l2 is not None]
    return Prediction(
        phase,
        len(served),
        sum(s.cached or 0 for s, *_ in served) / prompt,
        sum(endless for _, endless, _, _ in served) / prompt,
        sum(l1 for _, _, l1, _ in served) / prompt,
        sum(l2) / prompt if l2 else None,
    )
