"""Random scripts: sessions that grow, branch, repeat, run beside each other, are aborted and preempted.

Pools are mostly small, so that both tiers evict; some are large, so that what was stored is there to be loaded. A seed
gives the same script everywhere.
"""

import random
from dataclasses import dataclass, replace

from engine.differential.scripts import Asked, Script, What
from engine.embedded.groups import Geometry, KVGroup, parse_groups

_FIRST_PRESSING = 27
_NONE_SALTS = (None, None, None, None, "a", "b")


@dataclass(frozen=True, slots=True)
class GroupSet:
    """A kind of model. `units` scales its prompts: about how many `step`s of tokens they have."""

    name: str
    shapes: tuple[str, ...]
    units: tuple[int, int]
    chunks: tuple[int, ...] = (1, 1, 2, 3, 4)


GROUP_SETS = (
    GroupSet("full", ("full:4", "full:1", "full:7", "mla:16"), (2, 24)),
    GroupSet(
        "full+window",
        (
            "full:4,window:4:9",
            "full:4,window:4:8",
            "full:4,window:4:13",
            "full:8,window:4:17",
            "full:2,window:4:5",
            "window:4:12,full:8",
            "full:4,window:4:1",
            "full:16,window:16:129",
            "full:16,window:16:128",
        ),
        (3, 16),
    ),
    GroupSet(
        "full+window+draft",
        (
            "full:4,window:4:8,full:4:draft",
            "full:4,window:4:8,window:4:8:draft",
            "full:4,window:4:9,window:4:5:draft",
            "full:8,window:4:12,full:8:draft",
            "full:8,window:4:12,window:4:16:draft",
            "full:16,window:16:128,full:16:draft",
            "mla:4,mla:4:draft",
            "full:4,window:8:24,window:4:8:draft",
        ),
        (3, 14),
    ),
    GroupSet(
        "several groups of one shape",
        (
            "full:4,window:4:8,window:4:8",
            "window:4:9,window:4:9,full:4",
            "window:4:8:draft,window:4:8,full:4",
            "window:8:24,window:8:24,window:8:24,full:8",
            "full:4,full:4,window:4:8",
            "window:4:8,full:4:draft,full:4",
        ),
        (3, 14),
    ),
    GroupSet(
        "DeepSeek-V4 geometry",
        (
            "mla:256,window:64:128,window:64:128:draft,window:4:8,window:8:128",
            "mla:256,window:64:128,window:64:128:draft",
            "mla:256,window:64:128,mla:256:draft",
            "mla:256,window:64:128,window:4:8,window:8:128",
        ),
        (1, 5),
        (1, 1, 1, 2),
    ),
)


def random_script(kind: GroupSet, seed: int) -> Script:
    """Script number `seed` of a kind."""
    rng = random.Random(f"{kind.name}/{seed}")
    groups = parse_groups(rng.choice(kind.shapes))
    geometry = Geometry(groups)
    chunk = rng.choice(kind.chunks)
    # Requests that all grow at once in a pool made for little more than one of them are preempted.
    pressing = seed >= _FIRST_PRESSING and seed % 4 == _FIRST_PRESSING % 4
    requests = _requests(rng, geometry.step, kind.units, rng.randrange(3, 12), pressing)
    longest = max(len(asked.prompt) + len(asked.outputs) for asked in requests)
    total = sum(len(asked.prompt) + len(asked.outputs) for asked in requests)
    budget = rng.choice([geometry.step + 1, 3 * geometry.step, 8 * geometry.step, 8192])
    one = sum(-(-longest // group.block) + 2 for group in groups)
    every = sum(-(-total // group.block) + 2 for group in groups)
    tight = rng.random() < 0.75
    num_blocks = 1 + (one + rng.randrange(1 + one // 4 if pressing else one) if tight or pressing else every)
    chunks_one = max(1, one // chunk)
    l2 = rng.choice([chunks_one // 2 + 1, chunks_one * 2, chunks_one * 4, every])
    retention = _retention(rng, geometry, groups, chunk)
    return Script(
        name=f"{kind.name}/{seed}",
        groups=groups,
        num_blocks=num_blocks,
        chunk_blocks=chunk,
        l2_chunks=l2,
        retention=retention,
        budget=budget,
        seats=rng.choice([2, 4, 64] if pressing else [1, 2, 4, 64]),
        prompt_only=rng.random() < 0.6,
        copy_steps=rng.choice([0, 0, 0, 1, 3]),
        requests=requests,
        events=_events(rng, requests, pressing),
    )


def _retention(rng: random.Random, geometry: Geometry, groups: tuple[KVGroup, ...], chunk: int) -> int | None:
    if not geometry.window_ids:
        return 0
    interval = geometry.step * rng.choice([1, 2, 4])
    fits = all(interval % (groups[number].block * chunk) == 0 for number in geometry.window_ids)
    return rng.choice([0, 0, None, interval if fits else 0])


def _requests(rng: random.Random, step: int, units: tuple[int, int], count: int, pressing: bool) -> tuple[Asked, ...]:
    low, high = units
    found: list[Asked] = []
    for _ in range(count):
        prompt: tuple[int, ...] = ()
        if found and rng.random() < 0.8:
            old = rng.choice(found[-5:])
            whole = old.prompt + old.outputs
            cut = rng.choice([len(whole), len(old.prompt), rng.randrange(len(whole) + 1), len(whole) // step * step])
            prompt = whole[:cut]
        if not prompt or rng.random() < 0.75:
            fresh = rng.randrange(1, step * rng.randint(low, high) + 1)
            alphabet = rng.choice([3, 1_000])
            prompt += tuple(rng.randrange(alphabet) for _ in range(fresh))
        prompt = prompt[: 2 * step * high]
        if rng.random() < 0.2:
            prompt = prompt[: max(1, len(prompt) // step * step)] or prompt
        if step == 1 and len(prompt) == 1:
            prompt *= 2  # vLLM never serves such a prompt once L2 has it: docs/kv-groups.md
        spoken = min(4 * step, 90) if pressing else rng.choice([1, 1, 2, 5, min(step + 1, 40)])
        outputs = tuple(rng.randrange(1_000) for _ in range(spoken))
        found.append(Asked(prompt, outputs, rng.choice(_NONE_SALTS) if rng.random() < 0.3 else None))
    if rng.random() < 0.7:
        found.append(replace(rng.choice(found)))
    return tuple(found)


def _events(
    rng: random.Random, requests: tuple[Asked, ...], pressing: bool
) -> tuple[tuple[int, What, int | bool], ...]:
    """Arrivals one after another or in bursts, some aborts, now and then a reset."""
    crowded = rng.random() < 0.5 or pressing
    aborting = rng.random() < 0.3
    resetting = rng.random() < 0.3
    events: list[tuple[int, What, int | bool]] = []
    now = 0
    for number, asked in enumerate(requests):
        events.append((now, "add", number))
        if aborting and rng.random() < 0.3:
            events.append((now + rng.randrange(0, 12), "abort", number))
        quiet = len(asked.outputs) + 8 + rng.randrange(6)
        now += rng.choice([0, 0, 1, 3]) if crowded else quiet
        if resetting and rng.random() < 0.3:
            now += quiet
            events.append((now, "reset", False))
    return tuple(sorted(events, key=lambda event: event[0]))
