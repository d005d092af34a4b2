"""KV groups: what they are, which are refused, and what the embedded engine makes of the known geometries."""

from typing import Any

import pytest

from engine.differential.model_run import Player
from engine.differential.scripts import Asked, Script
from engine.embedded import ConfigError, EngineConfig, EngineCore
from engine.embedded.families import FAMILIES, family_of
from engine.embedded.groups import Geometry, GroupError, KVGroup, describe, parse_groups


def test_notation_goes_both_ways() -> None:
    text = "mla:256:x4,window:64:128,window:64:128:draft,full:4"
    groups = parse_groups(text)
    assert describe(groups) == text
    assert groups[0] == KVGroup(kind="mla", block=256, layers=4)
    assert groups[2].draft
    geometry = Geometry(groups)
    assert (geometry.step, geometry.unit) == (256, 4)
    assert (geometry.full_ids, geometry.window_ids) == ((0, 3), (1, 2))
    assert geometry.classes == ((0,), (3,), (1, 2))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "full",
        "full:x",
        "window:16",
        "full:16:128",
        "half:16",
        "full:16:drft",
        "window:16:0",
        "full:0",
        "full:4:x2:x3",
    ],
)
def test_groups_that_are_none(text: str) -> None:
    with pytest.raises(GroupError):
        parse_groups(text)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"groups": parse_groups("full:16")}, "the first KV group has blocks of 16"),
        ({"vllm_version": "0.19"}, "the rules of"),
        ({"vllm_version": "new"}, "the rules of"),
        ({"copy_steps": -1}, "copy_steps"),
        ({"window_rule": "none"}, "vllm, fixed"),
        ({"retention_interval": 64}, "there is none"),
        ({"groups": parse_groups("full:64,window:64:9"), "retention_interval": 65}, "multiple of 64"),
        (
            {
                "groups": parse_groups("full:64,window:64:9"),
                "retention_interval": 64,
                "chunk_blocks": 2,
                "l2_chunks": 9,
            },
            "chunk of every window group",
        ),
    ],
)
def test_refused(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        EngineConfig(**values)


def test_families_by_release() -> None:
    assert [family_of(v).name for v in ("0.27.1", "0.29.0", "0.30.2", "0.31.0", "0.32.0", "0.40", "0.30")] == [
        "0.27-0.29",
        "0.27-0.29",
        "0.30",
        "0.31",
        "0.32+",
        "0.32+",
        "0.30",
    ]
    assert list(FAMILIES) == ["0.27-0.29", "0.30", "0.31", "0.32+"]


def test_a_pool_holds_what_all_groups_need_together() -> None:
    config = EngineConfig(
        block_size=4, num_blocks=21, groups=parse_groups("full:4,window:4:9"), max_num_batched_tokens=8
    )
    # 20 blocks: the window takes at most 4 + 1 of them, the rest are the full group's.
    assert config.pool_tokens == 60
    core = EngineCore(config)
    assert core.complete(range(50), outputs=range(10)).output_tokens == 10
    with pytest.raises(ValueError, match="exceed the context of 60"):
        core.complete(range(60), outputs=range(10))


def again(groups: str, version: str, tokens: int, retention: int | None = 0) -> int:
    """Tokens a re-sent prompt gets from L2 after L1 was emptied."""
    parsed = parse_groups(groups)
    core = EngineCore(
        EngineConfig(
            block_size=parsed[0].block,
            groups=parsed,
            num_blocks=60_000,
            l2_chunks=60_000,
            vllm_version=version,
            retention_interval=retention,
        )
    )
    core.complete(range(tokens))
    assert core.reset_prefix_cache()
    result = core.complete(range(tokens))
    assert result.local_tokens == 0
    return result.external_tokens


# The geometries that were run on vLLM's own scheduler, and whether the re-sent prompt loads there.
GEOMETRIES = [
    ("full:16,window:16:129", 1_550, {"0.27.1": True, "0.29.0": True, "0.32.0": False, "0.33.0": False}),
    ("full:16,window:16:128,full:16:draft", 1_550, {"0.27.1": True, "0.29.0": True, "0.32.0": False, "0.33.0": False}),
    (
        "full:16,window:16:128,window:16:128:draft",
        1_550,
        {"0.27.1": True, "0.29.0": True, "0.32.0": False, "0.33.0": False},
    ),
    (
        "mla:256,window:64:128,window:64:128:draft",
        30_208,
        {"0.27.1": False, "0.29.0": False, "0.32.0": True, "0.33.0": True},
    ),
    ("mla:256,window:64:128,window:64:128:draft", 30_300, dict.fromkeys(("0.27.1", "0.29.0", "0.32.0"), True)),
    (
        "mla:256,window:64:128,mla:256:draft",
        30_300,
        {"0.27.1": True, "0.29.0": True, "0.32.0": False, "0.33.0": False},
    ),
    ("full:16,window:16:128", 1_550, dict.fromkeys(("0.27.1", "0.29.0", "0.30.0", "0.32.0"), True)),
]


@pytest.mark.parametrize(("groups", "tokens", "by_version"), GEOMETRIES)
def test_known_geometries_load_or_not_as_on_vllm(groups: str, tokens: int, by_version: dict[str, bool]) -> None:
    dense = {"0.27.1": None}
    loads = {version: again(groups, version, tokens, dense.get(version, 0)) > 0 for version in by_version}
    assert loads == by_version


def test_a_retention_interval_of_a_block_ends_the_veto() -> None:
    for groups in ("full:32,window:32:129", "full:32,window:32:128,window:32:128:draft"):
        assert again(groups, "0.32.0", 1_610) == 0
        assert again(groups, "0.32.0", 1_610, retention=32) >= 1_536


def test_the_vetoing_group_is_named() -> None:
    groups = parse_groups("full:16,window:16:128,window:16:129")
    core = EngineCore(EngineConfig(block_size=16, groups=groups, num_blocks=2_000, l2_chunks=2_000))
    core.complete(range(800))
    core.reset_prefix_cache()
    core.complete(range(800))
    assert core.offload is not None
    assert core.offload.vetoes == {2: 1}
    assert core.stats.stores > 0
    assert core.stats.loads == 0


def test_the_first_branch_off_a_shared_prefix_gets_nothing_and_the_next_does() -> None:
    groups = parse_groups("full:32,window:32:128")
    core = EngineCore(EngineConfig(block_size=32, groups=groups, num_blocks=2_000))
    shared = list(range(1_000))
    hits = [core.complete(shared + [branch * 7_919 + n for n in range(300)]).cached_tokens for branch in range(3)]
    assert hits == [0, 0, 992]


def test_a_prompt_of_one_token_that_fills_a_block_is_served_out_of_l2() -> None:
    """vLLM 0.32 looks such a prompt up again and again; no client of the embedded engine waits for that."""
    script = Script(
        groups=parse_groups("full:1"),
        num_blocks=20,
        chunk_blocks=1,
        l2_chunks=20,
        retention=0,
        budget=8,
        seats=4,
        prompt_only=True,
        copy_steps=0,
        requests=(Asked((7,), (1, 2)), Asked((7,), (1, 2))),
        events=((0, "add", 0), (12, "reset", False), (12, "add", 1)),
    )
    told = Player(script, "0.32.0").play(quiet=True)["requests"]["1"]
    assert (told["external"], told["outputs"]) == (1, 2)
