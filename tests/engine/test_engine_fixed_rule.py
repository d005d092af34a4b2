"""Answers stay right: symbols carried through the core's own blocks, under vLLM's rule and under the fixed one.

Every value a layer reads names all it was computed from, so an answer equals the cold one only if nothing stale,
missing or foreign was ever read. The faults at the end show that such a read would be seen.
"""

import random
from dataclasses import replace
from typing import Any

import pytest
from symbolic_model import Layers, SymbolicCore, layers_of, wrong_answer

from engine.differential.generate import GroupSet, random_script
from engine.differential.scripts import Asked, Script
from engine.embedded.config import EngineConfig
from engine.embedded.groups import Geometry, parse_groups
from engine.embedded.local_cache import Hit, LocalCache, Tables

KINDS = GroupSet(
    "symbols",
    (
        "full:4,window:4:9",
        "full:4,window:4:5:x2",
        "full:2,window:2:4:x3,full:2",
        "full:4,window:4:9,window:8:5:x2,full:4:draft",
        "full:4,window:4:7,window:4:7:draft",
        "full:4:x2",
    ),
    (2, 7),
    (1, 1, 2),
)
SCRIPTS = 16


def evicted(seed: int) -> Script:
    """A random script in which L1 is emptied before many requests, so that L2 is asked for most of them."""
    script = random_script(KINDS, seed)
    rng = random.Random(seed)
    events: list[Any] = []
    late = 0
    for at, what, argument in script.events:
        now = at + late
        if what == "add" and rng.random() < 0.6:
            late += 60
            now += 60
            events.append((now, "reset", False))
        events.append((now, what, argument))
    longest = max(len(asked.prompt) + len(asked.outputs) for asked in script.requests)
    room = len(script.requests) * sum(-(-longest // group.block) + 2 for group in script.groups)
    return replace(script, events=tuple(events), l2_chunks=room, name=f"evicted/{seed}")


@pytest.mark.parametrize("rule", ["vllm", "fixed"])
def test_no_answer_is_ever_wrong(rule: str) -> None:
    loads = 0
    for seed in range(SCRIPTS):
        script = evicted(seed)
        if rule == "vllm":
            # With more than one block a chunk it has a hole of its own: see below.
            script = replace(script, chunk_blocks=1)
        wrong, stats = wrong_answer(
            script, layers_of(script.groups, random.Random(seed)), SymbolicCore, window_rule=rule
        )
        assert wrong is None, f"{script.name} {script.title}: {wrong}"
        loads += stats.loads
    assert loads > SCRIPTS // 2


def test_vllms_rule_stores_a_chunk_whose_front_a_window_has_left() -> None:
    """A hit that ends inside a chunk leaves null blocks at its front; vLLM looks at its last block only."""
    base = veto_script(parse_groups("full:2:x2,window:2:4"))
    texts = (range(12), range(100, 112), range(11), range(9))
    script = replace(
        base,
        chunk_blocks=2,
        retention=None,
        l2_chunks=8,  # the second prompt drives the first one's chunks out of L2, not out of L1
        requests=tuple(Asked(tuple(text), (1,)) for text in texts),
        events=((0, "add", 0), (20, "add", 1), (40, "add", 2), (60, "reset", False), (60, "add", 3)),
    )
    layers: Layers = (0, 1, 0)
    wrong, stats = wrong_answer(script, layers, SymbolicCore)
    assert stats.loads == 1
    assert wrong is not None
    assert wrong.startswith("request 3")
    assert wrong_answer(script, layers, SymbolicCore, window_rule="fixed")[0] is None


def test_the_fixed_rule_loads_where_a_window_vetoes() -> None:
    groups = parse_groups("full:4,window:4:9:x2")
    loaded = {}
    for rule in ("vllm", "fixed"):
        script = veto_script(groups)
        wrong, stats = wrong_answer(script, (0, 1, 0, 1), SymbolicCore, window_rule=rule)
        assert wrong is None
        loaded[rule] = stats.external_hits
    replay = Geometry(groups).replay_tokens()
    assert replay == 16
    # Of 100 tokens all 25 full blocks are there. For the last token to come out right the 16 before it are computed
    # once more, from where a prefix can end.
    assert loaded == {"vllm": 0, "fixed": 80}


def veto_script(groups: Any) -> Script:
    """One prompt of 100 tokens, evicted and sent again, to a window that vLLM never loads."""
    script = random_script(KINDS, 0)
    asked = replace(script.requests[0], prompt=tuple(range(100)), outputs=(7, 8, 9), salt=None)
    return replace(
        script,
        groups=groups,
        requests=(asked, asked),
        events=((0, "add", 0), (40, "reset", False), (40, "add", 1)),
        num_blocks=400,
        l2_chunks=400,
        chunk_blocks=1,
        retention=0,
        budget=8_192,
        copy_steps=0,
        prompt_only=True,
        max_model_len=0,
    )


class NothingAgain(SymbolicCore):
    """The full groups are promoted and nothing is computed again."""

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config)
        if self.offload is not None and self.offload._replay is not None:
            self.offload._replay = 0


class OneWindowAgain(SymbolicCore):
    """Only one window is computed again, however many layers have one."""

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config)
        if self.offload is not None and self.offload._replay is not None:
            self.offload._replay = max((g.window or 1) - 1 for g in config.groups)


class OverwritingCore(SymbolicCore):
    """What was loaded is written over by what is computed beside the hole."""

    protects = False


class EarlyKeys(LocalCache):
    """Windows get their keys from where recomputation begins, not from where it is exact."""

    def promote(self, tables: Tables, hit: Hit, start: int, end: int, length: int) -> None:
        super().promote(tables, hit, start, end, length)
        for number in self.geometry.window_ids:
            tables.registered[number] = start // self.geometry.groups[number].block


class EarlyKeysCore(SymbolicCore):
    cache_class = EarlyKeys


@pytest.mark.parametrize("fault", [NothingAgain, OneWindowAgain, OverwritingCore])
def test_a_shorter_cut_gives_wrong_answers(fault: type[SymbolicCore]) -> None:
    layers: Layers = (0, 1, 0, 1, 0)
    script = veto_script(parse_groups("full:4:x3,window:4:9:x2"))
    wrong, stats = wrong_answer(script, layers, fault, window_rule="fixed")
    assert stats.loads == 1
    assert wrong is not None
    assert wrong_answer(script, layers, SymbolicCore, window_rule="fixed")[0] is None


def test_keys_given_too_early_give_wrong_answers_to_the_next_branch() -> None:
    """Whoever branches off inside what was computed beside the hole must not find its blocks."""
    script = veto_script(parse_groups("full:8:x2,window:4:5:x3"))
    # Its last prefix ends at 96; the third window is exact from there on only, and keeps a block before it.
    asked = replace(script.requests[0], prompt=tuple(range(104)))
    branch = replace(asked, prompt=(*asked.prompt[:98], *range(500, 520)))
    script = replace(script, requests=(asked, asked, branch), events=(*script.events, (90, "add", 2)))
    layers: Layers = (0, 1, 1, 1, 0)
    wrong, stats = wrong_answer(script, layers, EarlyKeysCore, window_rule="fixed")
    assert stats.loads == 1
    assert wrong is not None
    assert wrong.startswith("request 2")
    assert wrong_answer(script, layers, SymbolicCore, window_rule="fixed")[0] is None
