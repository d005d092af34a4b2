"""Every trap the doctor knows is found where it is, and not where it is not."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest

from engine.doctor.finding import Weight, family
from engine.doctor.groups import Group, groups_of
from engine.doctor.launch import Launch, from_text
from engine.doctor.traps import CHECKS, lint

GOOD = "vllm serve m --block-size 32 --enable-prompt-tokens-details"
TIER = json.dumps(
    {"kv_connector": "OffloadingConnector", "kv_connector_extra_config": {"cpu_bytes_to_use": 960_000_000_000}}
)
BOTH = ["sliding_attention", "full_attention"]
WITH_TIER = f"{GOOD} --kv-transfer-config {shlex.quote(TIER)}"
MTP = f"--speculative-config {shlex.quote(json.dumps({'method': 'mtp', 'num_speculative_tokens': 1}))}"
EAGLE = f"--speculative-config {shlex.quote(json.dumps({'method': 'eagle', 'model': 'd'}))}"
NGRAM = f"--speculative-config {shlex.quote(json.dumps({'method': 'ngram'}))}"
FULL, W128, W129 = Group(), Group(128), Group(129)
DRAFT = Group(draft=True)
PLAIN = {"model_type": "llama", "num_hidden_layers": 2}


def layers(kind: str, types: list[str], window: int) -> dict[str, Any]:
    return {"model_type": kind, "num_hidden_layers": len(types), "layer_types": types, "sliding_window": window}


def tier(**extra: Any) -> str:
    held = json.loads(TIER)
    held["kv_connector_extra_config"] |= extra
    return f"{GOOD} --kv-transfer-config {shlex.quote(json.dumps(held))}"


def found(text: str, groups: tuple[Group, ...] = (FULL,), version: str | None = "0.32.0") -> dict[str, Weight]:
    return {finding.id: finding.weight for finding in lint(from_text(text, "a test"), groups, version)}


@pytest.mark.parametrize(
    ("trap", "text", "groups"),
    [
        ("details-off", "vllm serve m --block-size 32", (FULL,)),
        ("caching-off", f"{GOOD} --no-enable-prefix-caching", (FULL,)),
        ("chunk-twice", tier(block_size=64, blocks_per_chunk=2), (FULL,)),
        ("chunk-multiple", tier(block_size=48), (FULL,)),
        ("chunk-hybrid", tier(block_size=64), (FULL, W128)),
        ("retention-multiple", f"{WITH_TIER} --prefix-cache-retention-interval 48", (FULL, W128)),
        ("retention-sparse", WITH_TIER, (FULL, W128)),
        ("prompt-only", WITH_TIER, (FULL,)),
        ("same-connector", f"{GOOD} --kv-offloading-size 100", (FULL,)),
        ("tier-small", tier(cpu_bytes_to_use=1_000_000), (FULL,)),
        ("cumem", f"{WITH_TIER} --enable-cumem-allocator", (FULL,)),
        ("cumem", f"{WITH_TIER} --enable-sleep-mode", (FULL,)),
        ("hybrid-off", f"{WITH_TIER} --disable-hybrid-kv-cache-manager", (FULL, W128)),
        ("groups-unknown", f"{WITH_TIER} {MTP}", ()),
        ("draft-window", f"{WITH_TIER} {EAGLE}", (FULL, W128, DRAFT)),
        ("group-veto", WITH_TIER, (FULL, W129)),
        ("group-veto", f"{WITH_TIER} {MTP}", (FULL, W128, DRAFT)),
    ],
)
def test_a_trap_is_found(trap: str, text: str, groups: tuple[Group, ...]) -> None:
    assert trap in found(text, groups)


def test_a_launch_without_traps_has_none() -> None:
    assert found(GOOD) == {}
    assert found(tier(offload_prompt_only=False)) == {}
    assert set(found(tier(offload_prompt_only=False) + f" {NGRAM}")) == set()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: str(check.__name__))
def test_every_check_finds_something_somewhere(check: Callable[..., Any]) -> None:
    """None is dead: the traps above, and the ones by version below, are spread over all of them."""
    launches = [
        ("vllm serve m --no-enable-prefix-caching", (FULL,), (0, 32)),
        (f"{tier(block_size=48, cpu_bytes_to_use=9)} --enable-cumem-allocator --disable-hybrid-kv-cache-manager",
         (FULL, W129), (0, 32)),
        (f"{WITH_TIER} {EAGLE} --kv-offloading-size 1", (FULL, W128, DRAFT), (0, 32)),
        (f"{WITH_TIER} {MTP}", (), (0, 28)),
        (WITH_TIER, (FULL, W129), (0, 32)),
    ]  # fmt: skip
    assert any(list(check(from_text(text, "a test"), groups, version)) for text, groups, version in launches)


@pytest.mark.parametrize(
    ("groups", "flags", "version", "weight"),
    [
        # Run on CPU: stores and never loads.
        ((FULL, W129), "", "0.32.0+cpu", Weight.TRAP),
        ((FULL, W128, DRAFT), MTP, "0.32.0", Weight.TRAP),
        ((FULL, W129), "", "0.33.0", Weight.TRAP),
        # Run on CPU: loads.
        ((FULL, W128), "", "0.32.0", None),
        ((FULL, DRAFT), MTP, "0.32.0", None),
        ((FULL,), NGRAM, "0.32.0", None),
        ((FULL, W128, DRAFT), EAGLE, "0.32.0", None),
        ((FULL, W129), "--prefix-cache-retention-interval 32", "0.32.0", None),
        ((FULL, W128, DRAFT), f"{MTP} --prefix-cache-retention-interval 32", "0.32.0", None),
        ((FULL, W129), "--disable-hybrid-kv-cache-manager", "0.32.0", None),
        ((FULL, W129), "", "0.29.0", None),
        ((FULL, W129), "", "0.27.1", None),
        # Not known: said with a doubt, never as certain.
        ((FULL, W129), "", None, Weight.DOUBT),
        ((FULL, W129), "", "0.34.0", Weight.DOUBT),
    ],
)
def test_a_veto_is_told_as_it_was_seen_to_happen(
    groups: tuple[Group, ...], flags: str, version: str | None, weight: Weight | None
) -> None:
    assert found(f"{WITH_TIER} {flags}", groups, version).get("group-veto") == weight


def test_the_vetoing_group_is_named_with_its_arithmetic_and_the_way_out() -> None:
    [veto] = [f for f in lint(from_text(WITH_TIER, "a test"), (FULL, W129), "0.32.0") if f.id == "group-veto"]
    assert "group 1 (sliding window 129)" in veto.said
    assert "129 mod 32 = 1: the store keeps 4 chunks, the lookup asks for 5" in veto.said
    assert veto.remedy.startswith("--prefix-cache-retention-interval 32")
    assert veto.upstream == (51771,)


@pytest.mark.parametrize(
    ("groups", "who"),
    [
        ((Group(128, draft=True), W128, FULL), "group 0 (draft, sliding window 128) vetoes every load: the drafter's"),
        ((W128, W128, DRAFT), "groups 0, 1 (sliding window 128) veto every load: the draft group drops a chunk"),
    ],
)
def test_a_drafter_vetoes_itself_where_it_slides_and_else_through_the_windows(
    groups: tuple[Group, ...], who: str
) -> None:
    [veto] = [f for f in lint(from_text(f"{WITH_TIER} {MTP}", "a test"), groups, "0.32.0") if f.id == "group-veto"]
    assert veto.said.startswith(who)


def test_the_incidents_versions() -> None:
    """0.25 and 0.26 take every group for a draft's; 0.27 to 0.29 lose some lengths."""
    dspark = f"--speculative-config {shlex.quote(json.dumps({'method': 'dspark', 'num_speculative_tokens': 7}))}"
    text = f"{WITH_TIER} {dspark}"
    assert found(text, (FULL, W128, DRAFT), "0.26.0")["group-veto"] is Weight.TRAP
    assert found(text, (FULL, W128, DRAFT), "0.28.0")["draft-residue"] is Weight.DOUBT
    assert "group-veto" not in found(text, (FULL, W128, DRAFT), "0.28.0")


