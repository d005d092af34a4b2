"""The whole suite on real vLLM behind the reference gateway, and on vLLM's own endpoints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from vllm_rig import free_port, gateway, suite, vllm

from conformance.pair import ALIAS
from conformance.rules import RULES
from engine.vllm.server import VllmServer

MODEL = "tiny"
NOT_RUN = {rule.id for rule in RULES.values() if rule.needs_load} | {"PFX-05"}
"""What no run on one vLLM channel decides: load, and a channel whose upstream speaks Messages."""


@pytest.fixture(scope="module", params=["cpu-tiny", "cpu-hybrid"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    with vllm(request.param, tmp_path_factory.mktemp(request.param)) as running:
        yield running


def test_the_reference_gateway_in_front_of_it_passes_every_rule(server: VllmServer, tmp_path: Path) -> None:
    listen = f"127.0.0.1:{free_port()}"
    with gateway(f"http://{listen}", MODEL) as url:
        judged = suite(url, tmp_path, "--model", ALIAS, "--engine", server.url, "--upstream-listen", listen)
    assert judged.code == 0, judged.output
    assert judged.rules("fail", "warn", "inconclusive", "suite error") == set(), judged.output
    assert judged.rules("not run") <= NOT_RUN, judged.output
    assert judged.rules("pass") >= set(RULES) - NOT_RUN, judged.output


def test_with_a_recorder_a_forwarded_attribution_block_is_found_though_vllm_drops_it(
    server: VllmServer, tmp_path: Path
) -> None:
    listen = f"127.0.0.1:{free_port()}"
    words = ("--model", ALIAS, "--entry", "messages", "--rules", "PFX-02,PIN-01", "--engine", server.url)
    with gateway(f"http://{listen}", MODEL, fault="keep-billing-header") as url:
        judged = suite(url, tmp_path, *words, "--upstream-listen", listen)
    assert judged.code == 1, judged.output
    assert judged.status("PFX-02") == {"fail"}
    assert judged.status("PIN-01") == {"pass"}, "vLLM 0.32 and later drop the block themselves: no count is pinned"


def test_without_a_recorder_counts_do_not_accuse_a_gateway_that_forwards_it(server: VllmServer, tmp_path: Path) -> None:
    words = ("--model", ALIAS, "--entry", "messages", "--rules", "PFX-02", "--engine", server.url)
    with gateway(server.url, MODEL, fault="keep-billing-header") as url:
        judged = suite(url, tmp_path, *words)
    [verdict] = [v for v in judged.verdicts if v["rule"] == "PFX-02"]
    assert verdict["status"] in ("pass", "inconclusive"), judged.output
    assert "drop" in verdict["reason"], "who keeps the block out is not seen: vLLM 0.32 and later drop it themselves"


def test_vllms_own_endpoints_as_a_target(server: VllmServer, tmp_path: Path) -> None:
    """docs/targets/vllm.md: `message_start` names the whole prompt, the end takes the cached part out of it."""
    judged = suite(server.url, tmp_path, "--model", MODEL)
    assert judged.code == 1, judged.output
    assert judged.rules("fail") == {"STR-02"}, judged.output
    assert judged.rules("warn", "inconclusive", "suite error") == set(), judged.output
    [verdict] = [v for v in judged.verdicts if v["rule"] == "STR-02" and v["status"] == "fail"]
    assert verdict["entry"] == "messages"
