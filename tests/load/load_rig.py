"""Records and samples made by hand, for tests that need no traffic."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from load.options import LoadOptions
from load.plan import Plan
from load.record import Record
from load.samples import Sample
from load.shapes import Pressure, build
from load.tiers import Tiers

POOL = 100_000
"""Tokens of L1."""


def sample(**given: Any) -> Sample:
    """A good request of 6,400 prompt tokens, nothing cached."""
    base = Sample(
        at=0.0, phase="fill", session=0, conversation="main", kind="turn", entry="messages", client="c", sdk=False,
        sent_bytes=25_000, status=200, ttft=0.1, total=0.2, prompt=6_400, cached=0, output=14, answer="aa",
    )  # fmt: skip
    return replace(base, **given)


def evict_plan(users: int = 2) -> Plan:
    """An evict plan for the pool of these tests."""
    return build("evict", Pressure(pool_tokens=POOL, sessions=4, users=users, mix="messages-only"))


def evict_record(
    *, loaded: float = 12_800, load_bytes: float | None = 12_800.0, cached_back: int = 6_336, answer: str = "aa",
    recalled: bool = True, l2_tokens: int | None = 400_000, others: float = 0.0, stored: float | None = 200_000.0,
    warm_hits: float = 12_672.0, loaded_onward: float | None = None, kept_hits: float = 12_672.0,
) -> Record:  # fmt: skip
    """An evict run: four sessions fill, two repeat warm, thirty press and one amid them repeats twice, two repeat after
    eviction, two go on.

    `others` may be negative: then the engine's metrics count less than was sent.
    """
    plan = evict_plan()
    record = Record(LoadOptions(shape="evict", host="http://127.0.0.1:1", engine="http://e", l2_tokens=l2_tokens), plan)
    clock = iter(range(10_000))
    for session in range(4):
        record.samples.add(sample(at=next(clock), session=session))
        record.samples.add(sample(at=next(clock), session=session, cached=6_336, recalled=True))
    for session in (0, 2):
        record.samples.add(sample(at=next(clock), session=session, kind="again", phase="warm", cached=6_336))
    record.samples.add(sample(at=next(clock), session=34))
    for session in range(4, 34):
        record.samples.add(sample(at=next(clock), session=session, phase="press"))
    for _ in range(2):
        record.samples.add(sample(at=next(clock), session=34, kind="again", phase="keep", cached=6_336))
    for session in (0, 2):
        back = {"kind": "again", "phase": "return", "cached": cached_back, "answer": answer, "recalled": recalled}
        record.samples.add(sample(at=next(clock), session=session, ttft=0.02, **back))
    for session in (1, 3):
        back = {
            "kind": "turn",
            "phase": "return with a turn",
            "prompt": 7_000,
            "cached": cached_back,
            "recalled": recalled,
        }
        record.samples.add(sample(at=next(clock), session=session, ttft=0.02, **back))
    own = float(record.samples.total().prompt)
    start = Tiers(
        l1_queries=0, l1_hits=0, l2_queries=0, l2_hits=0, prompt_tokens=0, store_bytes=0, load_bytes=0, lookups=0
    )
    filled = replace(start, l1_queries=51_200, l1_hits=25_344)
    warmed = replace(filled, l1_queries=64_000, l1_hits=25_344 + warm_hits)
    pressed = replace(warmed, l1_queries=280_000)
    kept = replace(pressed, l1_hits=25_344 + warm_hits + kept_hits)
    before = replace(start, l1_queries=300_000, l1_hits=kept.l1_hits, prompt_tokens=own - 30_000, store_bytes=stored)
    after = replace(before, l2_hits=loaded, l2_queries=12_800, load_bytes=load_bytes, lookups=40)
    record.first = start
    onward = replace(after, l2_hits=loaded + (loaded if loaded_onward is None else loaded_onward))
    record.marks = [
        ("fill", start, filled),
        ("warm", filled, warmed),
        ("press", warmed, pressed),
        ("keep", pressed, replace(pressed, l1_hits=(pressed.l1_hits or 0.0) + kept_hits / 2)),
        ("press", pressed, pressed),
        ("keep", replace(kept, l1_hits=(kept.l1_hits or 0.0) - kept_hits / 2), kept),
        ("return", before, after),
        ("return with a turn", after, onward),
    ]
    record.last = replace(onward, prompt_tokens=own + others)
    if stored is None:
        record.last = replace(record.last, store_bytes=None, load_bytes=None)
    record.pool_tokens, record.block_size = POOL, 64
    return record