@pytest.mark.parametrize(
    ("config", "text", "expected"),
    [
        (PLAIN, GOOD, (FULL,)),
        (layers("cohere2", BOTH, 4_096), GOOD, (Group(4_097), FULL)),
        ({"model_type": "gemma3", "text_config": layers("gemma3_text", BOTH, 1_024)}, GOOD, (Group(1_024), FULL)),
        ({"model_type": "gemma3_text", "num_hidden_layers": 26, "sliding_window": 512, "sliding_window_pattern": 6},
         GOOD, (*[Group(512)] * 6, FULL)),
        ({"model_type": "mistral", "num_hidden_layers": 2, "sliding_window": 4_096}, GOOD, (Group(4_096),)),
        ({"model_type": "qwen2", "num_hidden_layers": 2, "sliding_window": 4_096, "use_sliding_window": False}, GOOD,
         (FULL,)),
        # Which layers slide is not told, or how many layers there are: nothing is guessed.
        ({"model_type": "qwen2", "num_hidden_layers": 2, "sliding_window": 4_096, "use_sliding_window": True}, GOOD,
         ()),
        ({"model_type": "llama"}, GOOD, ()),
        (PLAIN, f"{GOOD} {EAGLE}", (FULL,)),
        (PLAIN, f"{GOOD} {NGRAM}", (FULL,)),
        # As vLLM 0.32.0 numbers them: its log names draft group 0.
        ({**layers("exaone_moe", BOTH * 2, 128), "num_nextn_predict_layers": 1}, f"{GOOD} {MTP}",
         (Group(128, draft=True), W128, FULL)),
        ({"model_type": "deepseek_v4"}, GOOD, ()),
    ],
)  # fmt: skip
def test_groups_of_a_model(config: dict[str, Any], text: str, expected: tuple[Group, ...]) -> None:
    assert groups_of(config, from_text(text, "a test")) == expected


@pytest.mark.parametrize(
    ("version", "expected"),
    [("0.32.0+cpu", (0, 32)), ("v0.33.0rc1", (0, 33)), ("0.26", (0, 26)), ("main", None), (None, None)],
)
def test_versions(version: str | None, expected: tuple[int, int] | None) -> None:
    assert family(version) == expected


def test_switches_in_all_spellings() -> None:
    held = Launch("a test", flags={"a": True, "no-b": True, "c": "false", "d": "True"})
    assert [held.switch(name) for name in "abcde"] == [True, False, False, True, None]
